/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending loops, one for each way into a flow, written as an application
 * would: a tuple is made of values at hand, and its size is a constant.
 */
#include "flow_job.h"

#include <errno.h>
#include <sched.h>

static force_inline int send_push(
    struct sender *sender, uint64_t *tuple, size_t tuple_size)
{
	struct dfi_source *source = sender->source;
	uint64_t key = sender->first_word;
	uint64_t n = sender->plan->tuples;
	int ret;

	for (; n > 0; n--, key += tuple_words(tuple_size)) {
		tuple_make(tuple, tuple_size, key);
		ret = dfi_source_push(source, tuple);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* DFI_ROUTE_DIRECT: each tuple to the next target, or all to the pair's. */
static force_inline int send_push_to(
    struct sender *sender, uint64_t *tuple, size_t tuple_size)
{
	struct dfi_source *source = sender->source;
	uint64_t key = sender->first_word;
	uint64_t n = sender->plan->tuples;
	uint32_t source_number = word_source(key);
	uint32_t lane = 0, n_lanes = plan_lanes(sender->plan);
	int ret;

	for (; n > 0; n--, key += tuple_words(tuple_size)) {
		tuple_make(tuple, tuple_size, key);
		ret = dfi_source_push_to(source,
		    plan_named_target(sender->plan, source_number, lane),
		    tuple);
		if (ret < 0)
			return ret;
		if (++lane == n_lanes)
			lane = 0;
	}
	return 0;
}

/* Several targets get a segment's worth of tuples in turn. */
static force_inline int send_cursor(
    struct sender *sender, uint64_t *tuple, size_t tuple_size)
{
	const struct plan *plan = sender->plan;
	uint64_t key = sender->first_word, left = plan->tuples, run = left, n;
	struct dfi_source_cursor cursor;
	uint32_t source = word_source(key), target = 0;
	int ret;

	if (plan_lanes(plan) > 1)
		run = plan->geometry.segment_size / tuple_size;
	while (left > 0) {
		n = left < run ? left : run;
		left -= n;
		cursor = dfi_source_cursor_open(sender->source,
		    plan_named_target(plan, source, target), tuple_size);
		for (; n > 0; n--, key += tuple_words(tuple_size)) {
			tuple_make(tuple, tuple_size, key);
			if (dfi_source_cursor_push(&cursor, tuple, tuple_size))
				break;
		}
		ret = dfi_source_cursor_close(cursor);
		if (ret < 0)
			return ret;
		if (++target == plan_lanes(plan))
			target = 0;
	}
	return 0;
}

static force_inline int send_claim(struct sender *sender, size_t tuple_size)
{
	struct pattern pattern = pattern_from(sender->first_word);
	uint64_t left = sender->plan->tuples;
	uint32_t source = word_source(sender->first_word), target = 0;
	uint32_t n_lanes = plan_lanes(sender->plan), n, i;
	struct dfi_span span;
	char *next;
	int ret;

	while (left > 0) {
		ret = dfi_source_claim(sender->source,
		    plan_named_target(sender->plan, source, target), &span);
		if (ret < 0)
			return ret;
		n = left < span.count ? (uint32_t)left : span.count;
		next = span.tuples;
		for (i = 0; i < n; i++, next += tuple_size)
			tuple_fill(next, tuple_size, &pattern);
		left -= n;
		ret = left ? dfi_source_commit_more(sender->source, &span, n)
			   : dfi_source_commit(sender->source, &span, n);
		if (ret < 0)
			return ret;
		if (++target == n_lanes)
			target = 0;
	}
	return 0;
}

/* A place in the table that a source goes round, and what is left to do. */
struct place {
	uint64_t at, left; /* tuples */
};

/* The tuples of the next batch, which ends with the table. */
static uint32_t next_batch(
    const struct sender *sender, const struct place *place)
{
	uint64_t n = sender->table_tuples - place->at;

	n = n < place->left ? n : place->left;
	return (uint32_t)(n < sender->plan->batch ? n : sender->plan->batch);
}

static void advance(
    const struct sender *sender, struct place *place, uint32_t n)
{
	place->left -= n;
	place->at += n;
	if (place->at == sender->table_tuples)
		place->at = 0;
}

static int push_next(const struct sender *sender, struct place *place)
{
	int ret = dfi_source_push_batch(sender->source,
	    sender->table + place->at * sender->plan->tuple_size,
	    next_batch(sender, place));

	if (ret >= 0)
		advance(sender, place, (uint32_t)ret);
	return ret;
}

static int send_batch(struct sender *sender)
{
	struct place place = { .left = sender->plan->tuples };
	uint64_t begin;
	int ret;

	while (place.left > 0) {
		begin = slow_begin(&sender->slow);
		ret = push_next(sender, &place);
		if (ret == -EAGAIN && sender->slow.factor) {
			sched_yield(); /* which is no work */
			continue;
		}
		if (ret < 0)
			return ret;
		slow_end(&sender->slow, begin);
	}
	return 0;
}

/*
 * A batch waits until the link is through with it, and is pushed when it
 * arrives, while the next ones cross the link.
 */
static int send_over_link(struct sender *sender)
{
	const struct plan *plan = sender->plan;
	struct place paid = { .left = plan->tuples }, place = paid;
	struct link_queue *queue = &sender->queue;
	uint32_t n;
	int ret;

	while (place.left > 0) {
		if (paid.left > 0 && queue->in - queue->out < queue->size) {
			n = next_batch(sender, &paid);
			link_pay(sender->link, plan,
			    (uint64_t)n * plan->tuple_size * link_copies(plan));
			queue->due[queue->in++ % queue->size] = now_ns() +
			    plan->link_latency_ns;
			advance(sender, &paid, n);
		} else {
			link_wait(queue->due[queue->out % queue->size]);
		}
		for (; queue->out != queue->in &&
		     queue->due[queue->out % queue->size] <= now_ns();
		     queue->out++) {
			ret = push_next(sender, &place);
			if (ret < 0)
				return ret;
		}
	}
	return 0;
}

int flow_send(struct sender *sender)
{
	const struct plan *plan = sender->plan;

	switch (plan->api) {
	case API_PUSH:
		if (plan->routing == DFI_ROUTE_DIRECT)
			RETURN_WITH_TUPLE(
			    send_push_to, sender, plan->tuple_size);
		RETURN_WITH_TUPLE(send_push, sender, plan->tuple_size);
	case API_CURSOR:
		RETURN_WITH_TUPLE(send_cursor, sender, plan->tuple_size);
	case API_BATCH:
		return sender->link ? send_over_link(sender)
				    : send_batch(sender);
	default:
		RETURN_BY_SIZE(send_claim, sender, plan->tuple_size);
	}
}
