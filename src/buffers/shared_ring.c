/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of a ring with many readers. Footers are written once;
 * credits are looked at only when those that were seen last are used up.
 */
#include "shared_ring.h"

#include <stdlib.h>
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/error.h"
#include "reader.h"

static struct broadcast *broadcast_of(struct remote *remote)
{
	return (struct broadcast *)(void *)((char *)remote -
	    offsetof(struct broadcast, remote));
}

static int publish(struct remote *remote, const struct transport_write *write)
{
	struct broadcast *broadcast = broadcast_of(remote);
	_Atomic uint64_t *footer = (_Atomic uint64_t *)(void *)(remote->ring +
	    write->footer_offset);
	struct remote *target;
	uint32_t i;

	atomic_set(&footer[0], write->footer[0]);
	/* Pairs with each reader's observe of this word (reader.c), or that of
	 * sender.c. */
	atomic_publish(&footer[1], write->footer[1]);
	if (broadcast->published) {
		broadcast->published(broadcast->published_arg);
		return 0;
	}
	for (i = 0; i < broadcast->n_rings; i++) {
		if (broadcast->rings[i].cancelled)
			continue;
		target = broadcast->rings[i].remote;
		target->transport->ops->ring.wake(target);
	}
	return 0;
}

void dfi__broadcast_sync(struct broadcast *broadcast)
{
	const struct writer *writer = broadcast->writer;
	uint32_t i;

	for (i = 0; i < broadcast->n_rings; i++) {
		broadcast->rings[i].seq = writer->seq;
		atomic_set(
		    &broadcast->rings[i].total, atomic_peek(&writer->total));
	}
}

/* The least that a ring has given back, into the word that the writer reads. */
static int gather_credits(struct remote *remote)
{
	struct broadcast *broadcast = broadcast_of(remote);
	struct ring_credit *credit = (struct ring_credit *)(void *)remote->ring;
	uint64_t ahead, most = 0;
	struct writer *ring;
	uint32_t i;
	int ret;

	dfi__broadcast_sync(broadcast);
	for (i = 0; i < broadcast->n_rings; i++) {
		ring = &broadcast->rings[i];
		if (ring->cancelled)
			continue;
		/* Sees to the order of its loads before our stores, too. */
		ret = dfi__writer_room(ring, ring->geometry.segment_count);
		if (ret < 0) {
			broadcast->short_of = i;
			return ret;
		}
		if (!ret && writer_closed(ring) == RING_CANCELLED) {
			ring->cancelled = true;
			continue;
		}
		ahead = ring->seq - ring->consumed;
		if (ahead >= most) {
			most = ahead;
			broadcast->short_of = i;
		}
	}
	atomic_set(&credit->consumed, broadcast->writer->seq - most);
	return 0;
}

static int slot_is_free(struct remote *remote)
{
	(void)remote;
	return 1;
}

static const struct transport_ops broadcast_ops = {
	.name = "broadcast",
	.ring.write = publish,
	.ring.progress = gather_credits,
	.ring.slot_is_free = slot_is_free,
};

int dfi__broadcast_init(struct broadcast *broadcast,
    struct transport *transport, const struct ring_geometry *geometry,
    struct writer *writer, struct writer *rings, uint32_t n_rings,
    uint64_t start)
{
	struct reader reader;
	int ret;

	*broadcast = (struct broadcast){
		.transport.ops = &broadcast_ops,
		.writer = writer,
		.rings = rings,
		.n_rings = n_rings,
	};
	ret = transport->ops->region.create(
	    transport, region_size(geometry, 1), &broadcast->region);
	if (ret < 0)
		return ret;
	/* The slots begin as in any ring. */
	dfi__region_init(broadcast->region);
	dfi__reader_init(&reader, broadcast->region, geometry, 1, 0, start);
	broadcast->remote.transport = &broadcast->transport;
	broadcast->remote.ring = (char *)broadcast->region->base +
	    ring_offset(geometry, 0);
	dfi__writer_init(writer, &broadcast->remote, geometry, start);
	return 0;
}

void dfi__broadcast_free(struct broadcast *broadcast)
{
	if (broadcast->region)
		broadcast->region->transport->ops->region.destroy(
		    broadcast->region);
	broadcast->region = NULL;
}

int dfi__broadcast_open(struct broadcast *broadcast, struct writer *ring)
{
	struct transport_write write = {
		.footer_offset = offsetof(struct ring_header, slots),
		.footer[0] = broadcast->region->name.key,
		.footer[1] = footer_state(broadcast->writer->seq, 0, 0),
	};

	return ring->remote->transport->ops->ring.write(ring->remote, &write);
}
