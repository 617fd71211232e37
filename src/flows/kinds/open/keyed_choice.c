/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of a flow with replay that does not route by keys: R8 of
 * docs/open-flows.md. Which target gets the next tuple, and up to which input
 * position all are acknowledged.
 */
#include "keyed.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_LOWS 4

/* Those of one segment need no memory later, so that each has one. */
static bool new_lows(struct lows *lows)
{
	lows->of = calloc(FIRST_LOWS, sizeof(*lows->of));
	lows->room = FIRST_LOWS;
	return lows->of != NULL;
}

bool dfi__keyed_new_ways(struct dfi_source *source, struct keyed *keyed)
{
	uint32_t n_targets = source->flow.n_targets;
	uint32_t n = flow_names_seats(&source->flow) ? n_targets : 1;

	keyed->ways = calloc(1,
	    sizeof(*keyed->ways) + dfi__open_tables_size(n, n_targets) +
		n_targets * sizeof(keyed->lows[0]));
	if (!keyed->ways)
		return false;
	dfi__open_choice_init(keyed->ways, n, n_targets, keyed->ways + 1);
	keyed->lows = (struct lows *)(void *)((char *)(keyed->ways + 1) +
	    dfi__open_tables_size(n, n_targets));
	keyed->next = source->index % n_targets;
	for (n = 0; n < n_targets; n++)
		if (!new_lows(&keyed->lows[n]))
			break;
	if (n == n_targets)
		return true;
	dfi__keyed_free_ways(keyed);
	return false;
}

void dfi__keyed_free_ways(struct keyed *keyed)
{
	uint32_t i;

	if (!keyed->ways)
		return;
	for (i = 0; i < keyed->ways->newest.n_targets; i++)
		free(keyed->lows[i].of);
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

void dfi__keyed_note_ring(struct keyed *keyed, uint32_t seat)
{
	keyed->lows[seat].first = keyed->lows[seat].n = 0;
}

/* Make room for one more at the end. */
static bool extend(struct lows *lows)
{
	uint32_t room = 2 * lows->room;
	struct low *of;

	if (lows->first >= lows->room / 2) {
		memmove(lows->of, lows->of + lows->first,
		    lows->n * sizeof(*lows->of));
		lows->first = 0;
		return true;
	}
	of = room > lows->room ? realloc(lows->of, room * sizeof(*of)) : NULL;
	if (!of)
		return false;
	lows->of = of;
	lows->room = room;
	return true;
}

/* Those in front of it that are not lower are so for no segment any more. */
void dfi__keyed_note(
    struct dfi_source *source, uint32_t seat, const void *tuple)
{
	struct open_source *open = open_source(source);
	struct lows *lows = &open->keyed->lows[seat];
	uint64_t segment = open->ends[seat]->rings[0].seq;
	uint64_t position = flow_input_position(&source->flow, tuple);
	struct low *last;

	for (; lows->n; lows->n--) {
		last = &lows->of[lows->first + lows->n - 1];
		if (last->position >= position)
			continue;
		if (last->segment == segment)
			return;
		break;
	}
	/* Without memory for it, the one before counts for longer. */
	if (lows->first + lows->n < lows->room || extend(lows))
		lows->of[lows->first + lows->n++] = (struct low){ segment,
			position };
	else
		lows->of[lows->first + lows->n - 1].segment = segment;
}

/* The lowest input position in an end that is not acknowledged. */
static uint64_t lowest_of(const struct open_source *open, uint32_t seat)
{
	struct lows *lows = &open->keyed->lows[seat];
	uint64_t acknowledged = open->ends[seat]->rings[0].seq -
	    dfi__replay_unacked(open, seat);

	for (; lows->n; lows->first++, lows->n--)
		if (lows->of[lows->first].segment >= acknowledged)
			return lows->of[lows->first].position;
	return UINT64_MAX;
}

uint64_t dfi__keyed_low(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	uint64_t least;
	uint32_t i;

	/* Each target is asked once for a segment, in the mean. */
	if (keyed->known) {
		keyed->known--;
		return keyed->low;
	}
	least = dfi__keyed_held_low(keyed);
	for (i = 0; i < open_seats(source); i++)
		if (open->ends[i])
			least = min_u64(least, lowest_of(open, i));
	keyed->low = least == UINT64_MAX ? keyed->last : least - 1;
	keyed->known = open->n_ends - 1;
	return keyed->low;
}
