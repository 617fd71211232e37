/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a network knows of a ring of this process that a peer writes, and what
 * becomes of it when the connection breaks.
 */
#ifndef DFI_TRANSPORT_NETWORK_RING_H
#define DFI_TRANSPORT_NETWORK_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/atomic.h"
#include "base/wait.h"
#include "transport.h"

/* Room for the text that says why a connection broke. */
#define NETWORK_WHY_SIZE 200
#define NETWORK_NO_LINK UINT32_MAX

struct network_ring {
	_Atomic bool used;     /* a writer has opened it */
	_Atomic uint32_t lost; /* enum ring_loss, if the connection broke */
	uint32_t link;         /* NETWORK_NO_LINK: it is not being written */
	uint32_t notify;       /* over RDMA: enum verbs_notify */
	char why[NETWORK_WHY_SIZE]; /* it was lost; "": the peer has left */
	uint64_t writer;            /* id of the lost writer's node */
};

/*
 * A peer writes it from now on. An earlier attempt to open it may have failed.
 */
static inline void network_ring_open(struct network_ring *ring)
{
	atomic_set(&ring->lost, RING_KEPT);
	atomic_publish(&ring->used, true);
}

/*
 * ring_ops.lost(). A writer that came in its location may write through memory,
 * and opens no ring here. A writer that has written cannot be replaced.
 */
static inline enum ring_loss network_ring_lost(
    const struct network_ring *ring, uint64_t node)
{
	uint32_t lost = atomic_observe(&ring->lost);

	if (!lost)
		return atomic_peek(&ring->used) ? RING_TAKEN : RING_KEPT;
	return lost == RING_LOST_UNWRITTEN && node && ring->writer != node
	    ? RING_KEPT
	    : (enum ring_loss)lost;
}

/* ring_ops.writer_why(). */
static inline const char *network_ring_why(
    const struct network_ring *ring, uint64_t node)
{
	enum ring_loss loss = network_ring_lost(ring, node);

	return loss != RING_KEPT && loss != RING_TAKEN && ring->why[0]
	    ? ring->why
	    : NULL;
}

/*
 * Its connection broke: wake the reader. Also if nothing was written yet: the
 * registry would tell that a source has died, but it may be lost together with
 * it, or have lost nobody.
 */
static inline void network_ring_lose(struct network_ring *ring,
    struct export *export, const struct region *region, const char *why,
    uint64_t writer, bool written)
{
	snprintf(ring->why, sizeof(ring->why), "%s", why);
	ring->writer = writer;
	/* Pairs with network_ring_lost(): why, and who. */
	atomic_publish(&ring->lost, written ? RING_LOST : RING_LOST_UNWRITTEN);
	atomic_fetch_add(&export->changes, 1);
	wait_wake_fenced((_Atomic uint32_t *)(void *)((char *)region->base +
	    REGION_WAIT_OFFSET));
}

#endif
