/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target of a flow with replay knows of one source's seat: R3 to R5 of
 * docs/open-flows.md. It outlives the incarnations of the source.
 *
 * Input positions count from 1 here, and 0 means none: the caller maps the
 * application's field.
 */
#ifndef DFI_FLOWS_OPEN_REPLAY_H
#define DFI_FLOWS_OPEN_REPLAY_H

#include "base/bits.h"
#include "flows/open/bugs.h"
#include "flows/open/target.h"

struct open_inputs {
	uint32_t n_partitions;
	uint64_t *seen;  /* of each partition: the highest that was lent */
	uint64_t *acked; /* of each partition: acknowledged */
	uint64_t newest; /* none in seen was ever above it */
	/* The input position and the table of the last mark that was taken. */
	uint64_t mark, mark_table;
};

size_t dfi__open_inputs_size(uint32_t n_partitions);
void dfi__open_inputs_init(
    struct open_inputs *inputs, uint32_t n_partitions, void *memory);

/* The store knows this position of a partition that is taken (R5). */
void dfi__open_inputs_take(
    struct open_inputs *inputs, uint32_t partition, uint64_t position);

/*
 * A mark of the application was taken, with the input position and the table
 * that it names (dfi__open_source_settled()).
 */
void dfi__open_inputs_mark(
    struct open_inputs *inputs, uint64_t position, uint64_t table);

/*
 * The application acknowledges all that it has seen. The caller knows that
 * nothing of this source is lent now. A mark counts for partitions that came
 * with its table, or before: later ones may have tuples that wait at the
 * source, or were taken back.
 */
void dfi__open_inputs_ack(
    struct open_inputs *inputs, const struct keyed_target *target);

/* Whether a tuple was not seen, whatever its partition: most are so. */
static inline bool open_inputs_is_newest(
    const struct open_inputs *inputs, uint64_t position)
{
	return position > inputs->newest;
}

/* Whether a tuple was seen: then it is dropped (R3). */
static inline bool open_inputs_has_seen(
    const struct open_inputs *inputs, uint32_t partition, uint64_t position)
{
	return position <= inputs->seen[partition] && !OPEN_BUG(NO_FILTER);
}

/* A tuple is lent. False: it was seen before. */
static inline bool open_inputs_lend(
    struct open_inputs *inputs, uint32_t partition, uint64_t position)
{
	if (open_inputs_has_seen(inputs, partition, position))
		return false;
	inputs->seen[partition] = position;
	inputs->newest = max_u64(inputs->newest, position);
	return true;
}

#endif
