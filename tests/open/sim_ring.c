/* SPDX-License-Identifier: Apache-2.0 */
/* Rings, whose segments have one tuple or mark. */
#include <stdlib.h>

#include "sim.h"

struct sim_ring *sim_ring_new(struct sim *sim)
{
	struct sim_ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		abort();
	ring->far = sim->plan.far;
	ring->next = sim->rings;
	sim->rings = ring;
	return ring;
}

bool sim_ring_has_room(const struct sim *sim, const struct sim_ring *ring)
{
	uint64_t used = SIM_BUG(NO_WINDOW) ? ring->taken : ring->credit;

	return ring->sent - used < sim->plan.room;
}

void sim_ring_send(struct sim_ring *ring, const struct sim_item *item)
{
	ring->items[ring->sent++ % SIM_SLOTS] = *item;
	if (!ring->far)
		ring->arrived = ring->sent;
}

const struct sim_item *sim_ring_at(const struct sim_ring *ring, uint64_t i)
{
	return &ring->items[i % SIM_SLOTS];
}

void sim_rings_free(struct sim *sim)
{
	struct sim_ring *ring;

	while ((ring = sim->rings) != NULL) {
		sim->rings = ring->next;
		free(ring);
	}
}
