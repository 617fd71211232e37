/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One segment, many rings. A segment is opened only when each ring has room for
 * it, so that sending never waits, and no target gets what another doesn't.
 */
#include "fan.h"

#include <stdlib.h>
#include "../base/bits.h"
#include "../base/compiler.h"
#include "../base/counter.h"
#include "../base/error.h"
#include "../transport/transport.h"

#define STAGE_PAGE 4096

uint64_t dfi__fan_bytes(
    const struct transport *broadcast, const struct ring_geometry *geometry)
{
	if (broadcast)
		return broadcast->ops->region_bytes(
		    broadcast, region_size(geometry, 1));
	return align_up(geometry->segment_bytes, STAGE_PAGE);
}

int dfi__fan_init(struct fan *fan, struct writer *rings, uint32_t n_rings,
    struct transport *broadcast, const struct ring_geometry *geometry,
    uint64_t start)
{
	*fan = (struct fan){
		.lane = { .geometry = *geometry },
		.rings = rings,
		.n_rings = n_rings,
	};
	if (broadcast)
		return dfi__broadcast_init(&fan->broadcast, broadcast, geometry,
		    &fan->lane, rings, n_rings, start);
	fan->stage = aligned_alloc(STAGE_PAGE, dfi__fan_bytes(NULL, geometry));
	return fan->stage
	    ? 0
	    : dfi__fail(-ENOMEM, "no memory for a segment of %u bytes",
		  geometry->segment_bytes);
}

void dfi__fan_free(struct fan *fan)
{
	free(fan->stage);
	fan->stage = NULL;
	dfi__broadcast_free(&fan->broadcast);
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
		/* It gives nothing back any more, whoever looks next. */
		if (!ret &&
		    dfi__writer_closed(&fan->rings[i]) == RING_CANCELLED) {
			fan->rings[i].cancelled = true;
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

	if (fan->broadcast.region)
		return is_wanted(fan)
		    ? broadcast_said(fan, dfi__writer_open(&fan->lane))
		    : 0;
	ret = room(fan, 1);
	if (ret > 0) {
		fan->lane.segment = fan->stage;
		fan->lane.end = fan->stage + fan->lane.geometry.segment_bytes;
	}
	return ret;
}

/* There is credit, so nothing is between this and sending. */
static int draw(struct fan *fan)
{
	int ret = fan->draw(fan->draw_arg, &fan->lane.global);

	fan->undrawn = ret < 0;
	return ret;
}

int dfi__fan_publish(struct fan *fan, uint64_t used)
{
	const struct ring_geometry *g = &fan->lane.geometry;
	char *segment = fan->lane.segment;
	int err, ret = 0;
	uint32_t i;

	fan->lane.targets = fan->targets;
	if (unlikely(fan->draw != NULL)) {
		ret = draw(fan);
		if (ret < 0)
			return ret;
	}
	if (fan->broadcast.region)
		return dfi__writer_publish(&fan->lane, used);
	fan->lane.segment = NULL;
	for (i = 0; i < fan->n_rings; i++) {
		if (fan->rings[i].cancelled)
			continue;
		fan->rings[i].global = fan->lane.global;
		/* Not where it belongs in the ring: it is copied there. */
		fan->rings[i].segment = segment;
		fan->rings[i].targets = fan->targets;
		err = dfi__writer_publish(
		    &fan->rings[i], fan_addresses(fan, i) ? used : 0);
		if (err < 0 && !ret) {
			ret = err;
			fan->short_of = i;
		}
	}
	owned_add(&fan->lane.total,
	    used == g->segment_bytes ? g->segment_tuples
				     : used / g->tuple_size);
	counter_add(&fan->lane.segments, 1);
	counter_add(&fan->lane.partial_segments, used != g->segment_bytes);
	return ret;
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

	ret = fan->broadcast.region
	    ? broadcast_said(fan, dfi__writer_room(&fan->lane, 2))
	    : room(fan, 2);
	if (ret <= 0)
		return ret;
	ret = dfi__fan_publish(fan, used);
	if (ret < 0)
		return ret;
	fan->lane.segment = segment + used;
	return 1;
}
