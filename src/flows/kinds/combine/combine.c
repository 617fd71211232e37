/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A combiner flow is a shuffle flow by the hash of the group's key, whose
 * targets fold. A target makes results when they are consumed, some at a time.
 */
#include "combine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <dfi/mark.h>
#include "base/bits.h"
#include "base/error.h"
#include "base/schema.h"
#include "buffers/layout/checksum.h"
#include "flows/descriptor/descriptor.h"
#include "flows/declare/combine_flow.h"
#include "flows/endpoint/target.h"
#include "state.h"

/* The size of a batch of results, unless one result is larger. */
#define RESULTS_SIZE (UINT64_C(32) << 10)

static const struct combine_intake own_rings;

int dfi__combine_open(
    struct dfi_target *target, const struct combine_intake *intake)
{
	const struct flow *flow = &target->flow;
	struct combiner *combiner = calloc(1, sizeof(*combiner));
	uint32_t size;
	int ret;

	if (!combiner)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	combiner->input = intake ? intake : &own_rings;
	target->combiner = combiner;
	target->gives_results = true;
	ret = dfi__combine_plan(flow, &combiner->plan);
	if (ret < 0)
		return ret;
	ret = dfi__groups_init(
	    &combiner->groups, combiner->plan, flow->max_groups);
	if (ret < 0)
		return dfi__fail_within(
		    ret, "flow '%s': %s %u", flow->name, TARGET_ID(target));
	/* A combiner of a tree gives no results. */
	if (flow->part.combiner)
		return 0;
	size = combiner->plan->schema->tuple_size;
	combiner->room = max_u64(RESULTS_SIZE / size, 1);
	target->head.tuple_size = size;
	if (combiner->plan->results_are_records)
		return 0;
	combiner->results = malloc(combiner->room * size);
	return combiner->results
	    ? 0
	    : dfi__fail(-ENOMEM, "flow '%s': out of memory", flow->name);
}

void dfi__combine_close(struct combiner *combiner)
{
	if (!combiner)
		return;
	if (combiner->groups.plan)
		dfi__groups_free(&combiner->groups);
	dfi__plan_free(combiner->plan);
	free(combiner->results);
	free(combiner);
}

/* ---- Input of a target that has its sources' rings --------------------- */

void dfi__combine_hold(struct dfi_target *target, uint32_t source)
{
	struct reader *reader = &target->readers[source];

	if (!reader->has_mark)
		return;
	dfi__reader_pause(reader);
	target->n_held++;
}

/* The least mark of the sources that are held back: it ends the window. */
static uint64_t least_mark(const struct dfi_target *target)
{
	uint64_t least = DFI_NO_MARK;
	uint32_t i;

	for (i = 0; target->n_open && i < target->n_readers; i++)
		if (target->readers[i].held)
			least = min_u64(least, target->readers[i].marked);
	return least;
}

/* Go on with the sources that have not ended the next window as well. */
static void resume(struct dfi_target *target, uint64_t mark)
{
	struct reader *reader;
	uint32_t i;

	for (i = 0; i < target->n_readers; i++) {
		reader = &target->readers[i];
		if (!reader->held || reader->marked > mark)
			continue;
		dfi__reader_resume(reader);
		target->n_held--;
	}
	/* A source that was held back may have gone meanwhile. */
	target->look_again |= LOOK_AT_SOURCES;
}

static const struct ring_geometry *geometry(const struct dfi_target *target)
{
	return &target->readers[target->head.source].geometry;
}

static void folded(struct dfi_target *target)
{
	dfi__combine_hold(target, target->head.source);
}

static void lend(struct dfi_target *target, bool lends)
{
	target->lends_segment = lends;
}

static const struct combine_intake own_rings = {
	.segment = dfi__target_input,
	.geometry = geometry,
	.lend = lend,
	.folded = folded,
	.window_end = least_mark,
	.begin_window = resume,
};

/* ---- Folding ------------------------------------------------------------ */

static void begin_window(struct dfi_target *target)
{
	struct combiner *combiner = combiner_of(target);

	combiner->input->begin_window(target, combiner->mark);
	combiner->window = combiner->mark;
	combiner->flags = 0;
	combiner->n_windows++;
}

static int too_many(struct dfi_target *target)
{
	return dfi__fail(-ENOSPC,
	    "flow '%s': %s %u: there are more than %lu groups: raise "
	    "max_groups, or have it give what it has (when_full)",
	    target->flow.name, TARGET_ID(target),
	    (unsigned long)combiner_of(target)->groups.max);
}

static int read_segment(
    const struct dfi_target *target, struct combiner_input *input)
{
	struct combiner *combiner = combiner_of(target);
	const struct ring_geometry *g = combiner->input->geometry(target);
	const struct plan *plan = combiner->plan;
	const char *from = target->head.next;
	uint64_t used = (uint64_t)(target->head.end - from), records = 0;
	uint32_t size = plan_record_size(plan);

	if (combiner->resumes) {
		combiner->resumes = false;
		*input = combiner->rest_input;
		return 0;
	}
	if (target->flow.tuples) {
		*input = (struct combiner_input){ from, used / size, size,
			true };
		return 0;
	}
	if (g->parts & SEGMENT_RECORDS)
		records = segment_header(g, from)->records;
	*input = (struct combiner_input){ from, used / plan->tuple_size,
		plan->tuple_size, false };
	if (!records)
		return 0;
	if (records > used / size || used - records * size >= plan->tuple_size)
		return dfi__fail(-EBADMSG,
		    "flow '%s': from %s %u to %s %u: a segment of %lu bytes "
		    "says that it holds %lu partial aggregates of %u",
		    target->flow.name,
		    PEER_ID(&target->sources, target->head.source),
		    TARGET_ID(target), (unsigned long)used,
		    (unsigned long)records, size);
	*input = (struct combiner_input){ from, records, size, true };
	return 0;
}

/* Keep the rest of the segment until the groups' results were given. */
static void keep_rest(struct dfi_target *target,
    const struct combiner_input *input, uint64_t taken)
{
	struct combiner *combiner = combiner_of(target);

	combiner->rest_input = *input;
	combiner->rest_input.from += taken * input->size;
	combiner->rest_input.n -= taken;
	combiner->rest = combiner->rest_input.from;
	combiner->rest_end = target->head.end;
	combiner->rest_source = target->head.source;
	combiner->state = COMBINER_FULL;
	combiner->early++;
	combiner->input->lend(target, false);
}

static void take_rest(struct dfi_target *target)
{
	struct combiner *combiner = combiner_of(target);

	target->head.next = combiner->rest;
	target->head.end = combiner->rest_end;
	target->head.source = combiner->rest_source;
	combiner->input->lend(target, true);
	combiner->rest = NULL;
	combiner->resumes = true;
}

/* Fold the next segment; the application gets none of its tuples. */
static int fold(struct dfi_target *target)
{
	struct combiner *combiner = combiner_of(target);
	struct combiner_input input;
	uint64_t taken;
	int ret = read_segment(target, &input);

	target->head.next = target->head.end;
	if (ret < 0)
		return ret;
	ret = dfi__groups_fold(&combiner->groups, input.from, input.size,
	    input.merged, input.n, &taken);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s': %s %u",
		    target->flow.name, TARGET_ID(target));
	if (taken == input.n)
		combiner->input->folded(target);
	else if (target->flow.when_full == DFI_FULL_EMIT ||
	    target->flow.part.combiner)
		keep_rest(target, &input, taken);
	else
		return too_many(target);
	return 0;
}

/* Take a segment, the end of a window, or the end of all input. */
static int take(struct dfi_target *target)
{
	struct combiner *combiner = combiner_of(target);
	uint64_t mark;
	int ret = target_check(target);

	if (!ret)
		ret = combiner->input->segment(target);
	if (ret < 0)
		return ret;
	if (!ret) {
		mark = combiner->input->window_end(target);
		combiner->state = mark == DFI_NO_MARK ? COMBINER_ENDS
						      : COMBINER_GIVES;
		if (mark != DFI_NO_MARK)
			combiner->mark = mark;
		return 0;
	}
	ret = fold(target);
	return ret < 0 ? dfi__target_fail(target, ret) : 0;
}

/* ---- Results ---------------------------------------------------------------
 */

/* Make the results of n more groups; valid until the next call. */
static int make_results(
    struct dfi_target *target, uint64_t n, const char **results)
{
	struct combiner *combiner = combiner_of(target);
	const struct groups *groups = &combiner->groups;
	uint64_t first = combiner->emitted, i;
	char *result = combiner->results;
	int ret;

	combiner->emitted += n;
	*results = result ? result : (const char *)groups_record(groups, first);
	for (i = first; result && i < first + n; i++) {
		ret = dfi__plan_result(
		    combiner->plan, groups_record(groups, i), result);
		if (ret < 0)
			return dfi__fail_within(ret, "flow '%s': %s %u",
			    target->flow.name, TARGET_ID(target));
		result += combiner->plan->schema->tuple_size;
	}
	return 0;
}

/* Let the head lend the next results: 1, or 0 if all were given. */
static int give(struct dfi_target *target)
{
	struct combiner *combiner = combiner_of(target);
	uint64_t n = min_u64(
	    combiner->groups.n - combiner->emitted, combiner->room);
	const char *results;
	int ret;

	target->head.next = target->head.end = NULL;
	if (!n)
		return 0;
	ret = make_results(target, n, &results);
	if (ret < 0)
		return dfi__target_fail(target, ret);
	target->head.next = results;
	target->head.end = results + n * combiner->plan->schema->tuple_size;
	target->head.source = 0;
	combiner->has_given = true;
	combiner->given = combiner->window;
	combiner->given_flags = combiner->flags;
	return 1;
}

/* All results were given: continue. */
static int go_on(struct dfi_target *target)
{
	struct combiner *combiner = combiner_of(target);
	enum combiner_state was = combiner->state;
	int ret;

	if (was == COMBINER_ENDS) {
		combiner->state = COMBINER_ENDED;
		return 0;
	}
	dfi__groups_clear(&combiner->groups);
	combiner->emitted = 0;
	combiner->state = COMBINER_TAKES;
	if (was == COMBINER_GIVES) {
		begin_window(target);
		return 0;
	}
	take_rest(target);
	ret = fold(target);
	return ret < 0 ? dfi__target_fail(target, ret) : 0;
}

int dfi__combine_next(struct dfi_target *target)
{
	struct combiner *combiner = combiner_of(target);
	int ret = target_check(target);

	while (!ret && combiner->state != COMBINER_ENDED) {
		if (combiner->state == COMBINER_TAKES) {
			ret = take(target);
			continue;
		}
		ret = give(target);
		if (!ret)
			ret = go_on(target);
	}
	return ret;
}

/* ---- Output of a combiner of a tree ------------------------------------ */

int dfi__combine_output(
    struct dfi_target *target, const void **records, uint64_t *n)
{
	struct combiner *combiner = combiner_of(target);
	int ret = target_check(target);

	while (!ret && combiner->state != COMBINER_ENDED) {
		if (combiner->state == COMBINER_TAKES) {
			ret = take(target);
			continue;
		}
		*n = combiner->groups.n - combiner->emitted;
		if (*n) {
			*records = groups_record(
			    &combiner->groups, combiner->emitted);
			return COMBINE_RECORDS;
		}
		if (combiner->state == COMBINER_GIVES)
			return COMBINE_MARK;
		ret = go_on(target);
	}
	return ret < 0 ? ret : COMBINE_END;
}

void dfi__combine_sent(struct dfi_target *target, uint64_t n)
{
	combiner_of(target)->emitted += n;
}

int dfi__combine_marked(struct dfi_target *target)
{
	return go_on(target);
}

/* 0: the target has given results of a window. */
static int check_window(
    const struct dfi_target *target, const char *call, const void *output)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (ret < 0)
		return ret;
	if (!output)
		return dfi__fail(-EINVAL, "%s is NULL", call);
	if (!target->flow.window_tuples)
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s': %s %u: the flow has no windows "
		    "(window_tuples)",
		    target->flow.name, TARGET_ID(target));
	if (!combiner_of(target)->has_given)
		return dfi__fail(-ENOENT,
		    "flow '%s': %s %u: no results were consumed yet",
		    target->flow.name, TARGET_ID(target));
	return 0;
}

int dfi_target_window(const struct dfi_target *target, uint64_t *window)
{
	int ret = check_window(target, "dfi_target_window: window", window);

	if (!ret)
		*window = combiner_of(target)->given;
	return ret;
}

int dfi_target_window_flags(const struct dfi_target *target, uint32_t *flags)
{
	int ret = check_window(target, "dfi_target_window_flags: flags", flags);

	if (!ret)
		*flags = combiner_of(target)->given_flags;
	return ret;
}
