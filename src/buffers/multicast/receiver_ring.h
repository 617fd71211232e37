/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's end of a multicast over datagrams: the export of a region
 * (transport.h). This file writes the region's rings from received datagrams,
 * in the way that a device would. So readers use the rings as they use all
 * others.
 */
#ifndef DFI_BUFFERS_MULTICAST_RECEIVER_RING_H
#define DFI_BUFFERS_MULTICAST_RECEIVER_RING_H

#include "transport/transport.h"
#include "end.h"
#include "receiver.h"

struct receiver_ring {
	struct multicast_end end; /* first */
	struct transport transport;
	struct export export;
	struct region *region;
	uint32_t n_receivers;
	struct multicast_receiver *receivers;
	_Atomic bool *lost; /* for each stream: its ring gets nothing more */
	/* For the owner: the consumed count of each stream at the last look. */
	uint64_t *looked;
	uint32_t credit_batch;
};

/*
 * Write into the rings of a region, which dfi__reader_init() has initialised,
 * and add the export to it. The rings' readers should give back each segment at
 * once (reader.batch 1): a source that gets all credit need not ask for it.
 * config has network, group, find, find_arg and flow. Returns the errors of
 * dfi__multicast_end_open().
 */
int dfi__receiver_ring_open(struct receiver_ring **target,
    const struct multicast_config *config, uint32_t index, uint32_t gap_us,
    bool notify, struct region *region, uint64_t start, int64_t deadline);

/* How many receives a target of such a flow posts. */
static inline uint32_t receiver_receives(
    const struct ring_geometry *geometry, uint32_t n_sources)
{
	return (uint32_t)min_u64(
	    2 * (uint64_t)geometry->segment_count * n_sources, UINT32_MAX);
}

/*
 * Stop receiving and answering. config.find is not called after this returns.
 * The rings stay until the region is unexported, which frees this object.
 */
void dfi__receiver_ring_stop(struct receiver_ring *target);

/* As dfi__multicast_receiver_source_gone(). Repeated calls have no effect. */
void dfi__receiver_ring_source_gone(
    struct receiver_ring *target, uint32_t source);

#endif
