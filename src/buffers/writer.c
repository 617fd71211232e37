/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of a ring: sequence numbers, credits and footers. This file
 * never waits; the source above it does.
 */
#include "writer.h"

#include <string.h>
#include "base/atomic.h"
#include "base/bits.h"
#include "base/counter.h"
#include "base/error.h"
#include "layout/checksum.h"

void dfi__writer_init(struct writer *writer, struct remote *remote,
    const struct ring_geometry *geometry, uint64_t start)
{
	*writer = (struct writer){
		.geometry = *geometry,
		.remote = remote,
		.seq = start,
		.consumed = start,
	};
	if (!remote->in_place)
		atomic_set(&writer_header(writer)->credit.consumed, start);
}

bool dfi__writer_ring_used(const struct writer *writer)
{
	const struct segment_footer *first =
	    (const struct segment_footer *)(const void *)(writer->remote->ring +
		slot_offset(&writer->geometry, 0) +
		writer->geometry.footer_offset);

	/* A shadow ring cannot tell. The ring's owner has checked. */
	if (!writer->remote->in_place)
		return false;
	if (writer->geometry.apart)
		first = &writer_header(writer)->slots;
	return atomic_observe(&writer_header(writer)->credit.consumed) !=
	    writer->seq ||
	    atomic_observe(&writer_header(writer)->end.state) & FOOTER_FLAGS ||
	    footer_seq(atomic_observe(&first->state)) == (uint32_t)writer->seq;
}

int dfi__writer_room(struct writer *writer, uint32_t segments)
{
	uint64_t consumed,
	    ahead = writer->seq + segments - 1 - writer->consumed;
	struct remote *remote = writer->remote;
	int ret;

	if (ahead < writer->geometry.segment_count)
		return writer_slot_is_free(writer);
	if (!remote->in_place) {
		ret = remote->transport->ops->ring.progress(remote);
		if (ret < 0)
			return ret;
	}
	/*
	 * Pairs with the publish in the transport's give_credit(): the reader's
	 * loads from the returned slots come before our stores.
	 */
	consumed = atomic_observe(&writer_header(writer)->credit.consumed);
	/*
	 * A device may write the count byte by byte, so this value may be torn.
	 * The count only grows.
	 */
	if (unlikely(!remote->in_place) &&
	    (int64_t)(consumed - writer->consumed) < 0)
		return 0;
	if (writer->seq - consumed >
	    (uint64_t)writer->geometry.segment_count + writer->elsewhere)
		return dfi__fail(-EBADMSG,
		    "the target counts %lu segments, the source has sent %lu",
		    (unsigned long)consumed, (unsigned long)writer->seq);
	if (unlikely(writer->keeper != NULL))
		consumed = writer->keeper->keep(
		    writer->keeper, writer, consumed);
	writer->consumed = consumed;
	ahead = writer->seq + segments - 1 - writer->consumed;
	return ahead < writer->geometry.segment_count
	    ? writer_slot_is_free(writer)
	    : 0;
}

void dfi__writer_fill_header(
    const struct writer *writer, const char *tuples, uint64_t used)
{
	const struct ring_geometry *g = &writer->geometry;
	struct segment_header *header = segment_header(g, tuples);

	if (g->parts & SEGMENT_GLOBAL)
		header->global = writer->global;
	if (g->parts & SEGMENT_TARGETS)
		header->targets = writer->targets;
	if (g->parts & SEGMENT_MARK)
		header->mark = writer->mark;
	if (g->parts & SEGMENT_RECORDS)
		header->records = writer->records;
	if (g->parts & SEGMENT_TABLES)
		header->table = writer->table;
	if (g->parts & SEGMENT_INPUTS) {
		header->records = used == FOOTER_MARK ? 0 : used;
		header->input = writer->input;
		header->settled = writer->settled;
	}
	if (g->parts & SEGMENT_CHECKSUM)
		header->checksum = dfi__segment_checksum(
		    g, tuples, footer_state(writer->seq, used, 0));
}

static always_inline void count(struct writer *writer, uint64_t used)
{
	const struct ring_geometry *g = &writer->geometry;

	owned_add(&writer->total,
	    used == g->segment_bytes ? g->segment_tuples
				     : used / g->tuple_size);
	counter_add(&writer->segments, 1);
	counter_add(&writer->partial_segments, used != g->segment_bytes);
	writer->segment = NULL;
	writer->seq++;
	writer->slot = next_slot(g, writer->slot);
}

void dfi__writer_count(struct writer *writer, uint64_t used)
{
	count(writer, used);
}

void dfi__write_batch_post(struct write_batch *batch)
{
	struct remote *held = batch->held;

	batch->held = NULL;
	if (held)
		held->transport->ops->ring.post(held);
}

/* A batch holds the writes of one queue only: most batches have one queue. */
static int write_held(struct writer *writer, struct transport_write *write)
{
	struct write_batch *batch = writer->batch;
	struct remote *remote = writer->remote;

	if (batch->held && batch->held->queue != remote->queue)
		dfi__write_batch_post(batch);
	batch->held = remote;
	write->more = true;
	return remote->transport->ops->ring.write(remote, write);
}

static always_inline int publish_from(
    struct writer *writer, const char *buffered, uint64_t used)
{
	const struct ring_geometry *g = &writer->geometry;
	uint64_t slot = slot_offset(g, writer->slot);
	struct transport_write write = {
		.buffered = buffered,
		.payload_offset = slot,
		.payload_size = g->payload_offset + used,
		.footer_offset = slot + (uint64_t)g->footer_offset,
		.footer[1] = footer_state(writer->seq, used, 0),
	};

	count(writer, used);
	write.footer[0] = atomic_peek(&writer->total);
	if (unlikely(writer->batch && writer->batch->open))
		return write_held(writer, &write);
	return writer->remote->transport->ops->ring.write(
	    writer->remote, &write);
}

int dfi__writer_publish_from(
    struct writer *writer, const char *buffered, uint64_t used)
{
	return publish_from(writer, buffered, used);
}

int dfi__writer_publish(struct writer *writer, uint64_t used)
{
	/*
	 * The segment began behind a part that was sent, maybe in this very
	 * slot, or it goes to several rings (replica_writer.h).
	 */
	if (unlikely(writer->segment != writer_payload(writer))) {
		memmove(writer_payload(writer), writer->segment, used);
		counter_add(&writer->moved, used);
	}
	if (unlikely(writer->geometry.parts))
		dfi__writer_fill_header(writer, writer_payload(writer), used);
	return publish_from(writer, NULL, used);
}

/* ---- Marks ------------------------------------------------------------- */

void dfi__writer_fill_mark(
    const struct writer *writer, char *payload, uint64_t mark)
{
	memcpy(payload, &mark, sizeof(mark));
	if (writer->geometry.parts & SEGMENT_GLOBAL)
		segment_header(&writer->geometry, payload)->mark = writer->mark;
	if (writer->geometry.parts)
		dfi__writer_fill_header(writer, payload, FOOTER_MARK);
}

static int publish_payload(
    struct writer *writer, const char *buffered, uint64_t used)
{
	const struct ring_geometry *g = &writer->geometry;
	uint64_t slot = slot_offset(g, writer->slot);
	struct transport_write write = {
		.buffered = buffered,
		.payload_offset = slot,
		.footer_offset = slot + (uint64_t)g->footer_offset,
		.footer[0] = atomic_peek(&writer->total),
		.footer[1] = footer_state(writer->seq, used, 0),
	};

	count(writer, 0);
	return writer->remote->transport->ops->ring.write(
	    writer->remote, &write);
}

int dfi__writer_publish_mark_from(struct writer *writer, const char *buffered)
{
	return publish_payload(writer, buffered, FOOTER_MARK);
}

int dfi__writer_publish_mark(struct writer *writer, uint64_t mark)
{
	dfi__writer_fill_mark(writer, writer_payload(writer), mark);
	return dfi__writer_publish_mark_from(writer, NULL);
}

int dfi__writer_publish_move(struct writer *writer, uint64_t key)
{
	memcpy(writer_payload(writer), &key, sizeof(key));
	return publish_payload(writer, NULL, FOOTER_MOVE);
}

static struct segment_footer *slot_footer(
    const struct writer *writer, uint32_t slot)
{
	return (struct segment_footer *)(void *)(writer->remote->ring +
	    slot_offset(&writer->geometry, slot) +
	    writer->geometry.footer_offset);
}

void dfi__writer_return_to(struct writer *writer, uint64_t n)
{
	const struct ring_geometry *g = &writer->geometry;
	uint64_t seq = writer->seq - g->segment_count;
	uint32_t slot = writer->slot;

	for (; n < g->segment_count; n++, seq++, slot = next_slot(g, slot))
		atomic_set(
		    &slot_footer(writer, slot)->state, footer_state(seq, 0, 0));
}

int dfi__writer_publish_part(struct writer *writer, uint64_t used)
{
	char *segment = writer->segment;
	int ret = dfi__writer_room(writer, 2);

	if (ret <= 0)
		return ret;
	ret = dfi__writer_publish(writer, used);
	if (ret < 0)
		return ret;
	writer->segment = segment + used;
	return 1;
}

int dfi__writer_end(struct writer *writer, uint64_t flag)
{
	struct transport_write write = {
		.footer_offset = offsetof(struct ring_header, end),
		.footer[0] = atomic_peek(&writer->total),
		.footer[1] = footer_state(writer->seq, 0, flag),
	};

	return writer->remote->transport->ops->ring.write(
	    writer->remote, &write);
}

int dfi__writer_drained(struct writer *writer)
{
	struct remote *remote = writer->remote;

	return remote->in_place ? 1
				: remote->transport->ops->ring.drained(remote);
}

uint64_t dfi__writer_last(const struct writer *writer, uint64_t n)
{
	const struct ring_geometry *g = &writer->geometry;
	uint64_t total = atomic_peek(&writer->total);
	const struct segment_footer *first;

	if (!n)
		return 0;
	/* Up to the end of the first of them, and without it. */
	first = slot_footer(writer,
	    (uint32_t)((writer->slot + g->segment_count - n) %
		g->segment_count));
	return min_u64(total,
	    total - atomic_peek(&first->total) +
		footer_tuple_bytes(atomic_peek(&first->state)) / g->tuple_size);
}

uint64_t dfi__writer_skipped(
    const struct writer *writer, uint64_t n, uint32_t target)
{
	const struct ring_geometry *g = &writer->geometry;
	uint32_t slot = writer->slot;
	uint64_t state, bytes = 0;
	const char *tuples;

	for (n = min_u64(n, g->segment_count); n; n--) {
		slot = (slot + g->segment_count - 1) % g->segment_count;
		state = atomic_peek(&slot_footer(writer, slot)->state);
		tuples = writer->remote->ring + slot_offset(g, slot) +
		    g->payload_offset;
		if (!(segment_header(g, tuples)->targets >> target & 1))
			bytes += footer_tuple_bytes(state);
	}
	return bytes / g->tuple_size;
}

uint64_t dfi__writer_unreturned(const struct writer *writer)
{
	const struct ring_geometry *g = &writer->geometry;
	uint64_t total = atomic_peek(&writer->total);
	/* Pairs with the publish in the transport's give_credit(). */
	uint64_t left = writer->seq -
	    atomic_observe(&writer_header(writer)->credit.consumed);

	if (!left)
		return 0;
	/* A count that makes no sense confirms nothing. */
	if (left > g->segment_count)
		return total;
	if (!writer->remote->in_place)
		return min_u64(total, left * g->segment_tuples);
	return dfi__writer_last(writer, left);
}

_Atomic uint32_t *dfi__writer_wait_word(struct writer *writer)
{
	return &writer_header(writer)->writer_waits;
}
