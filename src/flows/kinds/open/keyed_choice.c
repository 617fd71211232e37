/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of a flow with replay that does not route by keys: R8 of
 * docs/open-flows.md. Which target gets the next tuple, and up to which input
 * position all are acknowledged.
 */
#include "keyed.h"

#include <stdlib.h>

bool dfi__keyed_new_ways(struct dfi_source *source, struct keyed *keyed)
{
	uint32_t n_targets = source->flow.n_targets;
	uint32_t n = flow_names_seats(&source->flow) ? n_targets : 1;

	keyed->ways = calloc(1,
	    sizeof(*keyed->ways) + dfi__open_tables_size(n, n_targets) +
		n_targets * sizeof(keyed->mixed[0]));
	if (!keyed->ways)
		return false;
	dfi__open_choice_init(keyed->ways, n, n_targets, keyed->ways + 1);
	keyed->mixed = (uint64_t *)(void *)((char *)(keyed->ways + 1) +
	    dfi__open_tables_size(n, n_targets));
	keyed->next = source->index % n_targets;
	return true;
}

void dfi__keyed_free_ways(struct keyed *keyed)
{
	free(keyed->ways);
}

uint32_t dfi__keyed_way(
    struct dfi_source *source, uint32_t seat, const void *tuple)
{
	if (!open_source(source)->keyed->ways)
		return dfi__route(&source->router, tuple);
	return flow_names_seats(&source->flow) ? seat : 0;
}

/* ---- Choosing ------------------------------------------------------------ */

/* The segments that a ring has room for, with the open one. */
static uint64_t room(const struct dfi_source *end)
{
	const struct writer *ring = &end->rings[0];

	return ring->geometry.segment_count - dfi__replay_unreturned(ring);
}

/* Round robin: the next one. Otherwise the one with most room. */
static uint16_t find(struct dfi_source *source, bool again)
{
	struct open_source *open = open_source(source);
	const struct keyed *keyed = open->keyed;
	uint32_t n = open_seats(source), i, seat;
	bool in_turn = source->router.routing == DFI_ROUTE_ROUND_ROBIN;
	uint16_t best = OPEN_NOBODY;
	uint64_t most = 0;

	for (i = 0; i < n; i++) {
		seat = (keyed->next + i) % n;
		if (!keyed_end(open, (uint16_t)seat) ||
		    (again && keyed->full[seat]))
			continue;
		if (in_turn)
			return (uint16_t)seat;
		if (best == OPEN_NOBODY || room(open->ends[seat]) > most) {
			best = (uint16_t)seat;
			most = room(open->ends[seat]);
		}
	}
	return best;
}

void dfi__keyed_choose(struct dfi_source *source, bool again)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	uint16_t seat = keyed->ways->newest.owners[0];
	const struct dfi_source *end = keyed_end(open, seat);

	if (flow_names_seats(&source->flow) || !open->may_push)
		return;
	/* It goes on with the segment that it has begun. */
	if (source->router.routing == DFI_ROUTE_ANY && end &&
	    !(again && keyed->full[seat]) && source_filled(end, 0))
		return;
	seat = find(source, again);
	dfi__open_choose(keyed->ways, &keyed->state, seat);
	dfi__keyed_point(open, 0, open_source_route(&keyed->state, 0));
}

void dfi__keyed_took(struct dfi_source *source, struct dfi_source *end)
{
	struct keyed *keyed = open_source(source)->keyed;

	if (!flow_names_seats(&source->flow) &&
	    (source->router.routing == DFI_ROUTE_ROUND_ROBIN ||
		!source_filled(end, 0)))
		keyed->next = (keyed->ways->newest.owners[0] + 1u) %
		    open_seats(source);
}

/* ---- What is acknowledged ------------------------------------------------ */

/* Its segment's lowest input position. */
void dfi__keyed_note(
    struct dfi_source *source, struct dfi_source *end, const void *tuple)
{
	struct writer *writer = &end->writers[0];
	uint64_t position = flow_input_position(&source->flow, tuple);

	if (!source_filled(end, 0) || position < writer->global)
		writer->global = position;
}

void dfi__keyed_note_again(struct open_source *open, uint32_t seat)
{
	open->keyed->mixed[seat] = open->ends[seat]->rings[0].seq + 1;
}

/*
 * The lowest input position in an end that is not acknowledged. Without tuples
 * that were sent again, that is the one of its first segment with any.
 */
static uint64_t lowest_of(const struct open_source *open, uint32_t seat)
{
	const struct dfi_source *end = open->ends[seat];
	const struct writer *ring = &end->rings[0];
	uint64_t least = source_filled(end, 0) ? end->writers[0].global
					       : UINT64_MAX;
	uint64_t ago = dfi__replay_unacked(open, seat), lowest, bytes;
	bool mixed = ring->seq - ago < open->keyed->mixed[seat];

	for (; ago; ago--) {
		bytes = dfi__replay_segment(open, seat, ago, &lowest);
		if (!bytes)
			continue;
		/* One that can't be read may have any. */
		if (bytes == UINT64_MAX)
			return 1;
		least = min_u64(least, lowest);
		if (!mixed)
			break;
	}
	return least;
}

uint64_t dfi__keyed_low(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	uint64_t least = UINT64_MAX;
	uint32_t i;

	/* Each target is asked once for a segment, in the mean. */
	if (keyed->known) {
		keyed->known--;
		return keyed->low;
	}
	for (i = 0; i < keyed->n_held; i++)
		least = min_u64(least,
		    flow_input_position(&source->flow,
			keyed->held + (size_t)i * source->head.tuple_size));
	for (i = 0; i < open_seats(source); i++)
		if (open->ends[i])
			least = min_u64(least, lowest_of(open, i));
	keyed->low = least == UINT64_MAX ? keyed->last : least - 1;
	keyed->known = open->n_ends - 1;
	return keyed->low;
}
