/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport over plain memory, for rings without processes. In place, it is
 * like shared memory. Otherwise the writer has a shadow ring, and write()
 * copies payload and footer in steps, as a network would. After each step it
 * calls step(), to check the target's side. Writes may arrive late.
 */
#ifndef DFI_TESTS_FAKE_TRANSPORT_H
#define DFI_TESTS_FAKE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "buffers/reader.h"
#include "buffers/writer.h"
#include "transport/transport.h"

/* A ring with both ends: ring RING_INDEX of a region of two. */
#define RING_INDEX 1

struct fake_ring {
	struct transport transport;
	struct region region;
	struct remote remote;
	struct ring_geometry geometry;
	struct writer writer;
	struct reader reader;
	unsigned n_writes, n_credits;
	/* Payloads that are not in place end at their footer, behind them. */
	bool at_footer;
	/* Called after each step of a write that is not in place. */
	void (*step)(struct fake_ring *ring);
	/* Nothing arrives before fake_ring_arrive(). */
	bool late;
	struct transport_write *on_the_way; /* for all slots and the end mark */
	uint32_t n_on_the_way;
};

void fake_ring_start(struct fake_ring *ring, uint32_t tuple_size,
    uint32_t segment_size, uint32_t segment_count, uint64_t start,
    bool in_place);
void fake_ring_start_with(struct fake_ring *ring, struct ring_geometry geometry,
    uint64_t start, bool in_place);
void fake_ring_stop(struct fake_ring *ring);

/* Deliver what was sent first; false: there was nothing. */
bool fake_ring_arrive(struct fake_ring *ring);

/*
 * Let a ring that is not in place send from a send buffer, which must outlive
 * it.
 */
void fake_ring_use_send_buffer(
    struct fake_ring *ring, struct send_buffer *send_buffer);
/* A send buffer of no transport; the replica writer frees it. */
struct send_buffer *fake_send_buffer(uint64_t size);

/*
 * In the target's memory: the footer of a slot, what was sent into it unless
 * that is shifted, and the header of the ring.
 */
struct segment_footer *fake_ring_footer(struct fake_ring *ring, uint32_t slot);
char *fake_ring_sent(struct fake_ring *ring, uint32_t slot);
struct ring_header *fake_ring_header(struct fake_ring *ring);

#endif
