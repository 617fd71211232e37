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

static void arrive(struct fake_ring *ring, const struct transport_write *write)
{
	const struct remote *remote = &ring->remote;
	char *base = ring->region.base;
	struct segment_footer *footer;
	const char *payload = remote->send_buffer
	    ? write->buffered
	    : remote->ring + write->payload_offset;
	uint64_t done, step, at = write->payload_offset;
	uint64_t state = write->footer[1];

	base += ring_offset(&ring->geometry, RING_INDEX);
	footer = (struct segment_footer *)(void *)(base + write->footer_offset);
	if (ring->at_footer && write->payload_size) {
		at += footer_shifted_at(
		    write->footer_offset - at, write->payload_size);
		state |= FOOTER_FLAG_SHIFTED;
	}
	for (done = 0; !remote->in_place && done < write->payload_size;
	     done += step) {
		step = min_u64(STEP, write->payload_size - done);
		memcpy(base + at + done, payload + done, step);
		took_step(ring);
	}
	atomic_set(&footer->total, write->footer[0]);
	took_step(ring);
	atomic_publish(&footer->state, state);
}

bool fake_ring_arrive(struct fake_ring *ring)
{
	struct transport_write *first = ring->on_the_way;

	if (!ring->n_on_the_way)
		return false;
	arrive(ring, first);
	memmove(first, first + 1, --ring->n_on_the_way * sizeof(*first));
	return true;
}

static int fake_write(
    struct remote *remote, const struct transport_write *write)
{
	struct fake_ring *ring = ring_of(remote->transport);
	uint64_t size = ring->geometry.ring_size;

	ring->n_writes++;
	cr_assert_leq(write->payload_offset + write->payload_size, size);
	cr_assert_leq(
	    write->footer_offset + sizeof(struct segment_footer), size);
	cr_assert_eq(write->footer_offset % sizeof(struct segment_footer), 0);
	cr_assert_eq(write->buffered != NULL,
	    remote->send_buffer && write->payload_size, "where it lies");
	if (!ring->late) {
		arrive(ring, write);
		return 0;
	}
	cr_assert_leq(ring->n_on_the_way, ring->geometry.segment_count);
	ring->on_the_way[ring->n_on_the_way++] = *write;
	return 0;
}

static int fake_give_credit(struct region *region, struct export *export,
    const struct ring_layout *layout, uint32_t number, uint64_t consumed,
    enum ring_closed closed)
{
	struct fake_ring *ring = ring_of(region->transport);
	struct ring_credit *credit =
	    (struct ring_credit *)(void *)ring->remote.ring;

	(void)export;
	cr_assert_eq(number, RING_INDEX);
	cr_assert_eq(layout->first_ring + number * layout->ring_size,
	    ring_offset(&ring->geometry, RING_INDEX));
	cr_assert_eq(
	    layout->wait_offset, offsetof(struct ring_header, writer_waits));
	ring->n_credits++;
	atomic_publish(&credit->consumed, consumed);
	if (closed)
		atomic_publish(&credit->closed, closed);
	return 1;
}

/* Nothing is ever under way. */
static int fake_slot_is_free(struct remote *remote)
{
	(void)remote;
	return 1;
}

static int fake_drained(struct remote *remote)
{
	(void)remote;
	return 1;
}

static void fake_progress(struct transport *transport, uint32_t looks)
{
	(void)looks;
	(void)transport;
}

static int fake_remote_progress(struct remote *remote)
{
	(void)remote;
	return 0;
}

static void fake_send_buffer_free(struct send_buffer *send_buffer)
{
	free(send_buffer->at);
	free(send_buffer);
}

static const struct transport_ops fake_ops = {
	.name = "fake",
	.ring.send_buffer_free = fake_send_buffer_free,
	.ring.write = fake_write,
	.ring.give_credit = fake_give_credit,
	.ring.slot_is_free = fake_slot_is_free,
	.ring.drained = fake_drained,
	.progress = fake_progress,
	.ring.progress = fake_remote_progress,
};

void fake_ring_start_with(struct fake_ring *ring, struct ring_geometry g,
    uint64_t start, bool in_place)
{
	uint64_t size = region_size(&g, 2);

	*ring = (struct fake_ring){
		.transport.ops = &fake_ops,
		.geometry = g,
		.region.base = aligned_alloc(128, size),
		.remote.in_place = in_place,
	};
	char *in_region;

	cr_assert_not_null(ring->region.base);
	/* A ring starts empty, whatever the memory had. */
	memset(ring->region.base, 0xa5, size);
	ring->region.transport = ring->remote.transport = &ring->transport;
	in_region = (char *)ring->region.base + ring_offset(&g, RING_INDEX);
	ring->remote.ring = in_place ? in_region
				     : aligned_alloc(128, g.ring_size);
	ring->on_the_way = calloc(
	    g.segment_count + 1, sizeof(ring->on_the_way[0]));
	cr_assert(ring->remote.ring && ring->on_the_way);
	dfi__region_init(&ring->region);
	dfi__reader_init(
	    &ring->reader, &ring->region, &g, 2, RING_INDEX, start);
	/* What connecting would do. */
	if (!in_place)
		memcpy(ring->remote.ring, in_region, g.ring_size);
	dfi__writer_init(&ring->writer, &ring->remote, &g, start);
}

void fake_ring_start(struct fake_ring *ring, uint32_t tuple_size,
    uint32_t segment_size, uint32_t segment_count, uint64_t start,
    bool in_place)
{
	fake_ring_start_with(ring,
	    ring_geometry(tuple_size, segment_size, segment_count), start,
	    in_place);
}

void fake_ring_stop(struct fake_ring *ring)
{
	if (!ring->remote.in_place)
		free(ring->remote.ring);
	free(ring->on_the_way);
	free(ring->region.base);
}

void fake_ring_use_send_buffer(
    struct fake_ring *ring, struct send_buffer *send_buffer)
{
	cr_assert(!ring->remote.in_place);
	ring->remote.send_buffer = send_buffer;
}

struct send_buffer *fake_send_buffer(uint64_t size)
{
	static struct transport transport = { .ops = &fake_ops };
	struct send_buffer *send_buffer = malloc(sizeof(*send_buffer));

	cr_assert_not_null(send_buffer);
	send_buffer->transport = &transport;
	send_buffer->at = malloc(size);
	cr_assert_not_null(send_buffer->at);
	/* Whatever was there. */
	memset(send_buffer->at, 0x5a, size);
	return send_buffer;
}

char *fake_ring_sent(struct fake_ring *ring, uint32_t slot)
{
	return (char *)ring->region.base +
	    ring_offset(&ring->geometry, RING_INDEX) +
	    slot_offset(&ring->geometry, slot);
}

struct segment_footer *fake_ring_footer(struct fake_ring *ring, uint32_t slot)
{
	return (struct segment_footer *)(void *)(fake_ring_sent(ring, slot) +
	    ring->geometry.footer_offset);
}

struct ring_header *fake_ring_header(struct fake_ring *ring)
{
	return (struct ring_header *)(void *)((char *)ring->region.base +
	    ring_offset(&ring->geometry, RING_INDEX));
}
