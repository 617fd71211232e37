/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tuples of a segment are lent: those of a source and partition have
 * input positions that rise (R3 of docs/open-flows.md). A segment with others
 * is lent in runs, the tuples between those that were seen before.
 *
 * What was seen is noted when a segment is given back (acks.c): in one ring the
 * positions of a partition rise, so no segment has a tuple twice.
 */
#include "acks.h"

#include <dfi/replay.h>
#include "base/error.h"

static bool was_seen(
    struct acks *acks, const struct open_inputs *inputs, const char *tuple)
{
	uint64_t position = flow_input_position(acks->flow, tuple);

	return !open_inputs_is_newest(inputs, position) &&
	    open_inputs_has_seen(
		inputs, dfi__route(&acks->router, tuple), position);
}

/* From there on, the first tuple that was seen, or was not; or the end. */
static const char *find(
    struct acks *acks, const struct taken *taken, const char *tuple, bool seen)
{
	const struct open_inputs *inputs = &acks->of[taken->seat];
	size_t size = acks->flow->schema->tuple_size;

	while (tuple != acks->end && was_seen(acks, inputs, tuple) != seen)
		tuple += size;
	return tuple;
}

/* Pass over tuples that were seen; they count as taken already. */
static const char *pass_over(
    struct open_target *open, const struct taken *taken, const char *tuple)
{
	const char *next = find(open->acks, taken, tuple, false);
	uint64_t n = (uint64_t)(next - tuple) /
	    open->acks->flow->schema->tuple_size;

	if (n) {
		owned_add(&open->acks->filtered, n);
		owned_add(&open->target->readers[0].total, -n);
	}
	return next;
}

static void lend_run(
    struct open_target *open, const struct taken *taken, const char *begin)
{
	struct dfi_target_head *head = &open->target->head;

	head->next = begin;
	head->end = find(open->acks, taken, begin, true);
	open->acks->rest = pass_over(open, taken, head->end);
}

int dfi__acks_lend(struct open_target *open, uint32_t i)
{
	const struct dfi_target_head *head = &open->target->head;
	const struct taken *taken = &open->taken[i];
	struct acks *acks = open->acks;

	acks->tuples = head->next;
	acks->rest = acks->end = head->end;
	if (open->partitions)
		lend_run(open, taken, pass_over(open, taken, head->next));
	if (head->next != head->end)
		return 1;
	open->current = i;
	acks->passed_over = true;
	dfi__open_target_give_back(open->target);
	return 0;
}

bool dfi__acks_have_passed(struct acks *acks)
{
	bool have = acks->passed_over;

	acks->passed_over = false;
	return have;
}

bool dfi__acks_have_rest(const struct acks *acks)
{
	return acks->tuples && acks->rest != acks->end;
}

bool dfi__acks_lend_rest(struct open_target *open)
{
	if (!dfi__acks_have_rest(open->acks))
		return false;
	lend_run(open, &open->taken[open->current], open->acks->rest);
	return true;
}

int dfi_target_filtered(const struct dfi_target *target, uint64_t *n)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (ret < 0)
		return ret;
	if (!n)
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: dfi_target_filtered: n is NULL",
		    target->flow.name, TARGET_ID(target));
	*n = target->flow.input_position
	    ? atomic_peek(&open_target(target)->acks->filtered)
	    : 0;
	return 0;
}
