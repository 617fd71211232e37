/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's end of a ring. Everything in the ring was written by another
 * process and is checked before it is used. It never waits; the target above it
 * does. Error texts are made here without names; the target adds both ends.
 */
#include "reader.h"

#include "../base/error.h"
#include "../base/wait.h"
#include "../transport/transport.h"

static struct ring_header *header(const struct reader *reader)
{
	return (struct ring_header *)(void *)((char *)reader->region->base +
	    reader->offset);
}

static struct segment_footer *footer(const struct reader *reader, uint32_t slot)
{
	return (struct segment_footer *)(void *)((char *)reader->region->base +
	    reader->offset + slot_offset(&reader->geometry, slot) +
	    reader->geometry.footer_offset);
}

void dfi__reader_init(struct reader *reader, struct region *region,
    const struct ring_geometry *geometry, uint32_t source, uint64_t start)
{
	uint64_t last_lap = start - geometry->segment_count;
	uint32_t slot;

	*reader = (struct reader){
		.geometry = *geometry,
		.region = region,
		.offset = ring_offset(geometry, source),
		.seq = start,
		.returned = start,
	};
	for (slot = 0; slot < geometry->segment_count; slot++)
		atomic_set(&footer(reader, slot)->state,
		    footer_state(last_lap + slot, 0, 0));
	atomic_set(&header(reader)->consumed, start);
	reader->head = footer(reader, 0);
}

int dfi__reader_take(
    struct reader *reader, const char **payload, uint64_t *bytes)
{
	const struct ring_geometry *g = &reader->geometry;
	uint64_t state = atomic_peek(&reader->head->state);
	uint64_t total = atomic_peek(&reader->head->total);
	uint64_t used = footer_used(state);
	uint64_t tuples = used == g->segment_bytes ? g->segment_tuples
						   : used / g->tuple_size;

	if (!used || used > g->segment_bytes ||
	    tuples * g->tuple_size != used || state & FOOTER_FLAGS)
		return dfi__fail(-EBADMSG,
		    "segment %lu: footer state %#lx: %lu bytes are not 1 to %u "
		    "tuples of %u bytes",
		    (unsigned long)reader->seq, (unsigned long)state,
		    (unsigned long)used, g->segment_tuples, g->tuple_size);
	if (total != reader->total + tuples)
		return dfi__fail(-EBADMSG,
		    "segment %lu: the source counts %lu tuples up to here, "
		    "the target %lu",
		    (unsigned long)reader->seq, (unsigned long)total,
		    (unsigned long)(reader->total + tuples));
	*payload = (const char *)reader->head - g->footer_offset;
	*bytes = used;
	reader->total = total;
	reader->seq++;
	reader->slot = next_slot(g, reader->slot);
	reader->head = footer(reader, reader->slot);
	return 0;
}

int dfi__reader_release(struct reader *reader)
{
	if (reader->seq - reader->returned < credit_batch(&reader->geometry))
		return 0;
	reader->returned = reader->seq;
	return reader->region->transport->ops->give_credit(reader->region,
	    reader->offset + offsetof(struct ring_header, consumed),
	    reader->seq,
	    reader->offset + offsetof(struct ring_header, writer_waits));
}

void dfi__reader_close(struct reader *reader)
{
	/* Pairs with dfi__writer_closed(). */
	atomic_publish(&header(reader)->closed, 1);
	wait_wake(&header(reader)->writer_waits);
}

int dfi__reader_check_end(struct reader *reader)
{
	const struct segment_footer *end = &header(reader)->end;
	uint64_t state, total;

	if (reader->end || !reader_end_marked(reader))
		return 0;
	/* The mark may have come after the caller looked at the head. */
	if (reader_ready(reader))
		return 0;
	state = atomic_peek(&end->state);
	total = atomic_peek(&end->total);
	if (state & FOOTER_FLAG_ABORT) {
		reader->end = READER_ABORTED;
		return 0;
	}
	if (footer_seq(state) != (uint32_t)reader->seq ||
	    total != reader->total || !(state & FOOTER_FLAG_END))
		return dfi__fail(-EBADMSG,
		    "the source ended after %lu tuples and segment %u, the "
		    "target received %lu tuples and segment %u",
		    (unsigned long)total, footer_seq(state),
		    (unsigned long)reader->total, (uint32_t)reader->seq);
	reader->end = READER_ENDED;
	return 0;
}
