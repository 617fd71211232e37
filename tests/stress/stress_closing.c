/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads close a context while others enter it: each call takes effect as a
 * whole, or fails because the context is closing or closed. Of many concurrent
 * closes, one succeeds. DFI_TEST_CYCLES: how many contexts.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "stress_help.h"

#define N_THREADS 6
#define N_CYCLES 150
#define MAX_CALLS 64

static pthread_barrier_t begin, end;
static struct dfi *dfi;
static uint64_t n_cycles = N_CYCLES;
static _Atomic uint32_t n_closed, n_calls, n_busy, n_late;

static int none(void *arg, const struct dfi_transport_stats *stats)
{
	(void)arg;
	(void)stats;
	check(0, "it used no device");
	return 0;
}

static int query(struct rng *rng)
{
	struct dfi_target_group *group;
	struct dfi_flow_info info;
	int ret;

	switch (rng_below(rng, 8)) {
	case 0:
		ret = dfi_flow_lookup(dfi, "none", &info);
		return ret == -ENOENT ? 0 : ret;
	case 1:
		ret = dfi_target_group_open(dfi, NULL, &group);
		if (!ret)
			check(dfi_target_group_close(group) == 0, "group");
		return ret;
	default:
		return dfi_context_query(dfi, none, NULL);
	}
}

static void *run_actor(void *arg)
{
	struct rng rng = { .state = (uintptr_t)arg };
	uint64_t i;
	unsigned n;
	int ret;

	for (i = 0; i < n_cycles; i++) {
		pthread_barrier_wait(&begin);
		for (n = rng_below(&rng, MAX_CALLS); n; n--) {
			ret = query(&rng);
			n_calls += !ret;
			n_busy += ret == -EBUSY;
			n_late += ret == -EBADF;
			check(
			    !ret || ret == -EBUSY || ret == -EBADF, "%d", ret);
		}
		/* Others call it, or are at the same. */
		while ((ret = dfi_close(dfi)) == -EBUSY)
			sched_yield();
		n_closed += !ret;
		check(!ret || ret == -EBADF, "%d", ret);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

int main(void)
{
	const char *cycles = getenv("DFI_TEST_CYCLES");
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	pthread_t threads[N_THREADS];
	uint64_t i;

	if (cycles && *cycles)
		n_cycles = strtoull(cycles, NULL, 0);
	check(dfi_registry_start(NULL, &registry) == 0, "registry");
	attr.registry = dfi_registry_address(registry);
	pthread_barrier_init(&begin, NULL, N_THREADS + 1);
	pthread_barrier_init(&end, NULL, N_THREADS + 1);
	for (i = 0; i < N_THREADS; i++)
		threads[i] = start_thread(run_actor, (void *)(uintptr_t)i);
	for (i = 0; i < n_cycles; i++) {
		check(dfi_open(&attr, &dfi) == 0, "open");
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&end);
		check(n_closed == i + 1, "%u of %lu were closed", n_closed,
		    (unsigned long)i + 1);
	}
	for (i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	check(dfi_registry_stop(registry) == 0, "stop");
	printf("%lu contexts were closed under %u calls; %u came meanwhile, "
	       "%u later\n",
	    (unsigned long)n_cycles, n_calls, n_busy, n_late);
	return EXIT_SUCCESS;
}
