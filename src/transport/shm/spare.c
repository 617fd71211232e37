/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spare regions: destroyed regions stay mapped and populated for new ones of
 * the same size, because most of the cost of a new region is the kernel's work
 * for its pages (docs/decisions/0017-spare-regions.md). Only regions that
 * nobody else can write into are used again: a peer's last store says that it
 * has released the region. This file neither makes nor unmaps regions.
 */
#include "shm.h"

#include <sched.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/bits.h"
#include "base/clock.h"
#include "base/settings.h"

/* Each spare keeps a descriptor open. */
#define SPARES_MAX 32

int64_t dfi__shm_wait_limit_ns = NS_PER_S;

static uint64_t most_bytes(const struct shm *shm)
{
	/* That limit is exact and leaves no room for idle memory. */
	if (shm->settings->ring_memory_limit != UINT64_MAX)
		return 0;
	return shm->settings->spare_memory;
}

/* Tells whether no other process can write or read it. */
static bool is_released(const struct shm_region *region)
{
	/*
	 * Pairs with the addition in shm_remote_close(), which follows all
	 * other stores of the peer.
	 */
	return atomic_observe(shm_released(region->base.base)) ==
	    region->n_passed;
}

/* The lock is held. */
static void move(
    struct shm *shm, struct shm_region *region, struct shm_spares *out)
{
	TAILQ_REMOVE(&shm->spares, region, link);
	shm->spare_bytes -= region->base.name.size;
	shm->n_spares--;
	if (out)
		TAILQ_INSERT_TAIL(out, region, link);
}

/* The lock is held. Move the regions of peers that seem dead. */
static void move_held(struct shm *shm, int64_t now, struct shm_spares *out)
{
	struct shm_region *region, *next;

	for (region = TAILQ_FIRST(&shm->spares); region; region = next) {
		next = TAILQ_NEXT(region, link);
		if (now - region->kept_at > dfi__shm_wait_limit_ns &&
		    !is_released(region))
			move(shm, region, out);
	}
}

/* The lock is not held: unmapping takes the kernel a while. */
static bool free_moved(struct shm_spares *moved)
{
	struct shm_region *region;
	bool any = false;

	while ((region = TAILQ_FIRST(moved))) {
		TAILQ_REMOVE(moved, region, link);
		dfi__shm_region_free(region);
		any = true;
	}
	return any;
}

unsigned dfi__shm_memory_node(void)
{
	unsigned cpu, node;

	return getcpu(&cpu, &node) < 0 ? 0 : node;
}

struct shm_region *dfi__shm_spare_take(struct shm *shm, uint64_t size)
{
	struct shm_spares held = TAILQ_HEAD_INITIALIZER(held);
	unsigned node = dfi__shm_memory_node();
	struct shm_region *region;

	pthread_mutex_lock(&shm->lock);
	move_held(shm, clock_now_ns(), &held);
	/* The region that was used last is most likely still in caches. */
	TAILQ_FOREACH(region, &shm->spares, link)
	{
		if (region->base.name.size == align_up(size, region->page) &&
		    region->node == node && is_released(region))
			break;
	}
	if (region)
		move(shm, region, NULL);
	pthread_mutex_unlock(&shm->lock);
	free_moved(&held);
	return region;
}

bool dfi__shm_spare_keep(struct shm *shm, struct shm_region *region)
{
	struct shm_spares moved = TAILQ_HEAD_INITIALIZER(moved);
	uint64_t size = region->base.name.size, most = most_bytes(shm);

	if (size > most || region->elsewhere || region->base.exports)
		return false;
	region->kept_at = clock_now_ns();
	pthread_mutex_lock(&shm->lock);
	move_held(shm, region->kept_at, &moved);
	while (shm->spare_bytes > most - size || shm->n_spares == SPARES_MAX)
		move(shm, TAILQ_LAST(&shm->spares, shm_spares), &moved);
	TAILQ_INSERT_HEAD(&shm->spares, region, link);
	shm->spare_bytes += size;
	shm->n_spares++;
	pthread_mutex_unlock(&shm->lock);
	free_moved(&moved);
	return true;
}

bool dfi__shm_spares_free(struct shm *shm)
{
	struct shm_spares moved = TAILQ_HEAD_INITIALIZER(moved);

	pthread_mutex_lock(&shm->lock);
	while (!TAILQ_EMPTY(&shm->spares))
		move(shm, TAILQ_FIRST(&shm->spares), &moved);
	pthread_mutex_unlock(&shm->lock);
	return free_moved(&moved);
}
