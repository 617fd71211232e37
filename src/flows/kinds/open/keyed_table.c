/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a source of an open flow that routes by keys, the latch that it
 * is used in, and its memory.
 */
#include "keyed.h"

#include <stdlib.h>
#include <string.h>
#include "base/bits.h"
#include "base/error.h"

/* ---- The latch ---------------------------------------------------------- */

/* The helper is inside, or about to be: let it go first. */
void dfi__latch_wait(struct keyed *keyed)
{
	latch_leave(keyed);
	pthread_mutex_lock(&keyed->latch);
	__atomic_store_n(&keyed->table.inside, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&keyed->latch);
}

/* ---- Memory ------------------------------------------------------------ */

/* How many partitions, or without keys ways, there are. */
static uint32_t keyed_ways(const struct dfi_source *source)
{
	return source->flow.partitions        ? source->flow.partitions
	    : flow_names_seats(&source->flow) ? source->flow.n_targets
					      : 1;
}

void dfi__keyed_close_waiting(struct dfi_source *source)
{
	struct keyed *keyed = open_source(source)->keyed;

	keyed->waiting.next = keyed->spare;
	keyed->waiting.end = keyed->spare + source->head.tuple_size;
}

/* The source routes inline where its pushes need no more than the table. */
static void init_table(struct dfi_source *source)
{
	struct keyed *keyed = open_source(source)->keyed;
	uint32_t p;

	dfi__keyed_close_waiting(source);
	for (p = 0; p < keyed_ways(source); p++)
		keyed->lanes[p] = keyed->shut[p] = &keyed->waiting;
	keyed->table.lanes = keyed->lanes;
	keyed->table.n_partitions = keyed_ways(source);
	keyed->hash64 = dfi__router_hashes64(&source->router);
	keyed->inline_routing = keyed->hash64 && !keyed->replays &&
		dfi__fence_registered
	    ? DFI_INLINE_TABLE64
	    : DFI_INLINE_NONE;
	source->head.table = &keyed->table;
	source->head.inline_routing = keyed->inline_routing;
}

int dfi__keyed_new(struct dfi_source *source)
{
	uint32_t n_targets = source->flow.n_targets;
	uint32_t n_partitions = keyed_ways(source);
	size_t state = dfi__open_source_size(n_partitions, n_targets);
	size_t spare = align_up(source->head.tuple_size, sizeof(uint64_t));
	struct keyed *keyed = calloc(1, sizeof(*keyed));
	char *memory = keyed
	    ? calloc(1,
		  state + 2 * n_targets * sizeof(uint64_t) +
		      n_partitions *
			  (2 * sizeof(keyed->lanes[0]) +
			      2 * sizeof(keyed->held.first[0])) +
		      n_targets * sizeof(keyed->of_seats[0]) + spare +
		      2 * n_targets * sizeof(bool))
	    : NULL;

	if (!memory ||
	    (!source->flow.partitions && !dfi__keyed_new_ways(source, keyed))) {
		free(memory);
		free(keyed);
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", source->flow.name);
	}
	pthread_mutex_init(&keyed->latch, NULL);
	keyed->incarnations = (uint64_t *)(void *)memory;
	keyed->asked = keyed->incarnations + n_targets;
	keyed->lanes = (void *)(keyed->asked + n_targets);
	keyed->shut = keyed->lanes + n_partitions;
	keyed->replays = source->flow.input_position != 0;
	keyed->of_seats = (void *)(keyed->shut + n_partitions);
	keyed->ends = open_source(source)->ends;
	keyed->held.first = (void *)(keyed->of_seats + n_targets);
	keyed->held.last = keyed->held.first + n_partitions;
	keyed->held.free = HELD_NONE;
	memset(keyed->held.first, 0xff,
	    n_partitions * sizeof(keyed->held.first[0]));
	keyed->spare = (char *)(keyed->held.last + n_partitions);
	keyed->state.owed = (void *)(keyed->spare + spare);
	keyed->full = (bool *)((char *)keyed->state.owed + state);
	keyed->pause_ns = KEYED_LEAST_PAUSE_NS / 2;
	keyed->begun = keyed->full + n_targets;
	open_source(source)->keyed = keyed;
	init_table(source);
	return source->flow.spill_dir ? dfi__spill_new(source) : 0;
}

void dfi__keyed_start(struct open_source *open)
{
	struct keyed *keyed = open->keyed;
	struct seat_watch *seats = &open->pairs.seats;

	keyed_enter(open);
	pthread_mutex_lock(&seats->lock);
	dfi__open_source_init(&keyed->state, &seats->seats,
	    keyed->ways ? keyed->ways : seats->tables, keyed->state.owed);
	seat_watch_call(seats);
	pthread_mutex_unlock(&seats->lock);
	keyed_leave(open);
}

void dfi__keyed_free(struct keyed *keyed)
{
	if (!keyed)
		return;
	pthread_mutex_destroy(&keyed->latch);
	dfi__spill_free(keyed->spill);
	dfi__held_free(&keyed->held);
	dfi__keyed_free_ways(keyed);
	free(keyed->due);
	free(keyed->incarnations);
	free(keyed);
}

/* ---- Where tuples go --------------------------------------------------- */

void dfi__keyed_point(
    struct open_source *open, uint32_t partition, uint16_t seat)
{
	struct dfi_source *end = keyed_end(open, seat);

	open->keyed->lanes[partition] = end ? end->head.lanes
					    : &open->keyed->waiting;
}

void dfi__keyed_route(struct open_source *open)
{
	struct keyed *keyed = open->keyed;
	uint32_t p, n = keyed->table.n_partitions;
	bool may_push = open->may_push && !open->source->status;

	if (!keyed->state.tables)
		return;
	for (p = 0; p < n; p++)
		dfi__keyed_point(open, p,
		    may_push ? open_source_route(&keyed->state, p)
			     : OPEN_NOBODY);
}

/* The source has failed: pushes come to dfi_source_table_full(). */
void dfi__keyed_forget(struct dfi_source *source, uint32_t lane)
{
	(void)lane;
	dfi__keyed_route(open_source(source));
}

void dfi__keyed_take(struct open_source *open, uint32_t seat)
{
	struct keyed *keyed = open->keyed;
	struct dfi_source_head *head = &open->ends[seat]->head;

	keyed->of_seats[seat] = head->only;
	head->lanes = &keyed->of_seats[seat];
	if (keyed->linger_ns)
		dfi__keyed_park(keyed, open->ends[seat]);
	if (keyed->ways)
		dfi__keyed_note_ring(keyed, seat);
	if (keyed->state.tables && !keyed->ways)
		keyed->state.owed[seat] = keyed->state.adopted;
}

void dfi__keyed_give(struct open_source *open, uint32_t seat)
{
	struct dfi_source_head *head = &open->ends[seat]->head;

	head->only = *head->lanes;
	head->lanes = &head->only;
}

void dfi__keyed_learn(struct open_source *open)
{
	struct keyed *keyed = open->keyed;

	if (!keyed->state.tables)
		return;
	if (keyed->spill)
		dfi__spill_learn(open);
	if (keyed->ways)
		dfi__open_choice_learn(keyed->ways, &open->pairs.seats.seats);
	(void)dfi__open_source_learn(&keyed->state);
	memcpy(keyed->incarnations, keyed->state.tables->newest.incarnations,
	    open_seats(open->source) * sizeof(keyed->incarnations[0]));
	if (keyed->replays && !keyed->ways)
		keyed->settled = dfi__open_source_settled(&keyed->state);
	dfi__keyed_route(open);
}
