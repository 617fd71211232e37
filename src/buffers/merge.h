/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of an ordered flow at one of its targets: a target has a ring for
 * each source, whose segments come with ascending places, of which each belongs
 * to one segment of one ring. Rings whose next segment is not there are in the
 * receive list; the others, with the place of that segment, in the next list.
 * docs/replicate.md, O3.
 *
 * Both lists are parts of one array. The next list comes first; it is a heap,
 * so its first ring is the one that is due next. Places are compared by their
 * distance from the one that is due, and so may wrap around.
 *
 *	rings  | next list | receive list | rings that have ended |
 */
#ifndef DFI_BUFFERS_MERGE_H
#define DFI_BUFFERS_MERGE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Place of the first segment of a flow: so near to the wrap-around that flows
 * pass it all the time, not once in some years.
 */
#define MERGE_FIRST_PLACE (UINT64_MAX - 15)

struct merge {
	uint64_t place; /* to be delivered next */
	uint32_t n_next, n_waiting;
	uint32_t *rings;
	uint64_t *places; /* by ring; of those in the next list */
};

/* All n rings begin in the receive list. -ENOMEM. */
int dfi__merge_init(struct merge *merge, uint32_t n, uint64_t first_place);
void dfi__merge_free(struct merge *merge);

/* Whether what is due is there: the first of the next list. */
static inline bool merge_is_due(const struct merge *merge)
{
	return merge->n_next && merge->places[merge->rings[0]] == merge->place;
}

static inline uint32_t merge_first(const struct merge *merge)
{
	return merge->rings[0];
}

/* Whether a ring has the place that another one's segment was delivered at. */
static inline bool merge_is_late(const struct merge *merge)
{
	return merge->n_next &&
	    merge->places[merge->rings[0]] - merge->place > INT64_MAX;
}

/*
 * The next segment of the ring at a position of the receive list, which begins
 * at n_next, is there: it changes places with the first of that list. false:
 * its place was delivered before, or lies too far ahead to be one.
 */
bool dfi__merge_arrived(struct merge *merge, uint32_t position, uint64_t place);

/*
 * No more comes from the ring at a position of the receive list: it changes
 * places with the last of that list.
 */
void dfi__merge_ended(struct merge *merge, uint32_t position);

/*
 * What was due is delivered, so many places; its ring goes back to the receive
 * list.
 */
void dfi__merge_delivered(struct merge *merge, uint32_t n);

#endif
