/* SPDX-License-Identifier: Apache-2.0 */
/* How a target of an open flow takes its pairs, and segments of their rings. */
#include "base/error.h"
#include "buffers/layout/checksum.h"
#include "acks.h"
#include "open_multicast.h"
#include "open_target.h"

void dfi__open_target_joined(
    struct open_target *open, struct taken *taken, uint64_t before)
{
	taken->joined = true;
	dfi__open_add_event(open, DFI_JOINED, taken, before);
}

/* Under the lock. */
static bool take_pair(struct open_target *open, uint32_t seat)
{
	struct pair *pair = dfi__pairs_take(
	    &open->pairs, seat, open->order != NULL);
	uint32_t n = open_n_taken(open);
	struct taken *taken = &open->taken[n];

	if (!pair)
		return false;
	*taken = (struct taken){
		.end = pair->end,
		.pair = pair,
		.seat = seat,
	};
	/* Behind the element: pairs with open_n_taken(). */
	atomic_publish(&open->n_taken, n + 1);
	if (open->target->marks && !open->order)
		dfi__marks_joined(open->target->marks, seat);
	if (open->acks)
		dfi__acks_join(open, taken);
	if (!taken->end->readers[0].awaits_mark)
		dfi__open_target_joined(open, taken, 0);
	return true;
}

void dfi__open_target_take_pairs(struct open_target *open)
{
	uint32_t i;

	for (i = 0; i < open->pairs.seats.n_others; i++)
		/* In an ordered flow also the next one of that seat. */
		if (take_pair(open, i) && open->order)
			(void)take_pair(open, i);
}

int dfi__open_target_take_mark(struct taken *taken, uint64_t *before)
{
	struct reader *reader = &taken->end->readers[0];
	const char *payload;
	uint64_t bytes;
	int ret = dfi__reader_take_other(reader, &payload, &bytes);

	if (!ret && !reader->has_mark)
		ret = dfi__fail(-EBADMSG,
		    "segment 0: a mark comes first in this ring, but it has "
		    "%lu bytes of tuples",
		    (unsigned long)bytes);
	if (!ret && reader->geometry.parts & SEGMENT_GLOBAL)
		taken->mark = segment_header(&reader->geometry, payload)->mark;
	if (!ret)
		ret = reader_release(reader);
	if (ret < 0)
		return dfi__target_damaged(taken->end, 0, ret);
	*before = reader->marked - 1;
	if (flow_is_multicast(&taken->end->flow)) {
		reader->base = dfi__open_multicast_base(taken->end);
		taken->mark = dfi__open_multicast_mark_before(taken->end);
	}
	/* It is not one of the application's. */
	reader->awaits_mark = reader->has_mark = false;
	reader->marked = taken->mark;
	return 0;
}
