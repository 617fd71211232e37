/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of tuples that wait at a source until their partition has moved.
 */
#include "keyed.h"

#include <stdlib.h>
#include <string.h>

/* How many tuples that are pushed may wait. */
static uint32_t most(const struct dfi_source *source)
{
	const struct flow *flow = &source->flow;
	uint64_t bytes = flow->hold_bytes
	    ? flow->hold_bytes
	    : (uint64_t)flow->segment_size * flow->segment_count;

	return (uint32_t)min_u64(bytes / source->head.tuple_size, UINT32_MAX);
}

bool dfi__keyed_reserve(struct dfi_source *source, uint64_t n)
{
	struct keyed *keyed = open_source(source)->keyed;
	uint32_t *held_of;
	char *held;

	if (n <= keyed->held_room)
		return true;
	if (n > UINT32_MAX)
		return false;
	held = realloc(keyed->held, n * source->head.tuple_size);
	keyed->held = held ? held : keyed->held;
	held_of = realloc(keyed->held_of, n * sizeof(held_of[0]));
	keyed->held_of = held_of ? held_of : keyed->held_of;
	if (!held || !held_of)
		return false;
	keyed->held_room = (uint32_t)n;
	return true;
}

bool dfi__keyed_hold(
    struct dfi_source *source, uint32_t partition, const void *tuple)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	size_t size = source->head.tuple_size;

	if (!open->may_push)
		return false;
	if (!keyed->most_held && dfi__keyed_reserve(source, most(source)))
		keyed->most_held = most(source);
	if (keyed->n_held >= keyed->most_held)
		return false;
	memcpy(keyed->held + keyed->n_held * size, tuple, size);
	keyed->held_of[keyed->n_held++] = partition;
	dfi__open_source_wait(&keyed->state, partition);
	keyed->lanes[partition] = &keyed->waiting;
	return true;
}

uint64_t dfi__keyed_held_bytes(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	uint64_t bytes;

	keyed_enter(open);
	bytes = (uint64_t)open->keyed->n_held * source->head.tuple_size;
	keyed_leave(open);
	return bytes;
}
