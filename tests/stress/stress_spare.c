/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions that are reused while peers come and go. Owners fill each region and
 * later check that nobody else has written into it, although peers of earlier
 * regions may still write when those are destroyed.
 */
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/settings.h"
#include "stress_help.h"
#include "transport/shm/shm.h"
#include "tests/unit/stop_loop.h"

#define N_PAIRS 3
#define N_ROUNDS 400
#define HEAD 128 /* of the region: what the transport and its waiters have */

enum state {
	IDLE = 0,
	OFFERED, /* by the owner */
	OPEN,    /* at the peer, which writes */
	CLOSED,
	OVER,
};

/* An owner of regions, and a peer that writes into some of them. */
struct pair {
	uint32_t index;
	_Atomic uint32_t state;
	struct region_name name;
	uint32_t n_reused;
};

static struct transport *owner, *peer;

static void await(struct pair *pair, uint32_t a, uint32_t b)
{
	int64_t deadline = deadline_in_ms(LONG_MS);
	uint32_t state;

	while ((state = atomic_load(&pair->state)) != a && state != b) {
		check(deadline_left_ms(deadline) > 0, "pair %u waits",
		    pair->index);
		sched_yield();
	}
}

static void write_a_while(char *region, uint64_t size, struct rng *rng)
{
	uint32_t n = rng_below(rng, 300);
	uint64_t word;

	while (n--) {
		word = HEAD / 8 + rng_below(rng, (uint32_t)(size - HEAD) / 8);
		atomic_store((_Atomic uint64_t *)(void *)(region + 8 * word),
		    UINT64_MAX - n);
		rng_yield(rng, 20);
	}
}

static void *run_peer(void *arg)
{
	struct ring_layout whole = { .n_rings = 1 };
	struct pair *pair = arg;
	struct rng rng = { .state = 1000 + pair->index };
	struct remote *remote;

	for (;;) {
		await(pair, OFFERED, OVER);
		if (atomic_load(&pair->state) == OVER)
			return NULL;
		check(peer->ops->ring.open(peer, NULL, &pair->name, &whole, 0,
			  NULL, WAIT_LIMIT(deadline_in_ms(LONG_MS)),
			  &remote) == 0,
		    "remote: %s", dfi_errmsg());
		atomic_store(&pair->state, OPEN);
		write_a_while(remote->ring, pair->name.size, &rng);
		peer->ops->ring.close(remote);
		atomic_store(&pair->state, CLOSED);
	}
}

static struct region *create(struct rng *rng)
{
	struct region *region;

	check(owner->ops->region.create(
		  owner, rng_below(rng, 2) ? 8192 : 20000, &region) == 0,
	    "region: %s", dfi_errmsg());
	return region;
}

/* It has no words of others, now and later. */
static void use_alone(struct pair *pair, struct rng *rng)
{
	struct region *region = create(rng);
	_Atomic uint64_t *words = region->base;
	uint64_t i, n = region->name.size / 8, mine = rng_next(rng) >> 1;

	pair->n_reused += atomic_load(&words[n - 1]) != 0;
	for (i = HEAD / 8; i < n; i++)
		atomic_store_explicit(&words[i], mine, memory_order_relaxed);
	for (i = rng_below(rng, 20); i > 0; i--)
		sched_yield();
	for (i = HEAD / 8; i < n; i++)
		check(atomic_load_explicit(&words[i], memory_order_relaxed) ==
			mine,
		    "somebody writes into another's region");
	region->transport->ops->region.destroy(region);
}

static void *run_owner(void *arg)
{
	struct pair *pair = arg;
	struct rng rng = { .state = pair->index };
	struct region *region;
	uint32_t i, n;

	for (i = 0; i < N_ROUNDS; i++) {
		region = create(&rng);
		pair->name = region->name;
		atomic_store(&pair->state, OFFERED);
		await(pair, OPEN, CLOSED);
		/* The peer still writes, or has unmapped it. */
		if (rng_below(&rng, 2))
			await(pair, CLOSED, CLOSED);
		owner->ops->region.destroy(region);
		for (n = rng_below(&rng, 4); n > 0; n--)
			use_alone(pair, &rng);
		await(pair, CLOSED, CLOSED);
	}
	atomic_store(&pair->state, OVER);
	return NULL;
}

static struct loop *start(
    const char *name, const struct settings *settings, struct transport **out)
{
	struct loop *loop;

	check(dfi__loop_start(name, &loop) == 0, "loop");
	check(dfi__shm_ops.start(loop, settings, NULL, out) == 0, "shm");
	return loop;
}

int main(void)
{
	static struct pair pairs[N_PAIRS];
	pthread_t threads[2 * N_PAIRS];
	struct loop *owners, *peers;
	struct settings settings;
	uint32_t i, n_reused = 0;

	check(dfi__settings_load(&settings) == 0, "settings");
	/* Few, so that some are also freed for others. */
	settings.spare_memory = 64 << 10;
	settings.ring_memory_limit = UINT64_MAX;
	settings.huge_pages = HUGE_PAGES_NEVER;
	owners = start("owner", &settings, &owner);
	peers = start("peer", &settings, &peer);
	for (i = 0; i < N_PAIRS; i++) {
		pairs[i].index = i;
		threads[2 * i] = start_thread(run_owner, &pairs[i]);
		threads[2 * i + 1] = start_thread(run_peer, &pairs[i]);
	}
	for (i = 0; i < 2 * N_PAIRS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < N_PAIRS; i++)
		n_reused += pairs[i].n_reused;
	check(n_reused > 0, "no region was used again");
	peer->ops->stop(peer);
	stop_loop(peers);
	owner->ops->stop(owner);
	stop_loop(owners);
	return EXIT_SUCCESS;
}
