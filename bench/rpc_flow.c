/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service over two open flows, as in examples/rpc: a client takes a seat as a
 * target of replies, then one as a source of requests.
 */
#include <dfi/dfi.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "../common/complain.h"
#include "../common/threads.h"
#include "rpc.h"
#include "tuple.h"
#include "values.h"

static bool succeeded(const char *call, int ret)
{
	if (ret < 0)
		complain("%s: %s", call, dfi_errmsg());
	return ret >= 0;
}

static bool create(
    struct rpc_service *service, char *name, const char *what, bool replies)
{
	const struct common_options *options = service->options;
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct tuple_schema schema;

	snprintf(name, PLAN_NAME_SIZE, "dfi-bench.%d.%lu.%s", (int)getpid(),
	    (unsigned long)service->session->n_flows++, what);
	tuple_schema_init(&schema, service->tuple_size);
	attr.kind = DFI_SHUFFLE;
	attr.goal = DFI_LATENCY;
	attr.schema = &schema.schema;
	attr.n_sources = replies ? 1 : service->n_seats;
	attr.n_targets = replies ? service->n_seats : 1;
	attr.routing = replies ? DFI_ROUTE_DIRECT : DFI_ROUTE_ANY;
	attr.transport = service->session->transport;
	attr.segment_size = options->geometry.segment_size;
	attr.segment_count = options->geometry.segment_count
	    ? options->geometry.segment_count
	    : 16;
	attr.open.membership = DFI_MEMBERS_OPEN;
	attr.open.on_loss = DFI_ON_LOSS_DROP;
	return succeeded("dfi_flow_create",
	    dfi_flow_create(service->session->dfi, name, &attr));
}

static struct dfi_target_attr target_attr(const struct rpc_service *service)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	attr.wait = service->options->wait;
	return attr;
}

static struct dfi_source_attr source_attr(const struct rpc_service *service)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;

	attr.wait = service->options->wait;
	return attr;
}

/* The first request shows that a client is there, for which this waits. */
static int open_replies(struct rpc_service *service)
{
	struct dfi_source_attr attr = source_attr(service);

	attr.stall_timeout_ms = service->options->timeout_s * 1000;
	return dfi_source_open(
	    service->dfi, service->reply_flow, 0, &attr, &service->replies);
}

static void *serve(void *arg)
{
	struct rpc_service *service = arg;
	const uint64_t *request;
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(service->requests, &tuple)) > 0) {
		request = tuple;
		ret = service->replies ? 0 : open_replies(service);
		if (!ret)
			ret = dfi_source_push_to(service->replies,
			    (uint32_t)request[RPC_SEAT], request);
		if (ret < 0)
			break;
	}
	service->failed = !succeeded("the server", ret);
	return NULL;
}

static bool close_server(struct rpc_service *service)
{
	bool done = true;

	if (service->requests)
		done &= succeeded(
		    "dfi_target_close", dfi_target_close(service->requests));
	if (service->replies)
		done &= succeeded(
		    "dfi_source_close", dfi_source_close(service->replies));
	(void)dfi_flow_remove(service->session->dfi, service->request_flow);
	(void)dfi_flow_remove(service->session->dfi, service->reply_flow);
	return (!service->dfi ||
		   succeeded("dfi_close", dfi_close(service->dfi))) &&
	    done;
}

static bool flow_start(struct rpc_service *service)
{
	struct dfi_target_attr requests = target_attr(service);
	struct dfi_attr attr = DFI_ATTR_INIT;
	bool done;

	attr.registry = service->session->address;
	attr.node_name = "dfi-bench-server";
	done = create(service, service->request_flow, "requests", false) &&
	    create(service, service->reply_flow, "replies", true) &&
	    succeeded("dfi_open", dfi_open(&attr, &service->dfi));
	done = done &&
	    succeeded("dfi_target_open",
		dfi_target_open(service->dfi, service->request_flow, 0,
		    &requests, &service->requests)) &&
	    thread_start(&service->thread, serve, service) == 0;
	if (!done)
		(void)close_server(service);
	return done;
}

static bool flow_stop(struct rpc_service *service)
{
	bool done = succeeded("dfi_flow_finish",
	    dfi_flow_finish(service->session->dfi, service->request_flow));

	pthread_join(service->thread, NULL);
	return close_server(service) && done && !service->failed;
}

static bool flow_join(struct rpc_client *client)
{
	const struct rpc_service *service = client->service;
	struct dfi_target_attr replies = target_attr(service);
	struct dfi_source_attr requests = source_attr(service);

	replies.stall_timeout_ms = service->options->timeout_s * 1000;
	if (!succeeded("dfi_target_open",
		dfi_target_open(service->session->dfi, service->reply_flow,
		    DFI_ANY_SEAT, &replies, &client->replies)))
		return false;
	if (!succeeded("dfi_source_open",
		dfi_source_open(service->session->dfi, service->request_flow,
		    DFI_ANY_SEAT, &requests, &client->requests))) {
		(void)dfi_target_close(client->replies);
		return false;
	}
	client->request[RPC_SEAT] = (uint64_t)dfi_target_seat(client->replies);
	return true;
}

static bool flow_call(struct rpc_client *client)
{
	uint32_t size = client->service->tuple_size;
	const void *tuple;
	int ret = dfi_source_push(client->requests, client->request);

	if (!succeeded("dfi_source_push", ret))
		return false;
	do {
		ret = dfi_target_consume(client->replies, &tuple);
		if (!succeeded("dfi_target_consume", ret))
			return false;
		if (!ret) {
			complain("the server has left");
			return false;
		}
	} while (((const uint64_t *)tuple)[RPC_ID] != client->request[RPC_ID]);
	memcpy(client->reply, tuple, size);
	return true;
}

static bool flow_leave(struct rpc_client *client)
{
	bool done = succeeded(
	    "dfi_source_close", dfi_source_close(client->requests));

	return succeeded(
		   "dfi_target_close", dfi_target_close(client->replies)) &&
	    done;
}

const struct rpc_ops rpc_flow_ops = {
	.name = "open flows",
	.start = flow_start,
	.stop = flow_stop,
	.join = flow_join,
	.call = flow_call,
	.leave = flow_leave,
};
