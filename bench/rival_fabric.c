/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bare loop over libfabric's provider tcp: the source builds segments in a
 * ring, and writes each with completion data to the same place of the target's
 * ring; the target reads it there, and gives a quarter of the ring back by the
 * completion data of an empty write. One thread at each end, which does nothing
 * else, and no way to wait, to lose a peer, or to end early.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rival.h"

#define COMPLETIONS 32
#define RING_KEY 1
#define CREDIT_KEY 2

/* One write in this many reports its local completion. */
#define SIGNAL_INTERVAL 32

#define EVENT_MS 10000

struct state {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_pep *listener;
	struct fid_ep *ep;
	struct fid_mr *mr;
	char *ring;
	uint64_t ring_size;
	struct rival_address address; /* of the target's ring */
	uint64_t credit;              /* segments that were given back */
};

static int fail(struct worker *worker, const char *what, ssize_t err)
{
	snprintf(worker->seat->error, sizeof(worker->seat->error), "%s: %s",
	    what, fi_strerror((int)(err < 0 ? -err : err)));
	return -EIO;
}

static int get_info(uint32_t port, bool source, struct fi_info **info)
{
	struct fi_info *hints = fi_allocinfo();
	char text[12];
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	snprintf(text, sizeof(text), "%u", port);
	hints->caps = FI_MSG | FI_RMA;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->cq_data_size = 8;
	hints->fabric_attr->prov_name = strdup("tcp");
	ret = fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", text,
	    source ? 0 : FI_SOURCE, hints, info);
	fi_freeinfo(hints);
	return ret;
}

static int open_domain(struct worker *worker, struct state *state)
{
	struct fi_eq_attr events = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr completions = {
		.format = FI_CQ_FORMAT_DATA,
		.wait_obj = FI_WAIT_NONE,
	};
	bool source = worker->seat->role == ROLE_SOURCE;
	int ret = get_info(state->address.port, source, &state->info);

	if (!ret)
		ret = fi_fabric(state->info->fabric_attr, &state->fabric, NULL);
	if (!ret)
		ret = fi_domain(
		    state->fabric, state->info, &state->domain, NULL);
	if (!ret)
		ret = fi_eq_open(state->fabric, &events, &state->eq, NULL);
	if (!ret)
		ret = fi_cq_open(state->domain, &completions, &state->cq, NULL);
	if (!ret)
		ret = fi_mr_reg(state->domain, state->ring, state->ring_size,
		    FI_REMOTE_WRITE, 0, source ? CREDIT_KEY : RING_KEY, 0,
		    &state->mr, NULL);
	return ret ? fail(worker, "libfabric's provider tcp", ret) : 0;
}

static int open_endpoint(struct state *state, struct fi_info *info)
{
	int ret = fi_endpoint(state->domain, info, &state->ep, NULL);

	if (!ret)
		ret = fi_ep_bind(state->ep, &state->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(state->ep, &state->cq->fid,
		    FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION);
	return ret ? ret : fi_enable(state->ep);
}

static int await_event(
    struct state *state, uint32_t wanted, struct fi_eq_cm_entry *entry)
{
	uint32_t type = 0;
	ssize_t n = fi_eq_sread(
	    state->eq, &type, entry, sizeof(*entry), EVENT_MS, 0);

	return n < 0 ? (int)n : type == wanted ? 0 : -FI_EOTHER;
}

/* Publish the ring at a port, and accept the source. */
static int accept_source(struct worker *worker, struct state *state)
{
	struct sockaddr_in name;
	struct fi_eq_cm_entry entry;
	size_t size = sizeof(name);
	int ret = fi_passive_ep(
	    state->fabric, state->info, &state->listener, NULL);

	if (!ret)
		ret = fi_pep_bind(state->listener, &state->eq->fid, 0);
	if (!ret)
		ret = fi_listen(state->listener);
	if (!ret)
		ret = fi_getname(&state->listener->fid, &name, &size);
	if (ret)
		return ret;
	state->address = (struct rival_address){
		.port = ntohs(name.sin_port),
		.at = state->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR
		    ? (uint64_t)(uintptr_t)state->ring
		    : 0,
		.key = fi_mr_key(state->mr),
	};
	rival_publish(worker, &state->address);
	ret = await_event(state, FI_CONNREQ, &entry);
	if (ret)
		return ret;
	ret = open_endpoint(state, entry.info);
	fi_freeinfo(entry.info);
	return ret ? ret : fi_accept(state->ep, NULL, 0);
}

static int connect_target(struct state *state)
{
	int ret = open_endpoint(state, state->info);

	return ret ? ret
		   : fi_connect(state->ep, state->info->dest_addr, NULL, 0);
}

static int fabric_prepare(struct worker *worker)
{
	const struct raw_geometry *geometry = &worker->plan->geometry;
	bool source = worker->seat->role == ROLE_SOURCE;
	struct state *state = calloc(1, sizeof(*state));
	struct fi_eq_cm_entry entry;
	int ret = 0;

	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	state->ring_size = (uint64_t)geometry->segment_size *
	    geometry->segment_count;
	state->ring = aligned_alloc(4096, (state->ring_size + 4095) & ~4095ul);
	if (!state->ring)
		return worker_fail_errno(worker, "a ring");
	memset(state->ring, 0, state->ring_size);
	if (source)
		ret = rival_await(worker, &state->address);
	if (!ret)
		ret = open_domain(worker, state);
	if (ret)
		return ret;
	ret = source ? connect_target(state) : accept_source(worker, state);
	if (!ret)
		ret = await_event(state, FI_CONNECTED, &entry);
	return ret ? fail(worker, "a connection", ret) : 0;
}

/* ---- The loops --------------------------------------------------------- */

static ssize_t take(
    struct worker *worker, struct state *state, struct fi_cq_data_entry *entry)
{
	struct fi_cq_err_entry error = { .err = 0 };
	ssize_t n = fi_cq_read(state->cq, entry, COMPLETIONS);

	if (n == -FI_EAGAIN)
		return 0;
	if (n != -FI_EAVAIL)
		return n < 0 ? fail(worker, "fi_cq_read", n) : n;
	fi_cq_readerr(state->cq, &error, 0);
	return fail(worker, "a write", error.err);
}

/* Take credit until a slot is free. */
static int await_slot(struct worker *worker, struct state *state, uint64_t sent)
{
	uint64_t count = worker->plan->geometry.segment_count;
	struct fi_cq_data_entry entries[COMPLETIONS];
	uint32_t polls = RAW_SPINS;
	ssize_t n, i;

	while (sent - state->credit >= count) {
		n = take(worker, state, entries);
		for (i = 0; i < n; i++)
			if (entries[i].flags & FI_REMOTE_WRITE)
				state->credit = entries[i].data;
		if (n < 0)
			return (int)n;
		if (!n)
			raw_poll_pause(worker->plan->yields, &polls);
	}
	return 0;
}

static ssize_t write_segment(const struct state *state, const char *from,
    uint64_t offset, uint64_t size, uint64_t number)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)from,
		.iov_len = size };
	struct fi_rma_iov to = {
		.addr = state->address.at + offset,
		.len = size,
		.key = state->address.key,
	};
	struct fi_msg_rma message = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.data = size,
	};
	uint64_t flags = FI_REMOTE_CQ_DATA |
	    (number % SIGNAL_INTERVAL ? 0 : FI_COMPLETION);

	return fi_writemsg(state->ep, &message, flags);
}

static int send_all(struct worker *worker, struct state *state)
{
	const struct plan *plan = worker->plan;
	struct pattern pattern = pattern_from(source_first_word(0));
	uint64_t left = plan->tuples, sent = 0, n, offset;
	ssize_t ret;

	for (; left > 0; left -= n, sent++) {
		ret = await_slot(worker, state, sent);
		if (ret)
			return (int)ret;
		n = rival_batch(plan);
		n = n < left ? n : left;
		offset = sent % plan->geometry.segment_count *
		    plan->geometry.segment_size;
		rival_fill(state->ring + offset, n, plan->tuple_size, &pattern);
		ret = write_segment(state, state->ring + offset, offset,
		    n * plan->tuple_size, sent);
		if (ret)
			return fail(worker, "fi_writemsg", ret);
	}
	/* All has arrived when all slots are free. */
	ret = await_slot(
	    worker, state, sent + plan->geometry.segment_count - 1);
	rival_done(worker, plan->tuples, plan_source_sum(plan, 0));
	return (int)ret;
}

static int give_credit(
    struct worker *worker, struct state *state, uint64_t consumed)
{
	ssize_t ret;

	do {
		ret = fi_inject_writedata(
		    state->ep, NULL, 0, consumed, 0, 0, CREDIT_KEY);
	} while (ret == -FI_EAGAIN && fi_cq_read(state->cq, NULL, 0) < 1);
	return ret ? fail(worker, "a credit", ret) : 0;
}

static int receive_all(struct worker *worker, struct state *state)
{
	const struct plan *plan = worker->plan;
	uint64_t count = plan->geometry.segment_count, consumed = 0;
	uint64_t quarter = count < 4 ? 1 : count / 4, tuples = 0, size;
	struct fi_cq_data_entry entries[COMPLETIONS];
	struct word_sum sum = { 0 };
	uint32_t polls = RAW_SPINS;
	ssize_t n, i;
	int ret;

	while (tuples < plan->tuples) {
		n = take(worker, state, entries);
		for (i = 0; i < n; i++) {
			if (!(entries[i].flags & FI_REMOTE_WRITE))
				continue;
			size = entries[i].data;
			rival_sum(state->ring +
				consumed % count * plan->geometry.segment_size,
			    size / plan->tuple_size, plan->tuple_size, &sum);
			tuples += size / plan->tuple_size;
			if (++consumed % quarter && tuples < plan->tuples)
				continue;
			ret = give_credit(worker, state, consumed);
			if (ret)
				return ret;
		}
		if (n < 0)
			return (int)n;
		if (!n)
			raw_poll_pause(plan->yields, &polls);
	}
	rival_done(worker, tuples, word_sum_total(&sum));
	return 0;
}

static int fabric_run(struct worker *worker)
{
	return worker->seat->role == ROLE_SOURCE
	    ? send_all(worker, worker->state)
	    : receive_all(worker, worker->state);
}

static void close_fid(struct fid *fid)
{
	(void)fi_close(fid);
}

static void fabric_finish(struct worker *worker)
{
	struct state *state = worker->state;

	if (!state)
		return;
	if (state->ep)
		close_fid(&state->ep->fid);
	if (state->listener)
		close_fid(&state->listener->fid);
	if (state->mr)
		close_fid(&state->mr->fid);
	if (state->cq)
		close_fid(&state->cq->fid);
	if (state->domain)
		close_fid(&state->domain->fid);
	if (state->eq)
		close_fid(&state->eq->fid);
	if (state->fabric)
		close_fid(&state->fabric->fid);
	if (state->info)
		fi_freeinfo(state->info);
	free(state->ring);
	free(state);
}

static const char *version(void)
{
	static char text[48];
	uint32_t number = fi_version();

	snprintf(text, sizeof(text), "libfabric %u.%u, bare fi_writemsg",
	    FI_MAJOR(number), FI_MINOR(number));
	return text;
}

const struct rival rival_fabric = {
	.version = version,
	.job = {
		.prepare = fabric_prepare,
		.run = fabric_run,
		.finish = fabric_finish,
	},
};
