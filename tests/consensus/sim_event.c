/* SPDX-License-Identifier: Apache-2.0 */
/* Events in a heap by time; and random numbers, all from the seed. */
#include <stdlib.h>

#include "sim.h"

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void sim_add(struct sim *sim, uint64_t at, const struct sim_event *event)
{
	size_t i, up, capacity = sim->heap_capacity;
	struct sim_event *heap = sim->heap, added = *event;

	if (sim->n_events == capacity) {
		capacity = capacity ? 2 * capacity : 1024;
		heap = realloc(heap, capacity * sizeof(*heap));
		if (!heap)
			abort();
		sim->heap = heap;
		sim->heap_capacity = capacity;
	}
	added.at = at > sim->now ? at : sim->now;
	added.order = sim->order++;
	for (i = sim->n_events++; i > 0; i = up) {
		up = (i - 1) / 2;
		if (!is_before(&added, &heap[up]))
			break;
		heap[i] = heap[up];
	}
	heap[i] = added;
}

bool sim_next(struct sim *sim, struct sim_event *event)
{
	struct sim_event *heap = sim->heap, last;
	size_t i = 0, down;

	if (!sim->n_events)
		return false;
	*event = heap[0];
	last = heap[--sim->n_events];
	for (;;) {
		down = 2 * i + 1;
		if (down >= sim->n_events)
			break;
		if (down + 1 < sim->n_events &&
		    is_before(&heap[down + 1], &heap[down]))
			down++;
		if (!is_before(&heap[down], &last))
			break;
		heap[i] = heap[down];
		i = down;
	}
	heap[i] = last;
	sim->now = event->at;
	return true;
}

/* xoroshiro128+ (Blackman and Vigna), whose state sim_run() makes. */
uint64_t sim_random(struct sim *sim)
{
	uint64_t a = sim->random[0], b = sim->random[1], sum = a + b;

	b ^= a;
	sim->random[0] = (a << 24 | a >> 40) ^ b ^ b << 16;
	sim->random[1] = b << 37 | b >> 27;
	return sum;
}

uint64_t sim_below(struct sim *sim, uint64_t n)
{
	return n ? (sim_random(sim) >> 11) % n : 0;
}

bool sim_chance(struct sim *sim, unsigned share)
{
	return share && sim_below(sim, 10000) < share;
}
