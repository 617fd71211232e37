/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader whose source moves between this ring and shared rings, at segment
 * boundaries. The last segment in one of them is a move, which says where the
 * next is. A shared ring has the same readers as long as it is written, and
 * each of them begins with its first segment; so a ring that has been left is
 * not read again. A source moves back before its end mark.
 *
 * Credit counts all segments, wherever they lie, moves included. The footers of
 * a shared ring have numbers and totals of their own.
 */
#include "reader.h"

#include <string.h>
#include "base/error.h"
#include "shared_ring.h"
#include "transport/transport.h"

static int move_out(struct reader *reader, uint64_t key)
{
	struct ring_geometry *g = &reader->geometry;
	struct ring_geometry there = ring_geometry_moved(
	    *g, reader->shared_segments);
	const char *slots = reader->slots;
	uint64_t number = reader->seq - reader->ahead;
	int ret = dfi__reader_find_granted(reader, key, there.segment_count);

	if (ret < 0)
		return ret;
	reader->own.slots = slots;
	reader->own.slot = reader->slot;
	reader->own.seen = reader_seen(reader);
	reader->own.batch = reader->batch;
	reader->own.segment_count = g->segment_count;
	reader->batch = credit_batch(&there);
	g->segment_count = there.segment_count;
	/* A shared ring counts from 0. */
	reader->passed -= reader->own.seen;
	reader->returned += SHARED_RING_MOVED - reader->seq;
	reader->seq = SHARED_RING_MOVED;
	reader->ahead = reader->seq - number;
	reader->slot = 0;
	reader->away = true;
	return 0;
}

static void move_back(struct reader *reader)
{
	reader->slots = reader->own.slots;
	reader->slot = reader->own.slot;
	reader->passed += reader->own.seen;
	reader->seq -= reader->ahead;
	reader->returned -= reader->ahead;
	reader->ahead = 0;
	reader->geometry.segment_count = reader->own.segment_count;
	reader->batch = reader->own.batch;
	reader->away = false;
	reader->region->transport->ops->region.forget(
	    reader->region, reader->ring);
}

int dfi__reader_move(struct reader *reader)
{
	uint64_t total = atomic_peek(&reader->head->total), key;
	bool at_stop;
	int ret = 0;

	memcpy(&key,
	    (const char *)reader->head - reader->geometry.footer_offset +
		reader->geometry.payload_offset,
	    sizeof(key));
	if (total != reader_seen(reader) || !key != reader->away)
		return dfi__fail(-EBADMSG,
		    "segment %lu, behind %lu tuples of %lu: it says key %#lx, "
		    "but its ring is %sa shared one",
		    (unsigned long)reader->seq, (unsigned long)total,
		    (unsigned long)reader_seen(reader), (unsigned long)key,
		    reader->away ? "" : "not ");
	reader_go_on(reader);
	at_stop = reader->seq == reader->stop;
	if (key)
		ret = move_out(reader, key);
	else
		move_back(reader);
	if (ret < 0)
		return ret;
	reader->head = reader_footer(reader, reader->slot);
	/* What has come behind the move counts as having come before it. */
	if (at_stop)
		reader->stop = dfi__reader_arrived(reader);
	return 0;
}
