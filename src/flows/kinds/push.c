/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushes put a tuple, or a batch of tuples, into the open segments of the
 * targets, for all kinds of flows and all routings.
 */
#include "flows/endpoint/source.h"

#include "base/bits.h"
#include "base/compiler.h"
#include "base/error.h"
#include "open/keyed.h"
#include "shuffle/partition.h"
#include "shuffle/target_list.h"

/* Whether the ways of a source that holds tuples are seats (keyed.h). */
static inline bool source_names_ways(const struct dfi_source *source)
{
	return source->flow.input_position && flow_names_seats(&source->flow);
}

/*
 * A replicate flow's tuple goes to all targets or to none. If it goes to none,
 * it is not taken.
 */
int dfi_source_push_to_slow(
    struct dfi_source *source, uint32_t target, const void *tuple)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	int ret = source_check(source);
	uint32_t lane;

	if (ret < 0)
		return ret;
	if (source_names_ways(source))
		return dfi__keyed_push_to(source, target, tuple);
	if (!source_find_lane(source, target, &lane))
		return dfi__source_refuse(
		    source, dfi__source_no_target(source, target));
	return dfi_source_push_lane(
	    source, &source->head.lanes[lane], lane, tuple);
}

static int check_routable(struct dfi_source *source)
{
	int ret = dfi__source_check_free(source);

	if (ret || source->router.routing != DFI_ROUTE_DIRECT ||
	    dfi__flow_has_groups(&source->flow))
		return ret;
	return dfi__source_refuse(source,
	    dfi__fail(-EPROTOTYPE,
		"flow '%s' has direct routing: name the target "
		"(dfi_source_push_to(), dfi_source_push_batch_to(), "
		"dfi_source_claim() or a cursor)",
		source->flow.name));
}

/*
 * Round robin moves on if the tuple was taken, or if this target will never
 * take it.
 */
static int push_routed(struct dfi_source *source, const void *tuple)
{
	struct router *router = &source->router;
	uint32_t target, next = router->next;
	int ret;

	if (unlikely(dfi__flow_has_groups(&source->flow)))
		return dfi_source_push_set(source,
		    router->set_function(
			router->function_arg, tuple, router->n_targets),
		    tuple);
	target = dfi__route(router, tuple);
	ret = dfi_source_push_to(source, target, tuple);
	if (unlikely(ret < 0 && ret != -EPIPE))
		router->next = next;
	return ret;
}

int dfi_source_push_slow(struct dfi_source *source, const void *tuple)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	int ret;

	/* Each push of these comes here, so this is first. */
	if (source->flow.partitions)
		return dfi__keyed_push(source, tuple);
	if (source->flow.input_position && !source_names_ways(source))
		return dfi__keyed_push(source, tuple);
	ret = check_routable(source);
	return ret < 0 ? ret : push_routed(source, tuple);
}

int dfi_source_table_full(struct dfi_source *source, uint32_t partition)
{
	SOURCE_CALL(
	    source, (keyed_leave(open_source(source)), SOURCE_SHARED(source)));

	return dfi__keyed_full(source, partition);
}

static int make_room(struct dfi_source *source, uint32_t target)
{
	int ret;

	source_lock(source);
	ret = dfi__source_make_room_to_push(source, target);
	source_unlock(source);
	return ret;
}

/* All tuples go to one target: copy whole runs. */
static always_inline uint32_t batch_to_one(struct dfi_source *source,
    uint32_t target, const char *tuples, uint32_t n, int *ret)
{
	struct dfi_source_lane *lane = &source->head.lanes[target];
	size_t size = source->head.tuple_size, run;
	uint32_t taken = 0;

	while (taken < n) {
		if (source_lane_is_closed(source, target)) {
			*ret = make_room(source, target);
			if (*ret < 0)
				break;
		}
		/* The lane's end may be lower than the end of its room. */
		run = min_u64((n - taken) * size,
		    (uint64_t)(source->writers[target].end - lane->next));
		dfi_copy_lines(lane->next, tuples, run);
		tuples += run;
		taken += (uint32_t)(run / size);
		if (dfi_source_lane_advance(lane, lane->next + run)) {
			*ret = dfi_source_lane_full(source, target);
			if (*ret < 0)
				break;
		}
	}
	return taken;
}

static uint32_t batch_any(
    struct dfi_source *source, const char *tuples, uint32_t n, int *ret)
{
	uint32_t taken;

	for (taken = 0; taken < n; taken++) {
		*ret = push_routed(source, tuples);
		if (*ret < 0)
			break;
		tuples += source->head.tuple_size;
	}
	return taken;
}

/*
 * Segments wait for each other in this function, which calls no code of the
 * application.
 */
static uint32_t batch_held(
    struct dfi_source *source, const char *tuples, uint32_t n, int *ret)
{
	bool holds = source_may_hold(source);
	uint32_t taken;

	/* Set only if this source's segments may wait for each other. */
	if (holds)
		source->batch.open = true;
	if (source->head.inline_routing == DFI_INLINE_ONE)
		taken = batch_to_one(source, 0, tuples, n, ret);
	else
		taken = dfi__partition(
		    source, tuples, n, dfi__lists_targets(), ret);
	if (holds)
		source->batch.open = false;
	source_post(source);
	return taken;
}

/*
 * The result of a batch of which some tuples were taken, or whose first failed
 * with err. After a part was taken, the next call returns the interrupt; it
 * would wait otherwise.
 */
static int batch_result(struct dfi_source *source, uint32_t taken, int err)
{
	if (taken && unlikely(err == -EINTR))
		atomic_set(&source->interrupted, true);
	return taken ? (int)taken : err;
}

static always_inline int check_batch(
    struct dfi_source *source, const void *tuples, uint32_t n)
{
	if (likely(n <= INT32_MAX && (tuples || !n)))
		return 0;
	if (n > INT32_MAX)
		dfi__fail(-EINVAL,
		    "flow '%s': %s %u: push_batch: %u tuples are more "
		    "than %d",
		    source->flow.name, SOURCE_ID(source), n, INT32_MAX);
	else
		dfi__fail(-EINVAL,
		    "flow '%s': %s %u: push_batch: tuples is NULL",
		    source->flow.name, SOURCE_ID(source));
	return dfi__source_refuse(source, -EINVAL);
}

int dfi_source_push_batch_to(
    struct dfi_source *source, uint32_t target, const void *tuples, uint32_t n)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	int ret = dfi__source_check_free(source);
	uint32_t lane, taken;
	bool holds;

	if (!ret)
		ret = check_batch(source, tuples, n);
	if (ret < 0)
		return ret;
	if (source_names_ways(source)) {
		taken = dfi__keyed_push_batch_to(
		    source, target, tuples, n, &ret);
		return batch_result(source, taken, ret);
	}
	if (!source_find_lane(source, target, &lane))
		return dfi__source_refuse(
		    source, dfi__source_no_target(source, target));
	holds = source_may_hold(source);
	if (holds)
		source->batch.open = true;
	taken = batch_to_one(source, lane, tuples, n, &ret);
	if (holds)
		source->batch.open = false;
	source_post(source);
	return batch_result(source, taken, ret);
}

int dfi_source_push_batch(
    struct dfi_source *source, const void *tuples, uint32_t n)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	uint32_t taken;
	int ret = check_routable(source);

	if (!ret)
		ret = check_batch(source, tuples, n);
	if (ret < 0)
		return ret;
	if (flow_holds_tuples(&source->flow) && !source_names_ways(source)) {
		taken = dfi__keyed_push_batch(source, tuples, n, &ret);
	} else if (source->head.inline_routing == DFI_INLINE_ONE ||
	    dfi__partitions(source)) {
		taken = batch_held(source, tuples, n, &ret);
	} else {
		source_post(source);
		taken = batch_any(source, tuples, n, &ret);
	}
	return batch_result(source, taken, ret);
}
