/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of an ordered flow at one of its targets. A target has one ring for
 * each source. The segments of a ring have ascending positions in the flow's
 * order, and each position belongs to one segment of one ring. The
 * receive list has the rings whose next segment has not arrived. The next list
 * has the other rings, with the position of their next segment. See
 * docs/replicate.md, O3.
 *
 * Both lists are parts of one array. The next list comes first. It is a heap,
 * so its first ring is the next one to deliver. Positions may wrap around: they
 * are compared by their distance from the due position.
 *
 *	rings  | next list | receive list | rings that have ended |
 */
#ifndef DFI_BUFFERS_MERGE_H
#define DFI_BUFFERS_MERGE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Position of the first segment of a flow. It is so near to the wrap-around
 * that every flow passes it.
 */
#define MERGE_FIRST_POSITION (UINT64_MAX - 15)

struct merge {
	uint64_t position; /* the due position: the next one to deliver */
	uint32_t n_next, n_waiting;
	uint32_t *rings;
	uint64_t *positions; /* by ring; valid in the next list */
};

/* All n rings start in the receive list. -ENOMEM. */
int dfi__merge_init(struct merge *merge, uint32_t n, uint64_t first_position);
void dfi__merge_free(struct merge *merge);

/* Whether the due segment has arrived. */
static inline bool merge_is_due(const struct merge *merge)
{
	return merge->n_next &&
	    merge->positions[merge->rings[0]] == merge->position;
}

static inline uint32_t merge_first(const struct merge *merge)
{
	return merge->rings[0];
}

/*
 * Whether a ring has a position that was delivered from another ring already.
 */
static inline bool merge_is_late(const struct merge *merge)
{
	return merge->n_next &&
	    merge->positions[merge->rings[0]] - merge->position > INT64_MAX;
}

/*
 * The next segment has arrived for the ring at this index of the receive list.
 * The list starts at index n_next. The ring swaps with the first one of the
 * list and joins the next list. false: the position was delivered before, or is
 * too far ahead to be valid.
 */
bool dfi__merge_arrived(struct merge *merge, uint32_t index, uint64_t position);

/*
 * The ring at this index of the receive list has ended. It swaps with the last
 * one of the list.
 */
void dfi__merge_ended(struct merge *merge, uint32_t index);

/*
 * n positions from the due one on are delivered. Their ring returns to the
 * receive list.
 */
void dfi__merge_delivered(struct merge *merge, uint32_t n);

#endif
