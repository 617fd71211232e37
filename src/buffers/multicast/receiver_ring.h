/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's end of a multicast over datagrams: the export of a region
 * (transport.h) whose rings are written here, from what has been received,
 * instead of by a device. So all that reads the rings is as everywhere.
 */
#ifndef DFI_BUFFERS_MULTICAST_RECEIVER_RING_H
#define DFI_BUFFERS_MULTICAST_RECEIVER_RING_H

#include "transport/transport.h"
#include "end.h"
#include "receiver.h"

struct receiver_ring {
	struct cast cast; /* first */
	struct transport transport;
	struct export export;
	struct region *region;
	uint32_t n_streams;
	struct multicast_receiver *streams;
	_Atomic bool *lost; /* of each: its ring gets nothing more */
	/* For the owner: what each had given back when its stream looked. */
	uint64_t *looked;
	uint32_t credit_batch;
};

/*
 * Have a region's rings, which are ready for their writers (reader.h), written,
 * and set region->export. Their readers should give back each segment at once
 * (reader.batch 1): a source that hears of all has no more to ask. config:
 * network, group, find, find_arg and flow. What dfi__cast_open() returns.
 */
int dfi__receiver_ring_open(struct receiver_ring **target,
    const struct cast_config *config, uint32_t index, uint32_t gap_us,
    bool notify, struct region *region, uint64_t start, int64_t deadline);

/* The datagrams that a target of such a flow has receives for. */
static inline uint32_t cast_target_receives(
    const struct ring_geometry *geometry, uint32_t n_sources)
{
	return (uint32_t)min_u64(
	    2 * (uint64_t)geometry->segment_count * n_sources, UINT32_MAX);
}

/*
 * Receive and answer nothing any more; config.find isn't called any more. The
 * rings stay until the region is unexported, which frees this.
 */
void dfi__receiver_ring_stop(struct receiver_ring *target);

/* As dfi__multicast_receiver_source_gone(). Again and again is no different. */
void dfi__receiver_ring_source_gone(
    struct receiver_ring *target, uint32_t source);

#endif
