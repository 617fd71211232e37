/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One segment, many rings. A segment is opened only when each ring has room for
 * it, so that sending never waits, and no target gets what another doesn't.
 */
#include "fan.h"

#include <stdlib.h>
#include "../base/bits.h"
#include "../base/counter.h"
#include "../base/error.h"
#include "../transport/transport.h"

#define STAGE_PAGE 4096

uint64_t dfi__fan_bytes(const struct ring_geometry *geometry)
{
	return align_up(geometry->segment_bytes, STAGE_PAGE);
}

int dfi__fan_init(struct fan *fan, struct writer *rings, uint32_t n_rings,
    const struct ring_geometry *geometry)
{
	*fan = (struct fan){
		.lane = { .geometry = *geometry },
		.rings = rings,
		.n_rings = n_rings,
		.stage = aligned_alloc(STAGE_PAGE, dfi__fan_bytes(geometry)),
	};
	return fan->stage
	    ? 0
	    : dfi__fail(-ENOMEM, "no memory for a segment of %u bytes",
		  geometry->segment_bytes);
}

void dfi__fan_free(struct fan *fan)
{
	free(fan->stage);
	fan->stage = NULL;
}

/* Whether each ring has room for so many segments: as dfi__writer_room(). */
static int room(struct fan *fan, uint32_t more)
{
	uint32_t i, n_live = 0;
	int ret;

	for (i = 0; i < fan->n_rings; i++) {
		if (fan->rings[i].cancelled)
			continue;
		n_live++;
		ret = dfi__writer_room(&fan->rings[i], more);
		if (ret > 0)
			continue;
		/* It gives nothing back any more, whoever looks next. */
		if (!ret &&
		    dfi__writer_closed(&fan->rings[i]) == RING_CANCELLED) {
			fan->rings[i].cancelled = true;
			n_live--;
			continue;
		}
		fan->short_of = i;
		return ret;
	}
	return n_live != 0;
}

int dfi__fan_open(struct fan *fan)
{
	int ret = room(fan, 1);

	if (ret > 0) {
		fan->lane.segment = fan->stage;
		fan->lane.end = fan->stage + fan->lane.geometry.segment_bytes;
	}
	return ret;
}

int dfi__fan_publish(struct fan *fan, uint64_t used)
{
	const struct ring_geometry *g = &fan->lane.geometry;
	char *segment = fan->lane.segment;
	int err, ret = 0;
	uint32_t i;

	fan->lane.segment = NULL;
	for (i = 0; i < fan->n_rings; i++) {
		if (fan->rings[i].cancelled)
			continue;
		/* Not where it belongs in the ring: it is copied there. */
		fan->rings[i].segment = segment;
		err = dfi__writer_publish(&fan->rings[i], used);
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

int dfi__fan_publish_part(struct fan *fan, uint64_t used)
{
	char *segment = fan->lane.segment;
	int ret = room(fan, 2);

	if (ret <= 0)
		return ret;
	ret = dfi__fan_publish(fan, used);
	if (ret < 0)
		return ret;
	fan->lane.segment = segment + used;
	return 1;
}
