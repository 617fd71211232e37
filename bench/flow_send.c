/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending loops, one for each way into a flow, written as an application
 * would: a tuple is made of values at hand, and its size is a constant.
 */
#include "flow_job.h"

static force_inline int send_push(
    struct sender *sender, uint64_t *tuple, size_t tuple_size)
{
	struct dfi_source *source = sender->source;
	uint64_t key = sender->first_word;
	uint64_t n = sender->plan->tuples;
	int ret;

	for (; n > 0; n--, key += tuple_size / 8) {
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

	for (; n > 0; n--, key += tuple_size / 8) {
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
		for (; n > 0; n--, key += tuple_size / 8) {
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

static int send_batch(struct sender *sender)
{
	const struct plan *plan = sender->plan;
	uint64_t left = plan->tuples, at = 0, n;
	int ret;

	while (left > 0) {
		n = sender->table_tuples - at;
		if (n > left)
			n = left;
		if (n > plan->batch)
			n = plan->batch;
		if (sender->link)
			link_pay(sender->link, plan,
			    n * plan->tuple_size * link_copies(plan));
		ret = dfi_source_push_batch(sender->source,
		    sender->table + at * plan->tuple_size, (uint32_t)n);
		if (ret < 0)
			return ret;
		left -= (uint64_t)ret;
		at += (uint64_t)ret;
		if (at == sender->table_tuples)
			at = 0;
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
		return send_batch(sender);
	default:
		RETURN_BY_SIZE(send_claim, sender, plan->tuple_size);
	}
}
