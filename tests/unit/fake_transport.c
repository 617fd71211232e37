/* SPDX-License-Identifier: Apache-2.0 */
/* A transport over plain memory; see fake_transport.h. */
#include "fake_transport.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

#define STEP 64

static struct fake_ring *ring_of(struct transport *transport)
{
	return (struct fake_ring *)transport;
}

static void took_step(struct fake_ring *ring)
{
	if (ring->step)
		ring->step(ring);
}

static int fake_write(
    struct remote *remote, const struct transport_write *write)
{
	struct fake_ring *ring = ring_of(remote->transport);
	char *base = ring->region.base;
	struct segment_footer *footer = (struct segment_footer *)(void *)(base +
	    write->footer_offset);
	const char *payload = write->payload;
	uint64_t done, step;

	ring->n_writes++;
	cr_assert_leq(
	    write->payload_offset + write->payload_size, remote->size);
	cr_assert_leq(write->footer_offset + sizeof(*footer), remote->size);
	cr_assert_eq(write->footer_offset % sizeof(*footer), 0);
	cr_assert_eq(
	    write->wake_offset, offsetof(struct region_header, reader_waits));
	for (done = 0; remote->direct != base && done < write->payload_size;
	     done += step) {
		step = min_u64(STEP, write->payload_size - done);
		memcpy(
		    base + write->payload_offset + done, payload + done, step);
		took_step(ring);
	}
	atomic_set(&footer->total, write->footer[0]);
	took_step(ring);
	atomic_publish(&footer->state, write->footer[1]);
	return 0;
}

static int fake_give_credit(struct region *region, uint64_t credit_offset,
    uint64_t consumed, uint64_t wake_offset)
{
	struct fake_ring *ring = ring_of(region->transport);

	cr_assert_eq(credit_offset,
	    ring_offset(&ring->geometry, RING_INDEX) +
		offsetof(struct ring_header, consumed));
	cr_assert_eq(wake_offset,
	    ring_offset(&ring->geometry, RING_INDEX) +
		offsetof(struct ring_header, writer_waits));
	ring->n_credits++;
	atomic_publish(
	    (_Atomic uint64_t *)(void *)(ring->remote.direct + credit_offset),
	    consumed);
	return 0;
}

static const struct transport_ops fake_ops = {
	.name = "fake",
	.write = fake_write,
	.give_credit = fake_give_credit,
};

void fake_ring_start(struct fake_ring *ring, uint32_t tuple_size,
    uint32_t segment_size, uint32_t segment_count, uint64_t start,
    bool in_place)
{
	struct ring_geometry g = ring_geometry(
	    tuple_size, segment_size, segment_count);
	uint64_t size = region_size(&g, 2);

	*ring = (struct fake_ring){
		.transport.ops = &fake_ops,
		.geometry = g,
		.region.base = aligned_alloc(128, size),
		.remote.size = size,
	};
	cr_assert_not_null(ring->region.base);
	memset(ring->region.base, 0, size);
	ring->region.transport = ring->remote.transport = &ring->transport;
	ring->remote.direct = in_place ? ring->region.base
				       : aligned_alloc(128, size);
	cr_assert_not_null(ring->remote.direct);
	dfi__reader_init(&ring->reader, &ring->region, &g, RING_INDEX, start);
	/* What connecting would do. */
	if (!in_place)
		memcpy(ring->remote.direct, ring->region.base, size);
	dfi__writer_init(&ring->writer, &ring->remote, &g, RING_INDEX, start);
}

void fake_ring_stop(struct fake_ring *ring)
{
	if (ring->remote.direct != ring->region.base)
		free(ring->remote.direct);
	free(ring->region.base);
}

struct segment_footer *fake_ring_footer(struct fake_ring *ring, uint32_t slot)
{
	return (struct segment_footer *)(void *)((char *)ring->region.base +
	    ring_offset(&ring->geometry, RING_INDEX) +
	    slot_offset(&ring->geometry, slot) + ring->geometry.footer_offset);
}

struct ring_header *fake_ring_header(struct fake_ring *ring)
{
	return (struct ring_header *)(void *)((char *)ring->region.base +
	    ring_offset(&ring->geometry, RING_INDEX));
}
