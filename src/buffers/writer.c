/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of a ring: sequence numbers, credits and footers. It never
 * waits; the source above it does.
 */
#include "writer.h"

#include "../base/atomic.h"
#include "../base/error.h"
#include "../transport/transport.h"

static struct ring_header *header(const struct writer *writer)
{
	return (struct ring_header *)(void *)(writer->remote->direct +
	    writer->offset);
}

void dfi__writer_init(struct writer *writer, struct remote *remote,
    const struct ring_geometry *geometry, uint32_t source, uint64_t start)
{
	*writer = (struct writer){
		.geometry = *geometry,
		.remote = remote,
		.offset = ring_offset(geometry, source),
		.seq = start,
		.consumed = start,
	};
}

bool dfi__writer_ring_used(const struct writer *writer)
{
	const struct segment_footer *first = (const struct segment_footer
		*)(const void *)(writer->remote->direct + writer->offset +
	    slot_offset(&writer->geometry, 0) + writer->geometry.footer_offset);

	return atomic_observe(&header(writer)->consumed) != writer->seq ||
	    atomic_observe(&header(writer)->end.state) & FOOTER_FLAGS ||
	    footer_seq(atomic_observe(&first->state)) == (uint32_t)writer->seq;
}

bool dfi__writer_closed(const struct writer *writer)
{
	/* Pairs with the publish in dfi__reader_close(); protects nothing. */
	return atomic_observe(&header(writer)->closed);
}

int dfi__writer_credit(struct writer *writer)
{
	uint64_t ahead = writer->seq - writer->consumed;

	if (ahead < writer->geometry.segment_count)
		return 1;
	/*
	 * Pairs with the publish in the transport's give_credit(): the reader's
	 * loads from the slots it gave back come before our stores.
	 */
	writer->consumed = atomic_observe(&header(writer)->consumed);
	ahead = writer->seq - writer->consumed;
	if (ahead > writer->geometry.segment_count)
		return dfi__fail(-EBADMSG,
		    "the target counts %lu segments, the source has sent %lu",
		    (unsigned long)writer->consumed,
		    (unsigned long)writer->seq);
	return ahead < writer->geometry.segment_count;
}

int dfi__writer_open(struct writer *writer)
{
	int ret = dfi__writer_credit(writer);

	if (ret > 0)
		writer->segment = writer->remote->direct + writer->offset +
		    slot_offset(&writer->geometry, writer->slot);
	return ret;
}

int dfi__writer_publish(struct writer *writer, uint64_t used)
{
	const struct ring_geometry *g = &writer->geometry;
	uint64_t slot = writer->offset + slot_offset(g, writer->slot);
	struct transport_write write = {
		.payload = writer->segment,
		.payload_offset = slot,
		.payload_size = used,
		.footer_offset = slot + g->footer_offset,
		.wake_offset = offsetof(struct region_header, reader_waits),
	};

	writer->total += used == g->segment_bytes ? g->segment_tuples
						  : used / g->tuple_size;
	write.footer[0] = writer->total;
	write.footer[1] = footer_state(writer->seq, used, 0);
	writer->segments++;
	writer->partial_segments += used != g->segment_bytes;
	writer->segment = NULL;
	writer->seq++;
	writer->slot = next_slot(g, writer->slot);
	return writer->remote->transport->ops->write(writer->remote, &write);
}

int dfi__writer_end(struct writer *writer, uint64_t flag)
{
	struct transport_write write = {
		.payload = writer->remote->direct + writer->offset,
		.payload_offset = writer->offset,
		.footer_offset = writer->offset +
		    offsetof(struct ring_header, end),
		.footer[0] = writer->total,
		.footer[1] = footer_state(writer->seq, 0, flag),
		.wake_offset = offsetof(struct region_header, reader_waits),
	};

	return writer->remote->transport->ops->write(writer->remote, &write);
}

_Atomic uint32_t *dfi__writer_wait_word(struct writer *writer)
{
	return &header(writer)->writer_waits;
}
