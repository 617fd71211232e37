/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric's provider shm between two processes of one host: messages, with
 * sends outstanding at the source and receives posted ahead at the target. A
 * message that fits is injected, so that it needs no completion.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdio.h>

#include "rival_messages.h"

#define BATCH_SIZE ((size_t)32 << 10)
#define WINDOW 16 /* messages outstanding at each end */
#define COMPLETIONS 16

/* A message that is sent or received; libfabric has the first member. */
struct message {
	struct fi_context2 context;
	bool pending;
	size_t size; /* that has come */
};

struct state {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *sent, *arrived;
	struct fid_ep *ep;
	fi_addr_t other;
	size_t size; /* of the largest message */
	char *out, *in;
	struct message sends[WINDOW], receives[WINDOW];
	uint64_t put, posted, got;
};

static int fail(struct worker *worker, const char *what, ssize_t err)
{
	snprintf(worker->seat->error, sizeof(worker->seat->error), "%s: %s",
	    what, fi_strerror((int)(err < 0 ? -err : err)));
	return -EIO;
}

static int get_info(struct fi_info **info)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->fabric_attr->prov_name = strdup("shm");
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, info);
	fi_freeinfo(hints);
	return ret;
}

static int open_queue(struct state *state, struct fid_cq **queue)
{
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_NONE,
	};

	return fi_cq_open(state->domain, &attr, queue, NULL);
}

static int open_endpoint(struct state *state)
{
	struct fi_av_attr addresses = { .type = FI_AV_TABLE };
	int ret = get_info(&state->info);

	if (!ret)
		ret = fi_fabric(state->info->fabric_attr, &state->fabric, NULL);
	if (!ret)
		ret = fi_domain(
		    state->fabric, state->info, &state->domain, NULL);
	if (!ret)
		ret = fi_av_open(state->domain, &addresses, &state->av, NULL);
	if (!ret)
		ret = open_queue(state, &state->sent);
	if (!ret)
		ret = open_queue(state, &state->arrived);
	if (!ret)
		ret = fi_endpoint(state->domain, state->info, &state->ep, NULL);
	if (!ret)
		ret = fi_ep_bind(state->ep, &state->av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(state->ep, &state->sent->fid, FI_TRANSMIT);
	if (!ret)
		ret = fi_ep_bind(state->ep, &state->arrived->fid, FI_RECV);
	return ret ? ret : fi_enable(state->ep);
}

static int meet(struct worker *worker, struct state *state)
{
	struct rival_address own = { 0 }, other;
	size_t size = sizeof(own.name);
	int ret = fi_getname(&state->ep->fid, own.name, &size);

	if (ret)
		return fail(worker, "fi_getname", ret);
	own.name_size = (uint32_t)size;
	rival_publish(worker, &own);
	ret = rival_await(worker, &other);
	if (ret)
		return ret;
	if (fi_av_insert(state->av, other.name, 1, &state->other, 0, NULL) != 1)
		return fail(worker, "fi_av_insert", FI_EADDRNOTAVAIL);
	return 0;
}

static size_t message_size(const struct plan *plan)
{
	if (plan->trips || plan->api == API_PUSH ||
	    plan->tuple_size > BATCH_SIZE)
		return plan->tuple_size;
	return BATCH_SIZE / plan->tuple_size * plan->tuple_size;
}

static int fabric_shm_prepare(struct worker *worker)
{
	struct state *state = calloc(1, sizeof(*state));
	size_t all;
	int ret;

	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	state->size = message_size(worker->plan);
	all = (WINDOW * state->size + 63) / 64 * 64;
	state->out = aligned_alloc(64, all);
	state->in = aligned_alloc(64, all);
	if (!state->out || !state->in)
		return worker_fail_errno(worker, "a buffer");
	ret = open_endpoint(state);
	return ret ? fail(worker, "libfabric's provider shm", ret)
		   : meet(worker, state);
}

/* Take what has completed on a queue. How many, or a negative errno value. */
static ssize_t take(struct worker *worker, struct fid_cq *queue)
{
	struct fi_cq_msg_entry entries[COMPLETIONS];
	struct fi_cq_err_entry error = { .err = 0 };
	ssize_t n = fi_cq_read(queue, entries, COMPLETIONS), i;
	struct message *message;

	if (n == -FI_EAGAIN)
		return 0;
	if (n == -FI_EAVAIL) {
		fi_cq_readerr(queue, &error, 0);
		return fail(worker, "a message", error.err);
	}
	if (n < 0)
		return fail(worker, "fi_cq_read", n);
	for (i = 0; i < n; i++) {
		message = entries[i].op_context;
		message->size = entries[i].len;
		message->pending = false;
	}
	return n;
}

/* Wait until a message is through. Both queues have to be looked at. */
static int await(struct worker *worker, const struct message *message)
{
	struct state *state = worker->state;
	uint32_t polls = 0;
	ssize_t sent, arrived;

	while (message->pending) {
		arrived = take(worker, state->arrived);
		sent = arrived < 0 ? arrived : take(worker, state->sent);
		if (sent < 0)
			return (int)sent;
		if (sent + arrived > 0)
			polls = 0;
		else
			raw_poll_pause(worker->plan->yields, &polls);
	}
	return 0;
}

static char *fabric_shm_claim(struct worker *worker, size_t size)
{
	struct state *state = worker->state;
	uint64_t at = state->put % WINDOW;

	(void)size;
	return await(worker, &state->sends[at]) ? NULL
						: state->out + at * state->size;
}

static ssize_t send_message(
    struct state *state, const char *from, size_t size, struct message *message)
{
	ssize_t ret;

	if (size <= state->info->tx_attr->inject_size)
		return fi_inject(state->ep, from, size, state->other);
	message->pending = true;
	ret = fi_send(state->ep, from, size, NULL, state->other, message);
	message->pending = !ret;
	return ret;
}

static int fabric_shm_commit(struct worker *worker, size_t size)
{
	struct state *state = worker->state;
	uint64_t at = state->put++ % WINDOW;
	uint32_t polls = 0;
	ssize_t ret, taken;

	while ((ret = send_message(state, state->out + at * state->size, size,
		    &state->sends[at])) == -FI_EAGAIN) {
		taken = take(worker, state->sent);
		if (taken < 0)
			return (int)taken;
		raw_poll_pause(worker->plan->yields, &polls);
	}
	return ret ? fail(worker, "fi_send", ret) : 0;
}

static int fabric_shm_flush(struct worker *worker)
{
	struct state *state = worker->state;
	uint32_t i;
	int ret = 0;

	for (i = 0; i < WINDOW && !ret; i++)
		ret = await(worker, &state->sends[i]);
	return ret;
}

/* What was lent last has been read. */
static int post_receives(struct worker *worker, struct state *state)
{
	struct message *message;
	uint64_t at;
	ssize_t ret;

	for (; state->posted < state->got + WINDOW; state->posted++) {
		at = state->posted % WINDOW;
		message = &state->receives[at];
		message->pending = true;
		ret = fi_recv(state->ep, state->in + at * state->size,
		    state->size, NULL, FI_ADDR_UNSPEC, message);
		if (ret == -FI_EAGAIN)
			break;
		if (ret)
			return fail(worker, "fi_recv", ret);
	}
	return 0;
}

static ssize_t fabric_shm_consume(struct worker *worker, const char **at)
{
	struct state *state = worker->state;
	uint64_t slot = state->got % WINDOW;
	int ret = post_receives(worker, state);

	if (!ret)
		ret = await(worker, &state->receives[slot]);
	if (ret)
		return ret;
	state->got++;
	*at = state->in + slot * state->size;
	return (ssize_t)state->receives[slot].size;
}

static const struct rival_calls calls = {
	.claim = fabric_shm_claim,
	.commit = fabric_shm_commit,
	.consume = fabric_shm_consume,
	.flush = fabric_shm_flush,
	.batch_size = BATCH_SIZE,
};

static int fabric_shm_run(struct worker *worker)
{
	return rival_messages(worker, &calls);
}

static void close_fid(struct fid *fid)
{
	if (fid)
		fi_close(fid);
}

static void fabric_shm_finish(struct worker *worker)
{
	struct state *state = worker->state;

	if (!state)
		return;
	rival_await_end(worker);
	close_fid(state->ep ? &state->ep->fid : NULL);
	close_fid(state->arrived ? &state->arrived->fid : NULL);
	close_fid(state->sent ? &state->sent->fid : NULL);
	close_fid(state->av ? &state->av->fid : NULL);
	close_fid(state->domain ? &state->domain->fid : NULL);
	close_fid(state->fabric ? &state->fabric->fid : NULL);
	if (state->info)
		fi_freeinfo(state->info);
	free(state->out);
	free(state->in);
	free(state);
}

static const char *version(void)
{
	static char text[48];
	struct fi_info *info = NULL;
	uint32_t number = fi_version();

	if (*text)
		return text;
	if (get_info(&info))
		return NULL;
	fi_freeinfo(info);
	snprintf(text, sizeof(text), "libfabric %u.%u, provider shm",
	    FI_MAJOR(number), FI_MINOR(number));
	return text;
}

const struct rival rival_fabric_shm = {
	.version = version,
	.job = {
		.prepare = fabric_shm_prepare,
		.run = fabric_shm_run,
		.finish = fabric_shm_finish,
	},
};
