/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of which there is one copy, in memory of the source's process, and
 * which all targets read where it lies. Its slots are shown to each target
 * (transport.h), whose own region has a ring without slots for this source
 * (ring_geometry.apart): credits, the source's end, and where it finds them.
 *
 *	source's region  | region_header | ring_header | slot 0 | slot 1 | ...
 *	target's region  | region_header | ring_header | ring_header | ...
 *
 * The writer has a remote of a transport of this file's own: a segment is
 * published by its footer alone, and whoever sleeps is woken; what the targets
 * have given back is the least that one of them has.
 */
#ifndef DFI_BUFFERS_SHARED_RING_H
#define DFI_BUFFERS_SHARED_RING_H

#include <stdint.h>
#include "transport/transport.h"
#include "writer.h"

struct shared_ring {
	struct transport transport;
	struct remote remote; /* of the writer */
	struct region *region;
	struct writer *writer;
	/* One for each target, with a ring in its region; without segments. */
	struct writer *rings;
	uint32_t n_rings;
	uint32_t short_of; /* the ring that has given back least */
	/* If not NULL, called for each segment, which nobody reads in place. */
	void (*published)(void *arg);
	void *published_arg;
};

/*
 * Reserve the slots, of a geometry that is not apart, and begin writer. rings
 * are still to be opened. What region_ops.create() returns.
 */
int dfi__shared_ring_init(struct shared_ring *shared_ring,
    struct transport *transport, const struct ring_geometry *geometry,
    struct writer *writer, struct writer *rings, uint32_t n_rings,
    uint64_t start);
void dfi__shared_ring_free(struct shared_ring *shared_ring);

/* Have the rings say what the writer does: before they are looked at. */
void dfi__shared_ring_sync(struct shared_ring *shared_ring);

/* Tell a ring's target where the slots are, which were shown to it. Once. */
int dfi__shared_ring_open(struct shared_ring *shared_ring, struct writer *ring);

#endif
