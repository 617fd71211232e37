/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of tuples that wait at a source until their partition has moved:
 * a list for each partition, so that sending looks at no tuple that has to go
 * on waiting, except the first of its partition.
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

	return (uint32_t)min_u64(bytes / source->head.tuple_size, HELD_NONE);
}

/* Have that many slots; false: no memory. */
static bool grow(struct dfi_source *source, uint64_t room)
{
	struct keyed *keyed = open_source(source)->keyed;
	struct held *held = &keyed->held;
	uint64_t *lowest = NULL;
	uint32_t *behind;
	char *tuples;

	if (room <= held->room)
		return true;
	if (room > HELD_NONE)
		return false;
	tuples = realloc(held->tuples, room * source->head.tuple_size);
	held->tuples = tuples ? tuples : held->tuples;
	behind = realloc(held->behind, room * sizeof(*behind));
	held->behind = behind ? behind : held->behind;
	if (keyed->ways) {
		lowest = realloc(held->lowest, room * sizeof(*lowest));
		held->lowest = lowest ? lowest : held->lowest;
	}
	if (!tuples || !behind || (keyed->ways && !lowest))
		return false;
	held->room = (uint32_t)room;
	return true;
}

void dfi__held_free(struct held *held)
{
	free(held->tuples);
	free(held->behind);
	free(held->lowest);
}

/* A slot with this tuple, in no list. There is one. */
static uint32_t fill_slot(struct dfi_source *source, const void *tuple)
{
	struct keyed *keyed = open_source(source)->keyed;
	struct held *held = &keyed->held;
	size_t size = source->head.tuple_size;
	uint32_t slot = held->free;

	if (slot == HELD_NONE)
		slot = held->n_used++;
	else
		held->free = held->behind[slot];
	held->n++;
	memcpy(held->tuples + slot * size, tuple, size);
	held->behind[slot] = HELD_NONE;
	if (keyed->ways)
		held->lowest[slot] = flow_input_position(
		    &source->flow, held->tuples + slot * size);
	return slot;
}

bool dfi__keyed_hold(
    struct dfi_source *source, uint32_t partition, const void *tuple)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	struct held *held = &keyed->held;
	uint32_t slot;

	if (!open->may_push)
		return false;
	if (!keyed->most_held && grow(source, most(source)))
		keyed->most_held = most(source);
	if (held->n >= keyed->most_held)
		return false;
	/* It is the newest of all, so the lowest in front stay so. */
	slot = fill_slot(source, tuple);
	if (held->first[partition] == HELD_NONE)
		held->first[partition] = slot;
	else
		held->behind[held->last[partition]] = slot;
	held->last[partition] = slot;
	dfi__open_source_wait(&keyed->state, partition);
	keyed->lanes[partition] = &keyed->waiting;
	return true;
}

bool dfi__keyed_hold_first(
    struct dfi_source *source, uint32_t seat, const void *tuple)
{
	struct keyed *keyed = open_source(source)->keyed;
	struct held *held = &keyed->held;
	uint32_t slot, next, partition;
	uint64_t more = max_u64(2 * (uint64_t)held->room, 64);

	if (held->n == held->room && !grow(source, min_u64(more, HELD_NONE)))
		return false;
	if (held->n == held->room)
		return false;
	/* A target that lives may change the tuple in its ring. */
	slot = fill_slot(source, tuple);
	partition = dfi__keyed_way(source, seat,
	    held->tuples + slot * (size_t)source->head.tuple_size);
	next = held->first[partition];
	held->behind[slot] = next;
	held->first[partition] = slot;
	if (next == HELD_NONE)
		held->last[partition] = slot;
	else if (keyed->ways)
		held->lowest[slot] = min_u64(
		    held->lowest[slot], held->lowest[next]);
	dfi__open_source_wait(&keyed->state, partition);
	return true;
}

void dfi__keyed_drop_first(struct keyed *keyed, uint32_t partition)
{
	struct held *held = &keyed->held;
	uint32_t slot = held->first[partition];

	held->first[partition] = held->behind[slot];
	held->behind[slot] = held->free;
	held->free = slot;
	held->n--;
	dfi__open_source_sent(&keyed->state, partition);
}

uint64_t dfi__keyed_held_low(const struct keyed *keyed)
{
	const struct held *held = &keyed->held;
	uint64_t least = UINT64_MAX;
	uint32_t p;

	for (p = 0; held->n && p < keyed->table.n_partitions; p++)
		if (held->first[p] != HELD_NONE)
			least = min_u64(least, held->lowest[held->first[p]]);
	return least;
}

uint64_t dfi__keyed_held_bytes(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	uint64_t bytes;

	keyed_enter(open);
	bytes = (uint64_t)open->keyed->held.n * source->head.tuple_size;
	keyed_leave(open);
	return bytes;
}
