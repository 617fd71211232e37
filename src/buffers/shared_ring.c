/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of a ring with many readers. Each footer is written once.
 * The writer reads the credits only when it has used up those that it knows.
 */
#include "shared_ring.h"

#include <stdlib.h>
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/error.h"
#include "reader.h"

static struct shared_ring *shared_ring_of(struct remote *remote)
{
	return (struct shared_ring *)(void *)((char *)remote -
	    offsetof(struct shared_ring, remote));
}

static int publish(struct remote *remote, const struct transport_write *write)
{
	struct shared_ring *shared_ring = shared_ring_of(remote);
	_Atomic uint64_t *footer = (_Atomic uint64_t *)(void *)(remote->ring +
	    write->footer_offset);
	struct remote *target;
	uint32_t i;

	atomic_set(&footer[0], write->footer[0]);
	/*
	 * Pairs with each reader's observe of this word (reader.c), or with
	 * that of multicast/sender.c.
	 */
	atomic_publish(&footer[1], write->footer[1]);
	if (shared_ring->multicast) {
		dfi__sender_ring_send(shared_ring->multicast);
		return 0;
	}
	for (i = 0; i < shared_ring->n_rings; i++) {
		if (shared_ring->rings[i].cancelled)
			continue;
		target = shared_ring->rings[i].remote;
		target->transport->ops->ring.wake(target);
	}
	return 0;
}

void dfi__shared_ring_sync(struct shared_ring *shared_ring)
{
	const struct writer *writer = shared_ring->writer;
	uint32_t i;

	for (i = 0; i < shared_ring->n_rings; i++) {
		shared_ring->rings[i].seq = writer->seq;
		atomic_set(
		    &shared_ring->rings[i].total, atomic_peek(&writer->total));
	}
}

/*
 * Write the smallest credit of all rings into the word that the writer reads.
 */
static int gather_credits(struct remote *remote)
{
	struct shared_ring *shared_ring = shared_ring_of(remote);
	struct ring_credit *credit = (struct ring_credit *)(void *)remote->ring;
	uint64_t ahead, most = 0;
	struct writer *ring;
	uint32_t i;
	int ret;

	dfi__shared_ring_sync(shared_ring);
	for (i = 0; i < shared_ring->n_rings; i++) {
		ring = &shared_ring->rings[i];
		if (ring->cancelled)
			continue;
		/* Also orders the target's loads before our stores. */
		ret = dfi__writer_room(ring, ring->geometry.segment_count);
		if (ret < 0) {
			shared_ring->short_of = i;
			return ret;
		}
		if (!ret && writer_closed(ring) == RING_CANCELLED) {
			ring->cancelled = true;
			continue;
		}
		ahead = ring->seq - ring->consumed;
		if (ahead >= most) {
			most = ahead;
			shared_ring->short_of = i;
		}
	}
	atomic_set(&credit->consumed, shared_ring->writer->seq - most);
	return 0;
}

static int slot_is_free(struct remote *remote)
{
	(void)remote;
	return 1;
}

static const struct transport_ops shared_ring_ops = {
	.name = "shared_ring",
	.ring.write = publish,
	.ring.progress = gather_credits,
	.ring.slot_is_free = slot_is_free,
};

int dfi__shared_ring_init(struct shared_ring *shared_ring,
    struct transport *transport, const struct ring_geometry *geometry,
    struct writer *writer, struct writer *rings, uint32_t n_rings,
    uint64_t start)
{
	struct reader reader;
	int ret;

	*shared_ring = (struct shared_ring){
		.transport.ops = &shared_ring_ops,
		.writer = writer,
		.rings = rings,
		.n_rings = n_rings,
	};
	ret = transport->ops->region.create(
	    transport, region_size(geometry, 1), &shared_ring->region);
	if (ret < 0)
		return ret;
	dfi__region_init(shared_ring->region);
	dfi__reader_init(&reader, shared_ring->region, geometry, 1, 0, start);
	shared_ring->remote.transport = &shared_ring->transport;
	shared_ring->remote.ring = (char *)shared_ring->region->base +
	    ring_offset(geometry, 0);
	dfi__writer_init(writer, &shared_ring->remote, geometry, start);
	return 0;
}

void dfi__shared_ring_free(struct shared_ring *shared_ring)
{
	if (shared_ring->region)
		shared_ring->region->transport->ops->region.destroy(
		    shared_ring->region);
	shared_ring->region = NULL;
}

int dfi__shared_ring_open(struct shared_ring *shared_ring, struct writer *ring)
{
	struct transport_write write = {
		.footer_offset = offsetof(struct ring_header, slots),
		.footer[0] = shared_ring->region->name.key,
		.footer[1] = footer_state(shared_ring->writer->seq, 0, 0),
	};

	return ring->remote->transport->ops->ring.write(ring->remote, &write);
}
