/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of both ends of a rival in memory, which sends messages of tuples.
 * A rival has a few calls, and rival_messages() does the same work with each:
 *
 * - tuples one by one (API_PUSH), where each is a message;
 * - batches (API_CLAIM), built in the memory that the rival lends;
 * - round trips of a tuple (plan.trips).
 *
 * The target reads every word of every tuple. All is inline, so that a rival
 * pays for no call that it does not make itself.
 */
#ifndef DFI_BENCH_RIVAL_MESSAGES_H
#define DFI_BENCH_RIVAL_MESSAGES_H

#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>

#include "rival.h"
#include "ticks.h"

/* A failing call has set the seat's error. */
struct rival_calls {
	/* Lend memory in which a message of this size is built, or NULL. */
	char *(*claim)(struct worker *worker, size_t size);

	/* Send what claim() lent last. 0, or a negative errno value. */
	int (*commit)(struct worker *worker, size_t size);

	/*
	 * Wait for whole tuples, and lend them until the next call. Returns how
	 * many bytes, or a negative errno value.
	 */
	ssize_t (*consume)(struct worker *worker, const char **at);

	/* After the last commit: nothing is held back. NULL: it never is. */
	int (*flush)(struct worker *worker);

	/* The bytes of its messages when it sends batches, at most. */
	size_t batch_size;
};

/* Round trips before those that count. */
static inline uint64_t rival_warm_up(const struct plan *plan)
{
	return plan->tuples < 1000 ? plan->tuples : 1000;
}

struct rival_work {
	struct worker *worker;
	const struct rival_calls *calls;
	uint64_t *scratch; /* memory for a tuple */
};

static force_inline int rival_push(
    const struct rival_work *work, const uint64_t *tuple, size_t size)
{
	char *to = work->calls->claim(work->worker, size);

	if (!to)
		return -EIO;
	memcpy(to, tuple, size);
	return work->calls->commit(work->worker, size);
}

static force_inline int rival_flush(const struct rival_work *work)
{
	return work->calls->flush ? work->calls->flush(work->worker) : 0;
}

static force_inline int rival_send_each(
    struct rival_work *work, uint64_t *tuple, size_t size)
{
	const struct plan *plan = work->worker->plan;
	uint64_t i, key = source_first_word(0);
	int ret;

	for (i = 0; i < plan->tuples; i++, key += tuple_words(size)) {
		tuple_make(tuple, size, key);
		ret = rival_push(work, tuple, size);
		if (ret)
			return ret;
	}
	rival_done(work->worker, plan->tuples, plan_source_sum(plan, 0));
	return rival_flush(work);
}

static force_inline int rival_send_batches(struct rival_work *work)
{
	struct worker *worker = work->worker;
	const struct plan *plan = worker->plan;
	struct pattern pattern = pattern_from(source_first_word(0));
	uint64_t n, left = plan->tuples;
	uint64_t batch = work->calls->batch_size / plan->tuple_size;
	char *to;
	int ret;

	for (; left > 0; left -= n) {
		n = batch < 1 ? 1 : batch < left ? batch : left;
		to = work->calls->claim(worker, n * plan->tuple_size);
		if (!to)
			return -EIO;
		rival_fill(to, n, plan->tuple_size, &pattern);
		ret = work->calls->commit(worker, n * plan->tuple_size);
		if (ret)
			return ret;
	}
	rival_done(worker, plan->tuples, plan_source_sum(plan, 0));
	return rival_flush(work);
}

static force_inline int rival_receive(struct rival_work *work, size_t size)
{
	const struct plan *plan = work->worker->plan;
	struct word_sum sum = { 0 };
	uint64_t tuples = 0;
	const char *at;
	ssize_t got;

	while (tuples < plan->tuples) {
		got = work->calls->consume(work->worker, &at);
		if (got < 0)
			return (int)got;
		for (; got > 0; got -= (ssize_t)size, at += size, tuples++)
			tuple_sum(at, size, &sum);
	}
	rival_done(work->worker, tuples, word_sum_total(&sum));
	return 0;
}

/* Receive the tuple that must come next. */
static force_inline int rival_expect(const struct rival_work *work, size_t size,
    uint64_t key, struct word_sum *sum)
{
	const char *at;
	ssize_t got = work->calls->consume(work->worker, &at);

	if (got < 0)
		return (int)got;
	if (got == (ssize_t)size &&
	    tuple_key(at, size) == tuple_count(key, size)) {
		tuple_sum(at, size, sum);
		return 0;
	}
	errno = EBADMSG;
	return worker_fail_errno(work->worker, "a tuple of a round trip");
}

/* Requests and their replies; with a time stamp after each. */
static force_inline int rival_request(struct rival_work *work, uint64_t *tuple,
    size_t size, uint64_t *stamps, uint64_t trips)
{
	struct word_sum sum = { 0 };
	uint64_t i;
	int ret;

	stamps[0] = ticks();
	for (i = 0; i < trips; i++) {
		tuple_make(tuple, size, i);
		ret = rival_push(work, tuple, size);
		if (!ret)
			ret = rival_expect(work, size, i, &sum);
		if (ret)
			return ret;
		stamps[i + 1] = ticks();
	}
	rival_done(work->worker, trips, word_sum_total(&sum));
	return rival_flush(work);
}

static force_inline int rival_respond(
    struct rival_work *work, uint64_t *tuple, size_t size)
{
	const struct plan *plan = work->worker->plan;
	uint64_t i, trips = plan->tuples + rival_warm_up(plan);
	struct word_sum sum = { 0 };
	int ret;

	for (i = 0; i < trips; i++) {
		ret = rival_expect(work, size, i, &sum);
		if (ret)
			return ret;
		tuple_make(tuple, size, i);
		ret = rival_push(work, tuple, size);
		if (ret)
			return ret;
	}
	rival_done(work->worker, trips, word_sum_total(&sum));
	return rival_flush(work);
}

static force_inline int rival_client(
    struct rival_work *work, uint64_t *tuple, size_t size)
{
	struct board *board = work->worker->board;
	const struct plan *plan = work->worker->plan;
	uint64_t i, trips = plan->tuples + rival_warm_up(plan);
	uint64_t *stamps = calloc(trips + 1, sizeof(*stamps));
	uint64_t begin = now_ns();
	int ret;

	if (!stamps)
		return worker_fail_errno(work->worker, "time stamps");
	ret = rival_request(work, tuple, size, stamps, trips);
	if (!ret) {
		board->ticks_per_ns = (double)(stamps[trips] - stamps[0]) /
		    (double)(now_ns() - begin);
		board->trips = (struct histogram){ 0 };
		for (i = rival_warm_up(plan); i < trips; i++)
			histogram_add(&board->trips, stamps[i + 1] - stamps[i]);
	}
	free(stamps);
	return ret;
}

static force_inline int rival_send_all(struct rival_work *work)
{
	RETURN_WITH_TUPLE(
	    rival_send_each, work, work->worker->plan->tuple_size);
}

static force_inline int rival_ask_all(struct rival_work *work)
{
	RETURN_WITH_TUPLE(rival_client, work, work->worker->plan->tuple_size);
}

static force_inline int rival_answer_all(struct rival_work *work)
{
	RETURN_WITH_TUPLE(rival_respond, work, work->worker->plan->tuple_size);
}

static force_inline int rival_receive_all(struct rival_work *work)
{
	RETURN_BY_SIZE(rival_receive, work, work->worker->plan->tuple_size);
}

/* The run of a rival's job. calls is a constant. */
static force_inline int rival_messages(
    struct worker *worker, const struct rival_calls *calls)
{
	const struct plan *plan = worker->plan;
	bool source = worker->seat->role == ROLE_SOURCE;
	struct rival_work work = {
		.worker = worker,
		.calls = calls,
		.scratch = malloc(plan->tuple_size + 8),
	};
	int ret;

	if (!work.scratch)
		return worker_fail_errno(worker, "a tuple");
	if (plan->trips)
		ret = source ? rival_ask_all(&work) : rival_answer_all(&work);
	else if (!source)
		ret = rival_receive_all(&work);
	else
		ret = plan->api == API_PUSH ? rival_send_all(&work)
					    : rival_send_batches(&work);
	free(work.scratch);
	return ret;
}

#endif
