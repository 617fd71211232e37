/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One segment, many rings. A segment is opened only when each ring has room for
 * it, so that sending never waits, and no target gets what another doesn't.
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

uint64_t dfi__fan_bytes(
    const struct transport *broadcast, const struct ring_geometry *geometry)
{
	if (broadcast)
		return broadcast->ops->region.bytes(
		    broadcast, region_size(geometry, 1));
	return align_up(geometry->segment_bytes, ROOM_PAGE);
}

int dfi__fan_init(struct fan *fan, struct writer *rings, uint32_t n_rings,
    struct transport *broadcast, const struct ring_geometry *geometry,
    uint64_t start)
{
	*fan = (struct fan){
		.lane = { .geometry = *geometry, .seq = start },
		.rings = rings,
		.n_rings = n_rings,
	};
	if (broadcast)
		return dfi__broadcast_init(&fan->broadcast, broadcast, geometry,
		    &fan->lane, rings, n_rings, start);
	fan->room = aligned_alloc(ROOM_PAGE, dfi__fan_bytes(NULL, geometry));
	return fan->room
	    ? 0
	    : dfi__fail(-ENOMEM, "no memory for a segment of %u bytes",
		  geometry->segment_bytes);
}

void dfi__fan_free(struct fan *fan)
{
	free(fan->room);
	fan->room = NULL;
	if (fan->stage)
		fan->stage->transport->ops->ring.stage_free(fan->stage);
	fan->stage = NULL;
	dfi__broadcast_free(&fan->broadcast);
}

/*
 * In a stage the slots come first. Behind them, for each, is the header that
 * goes to those whom the segment is not for: they get no tuples with it.
 */
static uint64_t stage_slot(const struct ring_geometry *g, uint32_t slot)
{
	return (uint64_t)g->slot_size * slot;
}

static uint64_t stage_empty(const struct ring_geometry *g, uint32_t slot)
{
	return stage_slot(g, g->segment_count) +
	    (uint64_t)slot * sizeof(struct segment_header);
}

uint64_t dfi__fan_stage_size(const struct ring_geometry *geometry)
{
	uint32_t n_empty = geometry->parts & SEGMENT_TARGETS
	    ? geometry->segment_count
	    : 0;

	return stage_empty(geometry, n_empty) + TRANSPORT_STAGE_PAD;
}

void dfi__fan_use_stage(struct fan *fan, struct stage *stage)
{
	free(fan->room);
	fan->room = NULL;
	fan->stage = stage;
}

/* Where the tuples of the next segment will lie, to be copied from there. */
static char *lane_payload(const struct fan *fan)
{
	const struct ring_geometry *g = &fan->lane.geometry;

	return fan->stage
	    ? fan->stage->at + stage_slot(g, fan->lane.slot) + g->payload_offset
	    : fan->room;
}

/* With one copy of the slots: the writer's result, and whose it is. */
static inline int broadcast_said(struct fan *fan, int ret)
{
	fan->short_of = fan->broadcast.short_of;
	return ret;
}

static bool is_wanted(const struct fan *fan)
{
	uint32_t i;

	for (i = 0; i < fan->n_rings; i++)
		if (likely(!fan->rings[i].cancelled && fan_addresses(fan, i)))
			return true;
	return false;
}

/* It gives nothing back any more, whoever looks next, and need not be there. */
static bool has_cancelled(struct writer *ring)
{
	if (writer_closed(ring) == RING_CANCELLED)
		ring->cancelled = true;
	return ring->cancelled;
}

/* Whether each ring has room for so many segments: as dfi__writer_room(). */
static int room(struct fan *fan, uint32_t more)
{
	uint32_t i, n_live = 0;
	int ret;

	for (i = 0; i < fan->n_rings; i++) {
		if (fan->rings[i].cancelled)
			continue;
		n_live += fan_addresses(fan, i);
		ret = dfi__writer_room(&fan->rings[i], more);
		if (ret > 0)
			continue;
		if (has_cancelled(&fan->rings[i])) {
			n_live -= fan_addresses(fan, i);
			continue;
		}
		fan->short_of = i;
		return ret;
	}
	return n_live != 0;
}

int dfi__fan_open(struct fan *fan)
{
	int ret;

	if (unlikely(fan_waits(fan))) {
		ret = dfi__fan_go_on(fan);
		if (ret <= 0)
			return ret;
	}
	if (fan->broadcast.region)
		return is_wanted(fan)
		    ? broadcast_said(fan, writer_open(&fan->lane))
		    : 0;
	ret = room(fan, 1);
	if (ret > 0) {
		fan->lane.segment = lane_payload(fan);
		fan->lane.end = fan->lane.segment +
		    fan->lane.geometry.segment_bytes;
	}
	return ret;
}

/*
 * Make the open segment what all rings are sent, with its headers. It may have
 * begun behind a part that was sent, in a slot that the target gives back with
 * that: then it moves to its own.
 */
static void settle_in_stage(struct fan *fan, uint64_t used)
{
	const struct ring_geometry *g = &fan->lane.geometry;
	char *payload = lane_payload(fan);

	if (unlikely(fan->lane.segment != payload)) {
		memmove(payload, fan->lane.segment, used);
		counter_add(&fan->lane.moved, used);
		fan->lane.segment = payload;
	}
	if (unlikely(g->parts))
		dfi__writer_fill_header(&fan->lane, payload, used);
	if (unlikely(g->parts & SEGMENT_TARGETS))
		dfi__writer_fill_header(&fan->lane,
		    fan->stage->at + stage_empty(g, fan->lane.slot) +
			g->payload_offset,
		    0);
}

/* To a ring that a device writes to. */
static int publish_staged(struct fan *fan, uint32_t ring, uint64_t used)
{
	const struct ring_geometry *g = &fan->lane.geometry;
	const char *at = fan->stage->at;

	if (fan_addresses(fan, ring))
		return dfi__writer_publish_from(&fan->rings[ring],
		    at + stage_slot(g, fan->lane.slot), used);
	return dfi__writer_publish_from(
	    &fan->rings[ring], at + stage_empty(g, fan->lane.slot), 0);
}

/* To a ring that is mapped: it is copied there. */
static int publish_copy(struct fan *fan, uint32_t ring, uint64_t used)
{
	struct writer *writer = &fan->rings[ring];

	writer->global = fan->lane.global;
	writer->targets = fan->targets;
	writer->segment = fan->lane.segment;
	return dfi__writer_publish(writer, fan_addresses(fan, ring) ? used : 0);
}

static int send_all(struct fan *fan, uint64_t used)
{
	int err, ret = 0;
	uint32_t i;

	fan->asked = fan->drawn = false;
	fan->lane.targets = fan->targets;
	if (fan->broadcast.region)
		return dfi__writer_publish(&fan->lane, used);
	if (fan->stage)
		settle_in_stage(fan, used);
	for (i = 0; i < fan->n_rings; i++) {
		if (fan->rings[i].cancelled)
			continue;
		err = fan->rings[i].remote->stage ? publish_staged(fan, i, used)
						  : publish_copy(fan, i, used);
		if (err < 0 && !ret && !has_cancelled(&fan->rings[i])) {
			ret = err;
			fan->short_of = i;
		}
	}
	dfi__writer_count(&fan->lane, used);
	return ret;
}

/* There is credit, so nothing is between this and sending. */
int dfi__fan_drawn(struct fan *fan)
{
	int ret = 1;

	if (fan->draw && !fan->drawn) {
		ret = fan->draw(fan->draw_arg, &fan->lane.global);
		fan->asked = true;
		fan->drawn = ret > 0;
		fan->undrawn = ret < 0;
	}
	return ret;
}

/* A device needs less for a round trip to a neighbour. */
#define LOOKS 256

static int draw(struct fan *fan)
{
	unsigned looks;
	int ret = 0;

	for (looks = 0; !ret && looks < LOOKS; looks++)
		ret = dfi__fan_drawn(fan);
	return ret;
}

int dfi__fan_publish(struct fan *fan, uint64_t used)
{
	int ret = unlikely(fan->draw != NULL) ? draw(fan) : 1;

	if (unlikely(ret < 0))
		return ret;
	if (likely(ret))
		return send_all(fan, used);
	fan->waiting = (struct fan_waiting){
		.segment = fan->lane.segment,
		.used = used,
		.targets = fan->targets,
	};
	fan->lane.segment = NULL;
	return 0;
}

/* Whether anybody is left who gets what is sent. */
static bool is_left(const struct fan *fan)
{
	uint32_t i = 0;

	while (i < fan->n_rings && fan->rings[i].cancelled)
		i++;
	return i < fan->n_rings;
}

int dfi__fan_go_on(struct fan *fan)
{
	struct fan_waiting waiting = fan->waiting;
	uint64_t targets = fan->targets;
	int ret;

	if (!waiting.segment)
		return 1;
	ret = is_left(fan) ? dfi__fan_drawn(fan) : 1;
	if (ret <= 0)
		return ret;
	fan->waiting.segment = NULL;
	fan->lane.segment = waiting.segment;
	fan->targets = waiting.targets;
	ret = send_all(fan, waiting.used);
	fan->targets = targets;
	return ret < 0 ? ret : 1;
}

int dfi__fan_end(struct fan *fan, uint32_t ring, uint64_t flag)
{
	if (fan->broadcast.region)
		dfi__broadcast_sync(&fan->broadcast);
	return dfi__writer_end(&fan->rings[ring], flag);
}

int dfi__fan_publish_part(struct fan *fan, uint64_t used)
{
	char *segment = fan->lane.segment;
	int ret;

	/* There was, when its place was asked for. */
	if (unlikely(fan->asked))
		ret = 1;
	else
		ret = fan->broadcast.region
		    ? broadcast_said(fan, dfi__writer_room(&fan->lane, 2))
		    : room(fan, 2);
	if (ret > 0 && fan->draw)
		ret = draw(fan);
	if (ret <= 0)
		return ret;
	ret = send_all(fan, used);
	/* Of one ring's failure the owner may learn later, and goes on here. */
	fan->lane.segment = segment + used;
	return ret < 0 ? ret : 1;
}
