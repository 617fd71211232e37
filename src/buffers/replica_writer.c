/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One segment, many rings. A segment opens only when each ring has room for it.
 * So sending never waits, and all targets get the same segments.
 */
#include "replica_writer.h"

#include <stdlib.h>
#include <string.h>
#include "base/bits.h"
#include "base/compiler.h"
#include "base/counter.h"
#include "base/error.h"
#include "transport/transport.h"

#define ROOM_PAGE 4096

uint64_t dfi__replica_bytes(
    const struct transport *shared_ring, const struct ring_geometry *geometry)
{
	if (shared_ring)
		return shared_ring->ops->region.bytes(
		    shared_ring, region_size(geometry, 1));
	return align_up(geometry->segment_bytes, ROOM_PAGE);
}

int dfi__replica_init(struct replica_writer *replica_writer,
    struct writer *rings, uint32_t n_rings, struct transport *shared_ring,
    const struct ring_geometry *geometry, uint64_t start)
{
	*replica_writer = (struct replica_writer){
		.lane = { .geometry = *geometry, .seq = start },
		.rings = rings,
		.n_rings = n_rings,
	};
	if (shared_ring)
		return dfi__shared_ring_init(&replica_writer->shared_ring,
		    shared_ring, geometry, &replica_writer->lane, rings,
		    n_rings, start);
	replica_writer->room = aligned_alloc(
	    ROOM_PAGE, dfi__replica_bytes(NULL, geometry));
	return replica_writer->room
	    ? 0
	    : dfi__fail(-ENOMEM, "no memory for a segment of %u bytes",
		  geometry->segment_bytes);
}

void dfi__replica_free(struct replica_writer *replica_writer)
{
	free(replica_writer->room);
	replica_writer->room = NULL;
	if (replica_writer->send_buffer)
		replica_writer->send_buffer->transport->ops->ring
		    .send_buffer_free(replica_writer->send_buffer);
	replica_writer->send_buffer = NULL;
	dfi__shared_ring_free(&replica_writer->shared_ring);
}

/*
 * A send buffer has the slots first. Behind them it has one header for each
 * slot, for the targets that the segment is not for: they get the header
 * without tuples.
 */
static uint64_t send_buffer_slot(const struct ring_geometry *g, uint32_t slot)
{
	return (uint64_t)g->slot_size * slot;
}

static uint64_t send_buffer_empty(const struct ring_geometry *g, uint32_t slot)
{
	return send_buffer_slot(g, g->segment_count) +
	    (uint64_t)slot * sizeof(struct segment_header);
}

uint64_t dfi__replica_send_buffer_size(const struct ring_geometry *geometry)
{
	uint32_t n_empty = geometry->parts & SEGMENT_TARGETS
	    ? geometry->segment_count
	    : 0;

	return send_buffer_empty(geometry, n_empty) + TRANSPORT_SEND_BUFFER_PAD;
}

void dfi__replica_use_send_buffer(
    struct replica_writer *replica_writer, struct send_buffer *send_buffer)
{
	free(replica_writer->room);
	replica_writer->room = NULL;
	replica_writer->send_buffer = send_buffer;
}

/* Where the tuples of the next segment are built. */
static char *lane_payload(const struct replica_writer *replica_writer)
{
	const struct ring_geometry *g = &replica_writer->lane.geometry;

	return replica_writer->send_buffer ? replica_writer->send_buffer->at +
		send_buffer_slot(g, replica_writer->lane.slot) +
		g->payload_offset
					   : replica_writer->room;
}

/*
 * With a shared ring: pass on the writer's result, and note the ring that
 * caused it.
 */
static inline int shared_ring_said(
    struct replica_writer *replica_writer, int ret)
{
	replica_writer->short_of = replica_writer->shared_ring.short_of;
	return ret;
}

static bool is_wanted(const struct replica_writer *replica_writer)
{
	uint32_t i;

	for (i = 0; i < replica_writer->n_rings; i++)
		if (likely(!replica_writer->rings[i].cancelled &&
			replica_addresses(replica_writer, i)))
			return true;
	return false;
}

/* A target that has cancelled returns no more credit and may be gone. */
static bool has_cancelled(struct writer *ring)
{
	if (writer_closed(ring) == RING_CANCELLED)
		ring->cancelled = true;
	return ring->cancelled;
}

/* Whether each ring has room for this many segments: as dfi__writer_room(). */
static int room(struct replica_writer *replica_writer, uint32_t more)
{
	uint32_t i, n_live = 0;
	int ret;

	for (i = 0; i < replica_writer->n_rings; i++) {
		if (replica_writer->rings[i].cancelled)
			continue;
		n_live += replica_addresses(replica_writer, i);
		ret = dfi__writer_room(&replica_writer->rings[i], more);
		if (ret > 0)
			continue;
		if (has_cancelled(&replica_writer->rings[i])) {
			n_live -= replica_addresses(replica_writer, i);
			continue;
		}
		replica_writer->short_of = i;
		return ret;
	}
	return n_live != 0;
}

int dfi__replica_open(struct replica_writer *replica_writer)
{
	int ret;

	if (unlikely(replica_waits(replica_writer))) {
		ret = dfi__replica_go_on(replica_writer);
		if (ret <= 0)
			return ret;
	}
	if (replica_writer->shared_ring.region)
		return is_wanted(replica_writer)
		    ? shared_ring_said(
			  replica_writer, writer_open(&replica_writer->lane))
		    : 0;
	ret = room(replica_writer, 1);
	if (ret > 0) {
		replica_writer->lane.segment = lane_payload(replica_writer);
		replica_writer->lane.end = replica_writer->lane.segment +
		    replica_writer->lane.geometry.segment_bytes;
	}
	return ret;
}

/*
 * Prepare the open segment and its headers for sending. A segment that began
 * behind a part that was sent moves to its own slot: the target gives the slot
 * of that part back.
 */
static void settle_in_send_buffer(
    struct replica_writer *replica_writer, uint64_t used)
{
	const struct ring_geometry *g = &replica_writer->lane.geometry;
	char *payload = lane_payload(replica_writer);

	if (unlikely(replica_writer->lane.segment != payload)) {
		memmove(payload, replica_writer->lane.segment, used);
		counter_add(&replica_writer->lane.moved, used);
		replica_writer->lane.segment = payload;
	}
	if (unlikely(g->parts))
		dfi__writer_fill_header(&replica_writer->lane, payload, used);
	if (unlikely(g->parts & SEGMENT_TARGETS))
		dfi__writer_fill_header(&replica_writer->lane,
		    replica_writer->send_buffer->at +
			send_buffer_empty(g, replica_writer->lane.slot) +
			g->payload_offset,
		    0);
}

/* Send to a ring that a device writes. */
static int publish_from_send_buffer(
    struct replica_writer *replica_writer, uint32_t ring, uint64_t used)
{
	const struct ring_geometry *g = &replica_writer->lane.geometry;
	const char *at = replica_writer->send_buffer->at;

	if (replica_addresses(replica_writer, ring))
		return dfi__writer_publish_from(&replica_writer->rings[ring],
		    at + send_buffer_slot(g, replica_writer->lane.slot), used);
	return dfi__writer_publish_from(&replica_writer->rings[ring],
	    at + send_buffer_empty(g, replica_writer->lane.slot), 0);
}

/* Copy into a ring that is mapped. */
static int publish_copy(
    struct replica_writer *replica_writer, uint32_t ring, uint64_t used)
{
	struct writer *writer = &replica_writer->rings[ring];

	writer->global = replica_writer->lane.global;
	writer->targets = replica_writer->targets;
	writer->segment = replica_writer->lane.segment;
	return dfi__writer_publish(
	    writer, replica_addresses(replica_writer, ring) ? used : 0);
}

/* The ring did not get the segment: an error unless its target has cancelled.
 */
static rarely int not_sent(
    struct replica_writer *replica_writer, uint32_t ring, int err)
{
	if (has_cancelled(&replica_writer->rings[ring]))
		return 0;
	replica_writer->short_of = ring;
	return err;
}

static int mark_ring(struct replica_writer *replica_writer, uint32_t ring)
{
	struct writer *writer = &replica_writer->rings[ring];

	if (writer->remote->send_buffer)
		return dfi__writer_publish_mark_from(writer,
		    replica_writer->send_buffer->at +
			send_buffer_slot(&replica_writer->lane.geometry,
			    replica_writer->lane.slot));
	writer->global = replica_writer->lane.global;
	writer->targets = UINT64_MAX;
	return dfi__writer_publish_mark(writer, replica_writer->mark);
}

static rarely int mark_all(struct replica_writer *replica_writer)
{
	struct writer *lane = &replica_writer->lane;
	int err, ret = 0;
	uint32_t i;

	replica_writer->asked = replica_writer->drawn = false;
	lane->targets = UINT64_MAX;
	if (replica_writer->shared_ring.region)
		return dfi__writer_publish_mark(lane, replica_writer->mark);
	if (replica_writer->send_buffer)
		dfi__writer_fill_mark(
		    lane, lane_payload(replica_writer), replica_writer->mark);
	for (i = 0; i < replica_writer->n_rings; i++) {
		if (replica_writer->rings[i].cancelled)
			continue;
		err = mark_ring(replica_writer, i);
		if (err < 0 && !ret)
			ret = not_sent(replica_writer, i, err);
	}
	dfi__writer_count(lane, 0);
	return ret;
}

static int send_to_rings(struct replica_writer *replica_writer, uint64_t used)
{
	int err, ret = 0;
	uint32_t i;

	if (replica_writer->send_buffer)
		settle_in_send_buffer(replica_writer, used);
	for (i = 0; i < replica_writer->n_rings; i++) {
		if (replica_writer->rings[i].cancelled)
			continue;
		err = replica_writer->rings[i].remote->send_buffer
		    ? publish_from_send_buffer(replica_writer, i, used)
		    : publish_copy(replica_writer, i, used);
		if (err < 0 && !ret)
			ret = not_sent(replica_writer, i, err);
	}
	dfi__writer_count(&replica_writer->lane, used);
	return ret;
}

static int send_all(struct replica_writer *replica_writer, uint64_t used)
{
	replica_writer->asked = replica_writer->drawn = false;
	replica_writer->lane.targets = replica_writer->targets;
	return replica_writer->shared_ring.region
	    ? dfi__writer_publish(&replica_writer->lane, used)
	    : send_to_rings(replica_writer, used);
}

/*
 * All rings have credit, so the segment is sent as soon as it has a position.
 */
int dfi__replica_drawn(struct replica_writer *replica_writer)
{
	int ret = 1;

	if (replica_writer->draw && !replica_writer->drawn) {
		ret = replica_writer->draw(
		    replica_writer->draw_arg, &replica_writer->lane.global);
		replica_writer->asked = true;
		replica_writer->drawn = ret > 0;
		replica_writer->undrawn = ret < 0;
	}
	return ret;
}

/* A round trip of a device to a neighbour takes fewer looks. */
#define LOOKS 256

static int draw(struct replica_writer *replica_writer)
{
	unsigned looks;
	int ret = 0;

	for (looks = 0; !ret && looks < LOOKS; looks++)
		ret = dfi__replica_drawn(replica_writer);
	return ret;
}

int dfi__replica_publish(struct replica_writer *replica_writer, uint64_t used)
{
	int ret = unlikely(replica_writer->draw != NULL) ? draw(replica_writer)
							 : 1;

	if (unlikely(ret < 0))
		return ret;
	if (likely(ret && used != FOOTER_MARK))
		return send_all(replica_writer, used);
	if (ret)
		return mark_all(replica_writer);
	replica_writer->waiting = (struct replica_waiting){
		.segment = replica_writer->lane.segment,
		.used = used,
		.targets = replica_writer->targets,
	};
	replica_writer->lane.segment = NULL;
	return 0;
}

/* Whether a target is left that has not cancelled. */
static bool is_left(const struct replica_writer *replica_writer)
{
	uint32_t i = 0;

	while (
	    i < replica_writer->n_rings && replica_writer->rings[i].cancelled)
		i++;
	return i < replica_writer->n_rings;
}

int dfi__replica_go_on(struct replica_writer *replica_writer)
{
	struct replica_waiting waiting = replica_writer->waiting;
	uint64_t targets = replica_writer->targets;
	int ret;

	if (!waiting.segment)
		return 1;
	ret = is_left(replica_writer) ? dfi__replica_drawn(replica_writer) : 1;
	if (ret <= 0)
		return ret;
	replica_writer->waiting.segment = NULL;
	replica_writer->lane.segment = waiting.segment;
	replica_writer->targets = waiting.targets;
	ret = waiting.used == FOOTER_MARK
	    ? mark_all(replica_writer)
	    : send_all(replica_writer, waiting.used);
	replica_writer->targets = targets;
	return ret < 0 ? ret : 1;
}

int dfi__replica_end(
    struct replica_writer *replica_writer, uint32_t ring, uint64_t flag)
{
	if (replica_writer->shared_ring.region)
		dfi__shared_ring_sync(&replica_writer->shared_ring);
	return dfi__writer_end(&replica_writer->rings[ring], flag);
}

int dfi__replica_publish_part(
    struct replica_writer *replica_writer, uint64_t used)
{
	char *segment = replica_writer->lane.segment;
	int ret;

	/* The rings had room when the segment asked for its position. */
	if (unlikely(replica_writer->asked))
		ret = 1;
	else
		ret = replica_writer->shared_ring.region
		    ? shared_ring_said(replica_writer,
			  dfi__writer_room(&replica_writer->lane, 2))
		    : room(replica_writer, 2);
	if (ret > 0 && replica_writer->draw)
		ret = draw(replica_writer);
	if (ret <= 0)
		return ret;
	ret = send_all(replica_writer, used);
	/*
	 * If one ring failed, the owner may handle that later and continue
	 * here.
	 */
	replica_writer->lane.segment = segment + used;
	return ret < 0 ? ret : 1;
}
