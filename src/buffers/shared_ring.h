/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring whose slots lie once, in memory of the source's process. All targets
 * read them there. The source grants its slots to each target (transport.h).
 * The target's own region has a ring without slots for this source
 * (ring_geometry.apart), which has the credits, the end mark, and where the
 * slots are.
 *
 *	source's region  | region_header | ring_header | slot 0 | slot 1 | ...
 *	target's region  | region_header | ring_header | ring_header | ...
 *
 * The writer's remote belongs to a transport in this file. That transport
 * publishes a segment by its footer alone and wakes the targets that sleep. Its
 * credit is the smallest one among the targets.
 */
#ifndef DFI_BUFFERS_SHARED_RING_H
#define DFI_BUFFERS_SHARED_RING_H

#include <stdint.h>
#include "transport/transport.h"
#include "multicast/sender_ring.h"
#include "writer.h"

/*
 * The number of the first segment of a shared ring that readers move to
 * (reader_move.c). It is that of no ring that nobody has used.
 */
#define SHARED_RING_MOVED (RING_FIRST_SEGMENT + UINT64_C(1))

struct shared_ring {
	struct transport transport;
	struct remote remote; /* the writer's remote */
	struct region *region;
	struct writer *writer;
	/*
	 * The rings in the targets' regions, one for each target; without
	 * slots.
	 */
	struct writer *rings;
	uint32_t n_rings;
	uint32_t short_of; /* the ring with the smallest credit */
	/* Sends each segment, so that no target reads the slots; or NULL. */
	struct sender_ring *multicast;
};

/*
 * Reserve the slots, and initialise writer. The geometry is not apart. The
 * caller opens the rings later. Returns the errors of region_ops.create().
 */
int dfi__shared_ring_init(struct shared_ring *shared_ring,
    struct transport *transport, const struct ring_geometry *geometry,
    struct writer *writer, struct writer *rings, uint32_t n_rings,
    uint64_t start);
void dfi__shared_ring_free(struct shared_ring *shared_ring);

/* Copy the writer's counters to the rings. Call it before reading the rings. */
void dfi__shared_ring_sync(struct shared_ring *shared_ring);

/*
 * Tell a ring's target where the slots are. Call it once, after granting them.
 */
int dfi__shared_ring_open(struct shared_ring *shared_ring, struct writer *ring);

#endif
