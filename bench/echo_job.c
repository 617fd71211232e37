/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round trips: the source's thread is the client, the target's the server. Each
 * round trip takes one time stamp, between a response and the next request, and
 * only stores it. The histogram is made after the last trip. If requests are
 * replicated, each target is a server, and a trip ends with the last response.
 * At a given rate, requests are due at fixed times, and a trip lasts from then
 * on: a slow reply makes the next ones late, which counts.
 */
#include <dfi/dfi.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>

#include "echo_bulk.h"
#include "flow_job.h"
#include "ticks.h"
#include "worker.h"

/* At most so many round trips before those that count. */
#define WARM_UP 1000

/* The distance between JOB_ECHO_RAW's lines in the data area. */
#define LINE_DISTANCE 256

struct echo_state {
	struct tuple_schema schema;
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t *tuple;
	uint64_t *stamps;               /* the client's; NULL for the server */
	uint64_t *begins;               /* of trips that overlap, or NULL */
	uint64_t trips;                 /* including warm-up */
	uint64_t interval_ns, begin_ns; /* as echo_due() says; 0: closed loop */
	uint64_t link_latency_ns;       /* modelled, of each way */
	bool yields;                    /* while the client has time */
	uint32_t size;
	uint32_t n_servers;
	uint32_t together;  /* trips that count as one value */
	struct pollfd poll; /* of the target, or -1 */
	struct echo_bulk bulk;
};

static uint64_t warm_up(const struct plan *plan)
{
	return plan->tuples < WARM_UP ? plan->tuples : WARM_UP;
}

static uint64_t count_stamps(const struct plan *plan)
{
	return plan->tuples + warm_up(plan) + 1;
}

static uint64_t echo_needs(const struct plan *plan)
{
	return (plan->window > 1 ? 2 : 1) * count_stamps(plan) *
	    sizeof(uint64_t);
}

static int prepare_state(struct worker *worker)
{
	struct echo_state *state = calloc(1, sizeof(*state));
	uint32_t size = worker->plan->tuple_size;

	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	state->size = size;
	state->n_servers = worker->plan->n_targets;
	state->trips = worker->plan->tuples + warm_up(worker->plan);
	state->interval_ns = worker->plan->interval_ns;
	state->link_latency_ns = worker->plan->link_latency_ns;
	state->together = worker->plan->trips_together;
	state->yields = worker->plan->echo == ECHO_YIELD;
	state->tuple = aligned_alloc(64, (size + 63) / 64 * 64);
	if (!state->tuple)
		return worker_fail_errno(worker, "a tuple");
	if (worker->seat->role == ROLE_TARGET)
		return 0;
	state->stamps = calloc(
	    count_stamps(worker->plan), sizeof(*state->stamps));
	if (worker->plan->window > 1)
		state->begins = calloc(
		    count_stamps(worker->plan), sizeof(*state->begins));
	if (!state->stamps || (worker->plan->window > 1 && !state->begins))
		return worker_fail_errno(worker, "time stamps");
	return 0;
}

static void echo_finish(struct worker *worker)
{
	struct echo_state *state = worker->state;

	if (!state)
		return;
	if (state->source) {
		dfi_source_abort(state->source);
		dfi_source_close(state->source);
	}
	if (state->target)
		dfi_target_close(state->target);
	echo_bulk_close(&state->bulk);
	free(state->tuple);
	free(state->stamps);
	free(state->begins);
	free(state);
}

/* Opens the target first: the other side's source waits for it. */
static int echo_flow_prepare(struct worker *worker)
{
	const struct plan *plan = worker->plan;
	struct dfi_target_attr target = DFI_TARGET_ATTR_INIT;
	struct dfi_source_attr source = DFI_SOURCE_ATTR_INIT;
	bool client = worker->seat->role == ROLE_SOURCE;
	uint32_t number = worker->seat->number;
	struct echo_state *state;
	int ret = prepare_state(worker);

	if (ret)
		return ret;
	state = worker->state;
	tuple_schema_init(&state->schema, plan->tuple_size);
	target.schema = source.schema = &state->schema.schema;
	target.wait = source.wait = plan->wait;
	target.flags = plan->bulk || plan->how == HOW_FD ? DFI_NONBLOCK : 0;
	ret = dfi_target_open(worker->dfi, client ? plan->back : plan->flow,
	    number, &target, &state->target);
	if (ret)
		return worker_fail(worker, ret, "dfi_target_open");
	state->poll = (struct pollfd){ .fd = -1, .events = POLLIN };
	if (plan->how == HOW_FD)
		state->poll.fd = dfi_target_fd(state->target);
	if (plan->how == HOW_FD && state->poll.fd < 0)
		return worker_fail(worker, state->poll.fd, "dfi_target_fd");
	ret = dfi_source_open(worker->dfi, client ? plan->flow : plan->back,
	    number, &source, &state->source);
	if (ret)
		return worker_fail(worker, ret, "dfi_source_open");
	/* The target at the other end ends when this source has. */
	ret = plan->is_open
	    ? dfi_flow_finish(worker->dfi, client ? plan->flow : plan->back)
	    : 0;
	return ret ? worker_fail(worker, ret, "dfi_flow_finish")
		   : echo_bulk_open(worker, &state->bulk);
}

/* When request i is due at a given rate, however late earlier replies were. */
static force_inline uint64_t echo_due(
    const struct echo_state *state, uint64_t i)
{
	return state->begin_ns + i * state->interval_ns;
}

/* Begin with time stamp 0. */
static force_inline void begin_trips(struct echo_state *state)
{
	state->begin_ns = now_ns();
	state->stamps[0] = state->interval_ns ? state->begin_ns : ticks();
}

/* At a given rate, wait until request i is due; a late one is sent at once. */
static force_inline void begin_trip(struct echo_state *state, uint64_t i)
{
	while (state->interval_ns && now_ns() < echo_due(state, i))
		if (state->yields)
			sched_yield();
}

/* Both ends wait for the link before they write, so all arrives at once then.
 */
static force_inline void cross_link(const struct echo_state *state)
{
	uint64_t end;

	if (!state->link_latency_ns)
		return;
	for (end = now_ns() + state->link_latency_ns; now_ns() < end;)
		if (state->yields)
			sched_yield();
}

static force_inline void end_trip(struct echo_state *state, uint64_t i)
{
	state->stamps[i + 1] = state->interval_ns ? now_ns() : ticks();
}

/* Sleep until a descriptor says that there is more, or serve bulk data. */
static force_inline int await_more(struct echo_state *state)
{
	if (state->poll.fd < 0)
		return echo_bulk_turn(&state->bulk);
	return poll(&state->poll, 1, -1) < 0 && errno != EINTR ? -errno : 0;
}

/* Receive the tuple that must come next, and serve bulk data meanwhile. */
static force_inline int expect(
    struct echo_state *state, struct word_sum *sum, uint64_t key)
{
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(state->target, &tuple)) == -EAGAIN) {
		ret = await_more(state);
		if (ret < 0)
			return ret;
	}
	if (ret <= 0)
		return ret < 0 ? ret : -EBADMSG;
	tuple_sum(tuple, state->size, sum);
	return tuple_key(tuple, state->size) == tuple_count(key, state->size)
	    ? 0
	    : -EBADMSG;
}

static force_inline int request(struct echo_state *state, struct word_sum *sum)
{
	uint32_t n_servers = state->n_servers, server;
	uint64_t i, n = state->trips;
	int ret;

	begin_trips(state);
	for (i = 0; i < n; i++) {
		begin_trip(state, i);
		tuple_make(state->tuple, state->size, i);
		cross_link(state);
		ret = dfi_source_push(state->source, state->tuple);
		for (server = 0; !ret && server < n_servers; server++)
			ret = expect(state, sum, i);
		if (ret)
			return ret;
		end_trip(state, i);
	}
	return 0;
}

/* Several requests are on their way before the reply to the first is needed. */
static force_inline int request_ahead(
    struct echo_state *state, uint64_t window, struct word_sum *sum)
{
	uint64_t i, sent = 0, n = state->trips;
	int ret;

	begin_trips(state);
	for (i = 0; i < n; i++) {
		for (; sent < n && sent - i < window; sent++) {
			tuple_make(state->tuple, state->size, sent);
			state->begins[sent] = ticks();
			ret = dfi_source_push(state->source, state->tuple);
			if (ret)
				return ret;
		}
		ret = expect(state, sum, i);
		if (ret)
			return ret;
		end_trip(state, i);
	}
	return 0;
}

static force_inline int respond(struct echo_state *state, struct word_sum *sum)
{
	uint64_t i, n = state->trips;
	int ret;

	for (i = 0; i < n; i++) {
		ret = expect(state, sum, i);
		if (ret)
			return ret;
		tuple_make(state->tuple, state->size, i);
		cross_link(state);
		ret = dfi_source_push(state->source, state->tuple);
		if (ret)
			return ret;
	}
	return 0;
}

/* Several trips as one value: the clock's steps may be a tenth of a trip. */
static void record_together(
    struct histogram *trips, const struct echo_state *state, uint64_t first)
{
	uint64_t i, n = state->together;

	for (i = first; i + n <= state->trips; i += n)
		histogram_add(trips, state->stamps[i + n] - state->stamps[i]);
}

/* Add the round trips that count to the board's histogram. */
static void record(struct worker *worker, uint64_t elapsed_ns)
{
	const struct echo_state *state = worker->state;
	struct histogram *trips = &worker->board->trips;
	const uint64_t *stamps = state->stamps;
	uint64_t i;

	*trips = (struct histogram){ 0 };
	if (state->together)
		record_together(trips, state, warm_up(worker->plan));
	else
		for (i = warm_up(worker->plan); i < state->trips; i++)
			histogram_add(trips,
			    stamps[i + 1] -
				(state->interval_ns     ? echo_due(state, i)
					: state->begins ? state->begins[i]
							: stamps[i]));
	worker->board->ticks_per_ns = state->interval_ns
	    ? 1
	    : (double)(stamps[state->trips] - stamps[0]) / (double)elapsed_ns;
}

/* On both ends: close the source, then wait for the other end's end. */
static int echo_end(struct worker *worker)
{
	struct echo_state *state = worker->state;
	const void *tuple;
	int ret = dfi_source_close(state->source);

	state->source = NULL;
	if (ret)
		return worker_fail(worker, ret, "dfi_source_close");
	do {
		ret = dfi_target_consume(state->target, &tuple);
		if (ret == -EAGAIN && state->poll.fd >= 0)
			(void)poll(&state->poll, 1, -1);
	} while (ret == -EAGAIN);
	return ret ? worker_fail(worker, ret, "the end of the flow") : 0;
}

static int echo_flow_run(struct worker *worker)
{
	struct echo_state *state = worker->state;
	struct seat *seat = worker->seat;
	struct word_sum sum = { 0 };
	uint64_t begin = now_ns(), bulk_sum;
	int ret;

	ret = seat->role == ROLE_TARGET ? respond(state, &sum)
	    : state->begins ? request_ahead(state, worker->plan->window, &sum)
			    : request(state, &sum);
	if (ret)
		return worker_fail(worker, ret, "a round trip");
	if (seat->role == ROLE_SOURCE)
		record(worker, now_ns() - begin);
	ret = echo_bulk_end(&state->bulk, &bulk_sum);
	if (ret)
		return worker_fail(worker, ret, "bulk data");
	seat->bulk = state->bulk.tuples;
	seat->segments = state->trips; /* of one tuple each */
	seat->tuples = state->trips;
	if (seat->role == ROLE_SOURCE)
		seat->tuples *= state->n_servers;
	seat->sum = word_sum_total(&sum) + bulk_sum;
	seat->bad = 0;
	return echo_end(worker);
}

const struct job echo_flow_job = {
	.needs = echo_needs,
	.prepare = echo_flow_prepare,
	.run = echo_flow_run,
	.finish = echo_finish,
};

/*
 * The lines count half trips: the client makes them odd, a server even. One
 * line serves both directions, or the client and each server have their own.
 * first: the count to wait for, from each of in_lines. Where other programs
 * take the processors, the other end may wait for this one's: this one yields.
 */
static void bounce(char *out_line, char *in_lines, uint32_t n_in,
    struct echo_state *state, uint64_t first, uint32_t wait)
{
	_Atomic uint64_t *out = (_Atomic uint64_t *)(void *)out_line;
	const _Atomic uint64_t *in;
	bool client = state->stamps, yields = wait != DFI_WAIT_SPIN;
	uint32_t line, polls;
	uint64_t i;

	for (i = 0; i < state->trips; i++) {
		if (client) {
			begin_trip(state, i);
			cross_link(state);
			atomic_store_explicit(
			    out, 2 * i + 1, memory_order_release);
		}
		for (line = 0; line < n_in; line++) {
			in = (const _Atomic uint64_t *)(void *)(in_lines +
			    (size_t)line * LINE_DISTANCE);
			polls = state->yields ? RAW_SPINS : 0;
			while (atomic_load_explicit(in, memory_order_acquire) !=
			    2 * i + first)
				raw_poll_pause(yields, &polls);
		}
		if (client) {
			end_trip(state, i);
			continue;
		}
		cross_link(state);
		atomic_store_explicit(out, 2 * i + 2, memory_order_release);
	}
}

/* One end of a ring of tuples, which has room: its last lap was answered. */
struct echo_ring {
	char *at, *first, *end;
	size_t slot_size;
};

static struct echo_ring echo_ring_of(struct worker *worker, bool back)
{
	const struct plan *plan = worker->plan;
	size_t slot = plan_echo_slot(plan);
	size_t size = slot * plan->geometry.segment_count;
	char *first = (char *)board_data(worker->board) + (back ? size : 0);

	return (struct echo_ring){ first, first, first + size, slot };
}

static force_inline void echo_ring_next(struct echo_ring *ring)
{
	ring->at += ring->slot_size;
	if (ring->at == ring->end)
		ring->at = ring->first;
}

/* The tuple is built in place. Its number is that of the trip, plus 1. */
static force_inline void echo_ring_put(
    struct echo_ring *ring, size_t size, uint64_t i)
{
	_Atomic uint64_t *seq = (_Atomic uint64_t *)(void *)ring->at;

	tuple_make((uint64_t *)(void *)(ring->at + ECHO_RING_FRONT), size, i);
	/* Pairs with echo_ring_take(). */
	atomic_store_explicit(seq, i + 1, memory_order_release);
	echo_ring_next(ring);
}

static force_inline void echo_ring_take(struct echo_ring *ring, size_t size,
    uint64_t i, bool yields, struct word_sum *sum)
{
	const _Atomic uint64_t *seq = (_Atomic uint64_t *)(void *)ring->at;
	uint32_t polls = 0;

	while (atomic_load_explicit(seq, memory_order_acquire) != i + 1)
		raw_poll_pause(yields, &polls);
	tuple_sum(ring->at + ECHO_RING_FRONT, size, sum);
	echo_ring_next(ring);
}

/* Trips of tuples through two hand-written rings, by both ends. */
static void bounce_tuples(struct worker *worker, struct word_sum *sum)
{
	struct echo_state *state = worker->state;
	bool client = worker->seat->role == ROLE_SOURCE;
	bool yields = worker->plan->wait != DFI_WAIT_SPIN;
	struct echo_ring out = echo_ring_of(worker, !client);
	struct echo_ring in = echo_ring_of(worker, client);
	uint64_t i;

	for (i = 0; i < state->trips; i++) {
		if (client) {
			begin_trip(state, i);
			cross_link(state);
			echo_ring_put(&out, state->size, i);
		}
		echo_ring_take(&in, state->size, i, yields, sum);
		if (client) {
			end_trip(state, i);
			continue;
		}
		cross_link(state);
		echo_ring_put(&out, state->size, i);
	}
}

static int echo_raw_prepare(struct worker *worker)
{
	return prepare_state(worker);
}

static int echo_raw_run(struct worker *worker)
{
	const struct plan *plan = worker->plan;
	struct echo_state *state = worker->state;
	bool client = worker->seat->role == ROLE_SOURCE;
	char *lines = board_data(worker->board);
	char *there = lines;
	char *back = plan->echo == ECHO_ONE_LINE ? lines
						 : lines + LINE_DISTANCE;
	char *own = back + (size_t)worker->seat->number * LINE_DISTANCE;
	uint64_t begin = now_ns();
	struct word_sum sum = { 0 };

	if (client)
		begin_trips(state);
	if (plan->echo == ECHO_RING)
		bounce_tuples(worker, &sum);
	else
		bounce(client ? there : own, client ? back : there,
		    client ? state->n_servers : 1, state, client ? 2 : 1,
		    plan->wait);
	if (client)
		record(worker, now_ns() - begin);
	worker->seat->tuples = state->trips * (client ? state->n_servers : 1);
	worker->seat->sum = word_sum_total(&sum);
	worker->seat->bad = 0;
	return 0;
}

const struct job echo_raw_job = {
	.needs = echo_needs,
	.prepare = echo_raw_prepare,
	.run = echo_raw_run,
	.finish = echo_finish,
};
