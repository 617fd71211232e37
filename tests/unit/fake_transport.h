/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport over plain memory, for rings without processes. In place it is
 * what shared memory is; apart, the writer has staging memory of its own, and
 * write() copies payload and footer in steps as a network would, with a look at
 * the target's side after each. It may do so late.
 */
#ifndef DFI_TESTS_FAKE_TRANSPORT_H
#define DFI_TESTS_FAKE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "buffers/reader.h"
#include "buffers/writer.h"
#include "transport/transport.h"

/* A ring with both ends, ring number RING_INDEX of a region of two. */
#define RING_INDEX 1

struct fake_ring {
	struct transport transport;
	struct region region;
	struct remote remote;
	struct ring_geometry geometry;
	struct writer writer;
	struct reader reader;
	unsigned n_writes, n_credits;
	/* Payloads that are not in place end at their footer. */
	bool at_footer;
	/* After each step of a write that is not in place. */
	void (*step)(struct fake_ring *ring);
	/* Nothing is read of what is sent before fake_ring_arrive(). */
	bool late;
	struct transport_write *on_the_way; /* room for a ring, and the end */
	uint32_t n_on_the_way;
};

void fake_ring_start(struct fake_ring *ring, uint32_t tuple_size,
    uint32_t segment_size, uint32_t segment_count, uint64_t start,
    bool in_place);
/* The same, with checksums, or other parts of a segment's header. */
void fake_ring_start_verified(struct fake_ring *ring, uint32_t tuple_size,
    uint32_t segment_size, uint32_t segment_count, uint64_t start,
    bool in_place);
void fake_ring_start_with(struct fake_ring *ring, uint32_t tuple_size,
    uint32_t segment_size, uint32_t segment_count, uint64_t start,
    bool in_place, uint32_t parts);
void fake_ring_stop(struct fake_ring *ring);

/* What was sent first; whether there was anything. */
bool fake_ring_arrive(struct fake_ring *ring);

/* Have a ring that is not in place send from a stage, which must outlive it. */
void fake_ring_use_stage(struct fake_ring *ring, struct stage *stage);
/* Not of any ring's transport; its replica writer frees it. */
struct stage *fake_stage(uint64_t size);

/* The footers and the header in the target's memory. */
struct segment_footer *fake_ring_footer(struct fake_ring *ring, uint32_t slot);
struct ring_header *fake_ring_header(struct fake_ring *ring);

#endif
