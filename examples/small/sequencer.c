/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work items that many workers claim, each item once: a sequencer gives out the
 * next numbers in ranges. No worker waits for another one.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include "small.h"

enum {
	N_WORKERS = 3,
	N_ITEMS = 10000000,
	AT_ONCE = 64 /* a call for each item would cost more */
};

static struct dfi *dfi;
static uint8_t times_done[N_ITEMS];
static uint64_t counts[N_WORKERS];

static void *work(void *arg)
{
	uint64_t *n_done = arg, first = 0, item;
	struct dfi_sequencer *items;
	struct dfi_barrier *begin;

	/* All begin at once, so that each gets some. */
	check(dfi_barrier_open(
	    dfi, "begin", N_WORKERS, (uint32_t)(n_done - counts), &begin));
	check(dfi_barrier_wait(begin, 0));
	check(dfi_barrier_close(begin));
	/*
	 * Waits until the sequencer exists; 0: as long as the context allows.
	 */
	check(dfi_sequencer_open(dfi, "items", 0, &items));
	while (first < N_ITEMS) {
		check(dfi_sequencer_next(items, AT_ONCE, &first));
		for (item = first; item < first + AT_ONCE && item < N_ITEMS;
		     item++, ++*n_done)
			times_done[item]++;
	}
	check(dfi_sequencer_close(items));
	return NULL;
}

int main(void)
{
	uint64_t sum = 0;
	struct dfi_registry *registry;
	struct dfi_sequencer *items;
	pthread_t threads[N_WORKERS];
	bool right = true;

	dfi = start(&registry);
	/* The counter lives as long as this handle. */
	check(dfi_sequencer_create(dfi, "items", 0, &items));
	for (int i = 0; i < N_WORKERS; i++)
		threads[i] = spawn(work, &counts[i]);
	for (int i = 0; i < N_WORKERS; i++) {
		pthread_join(threads[i], NULL);
		printf("worker %d: %" PRIu64 " items\n", i, counts[i]);
		sum += counts[i];
	}
	for (int i = 0; i < N_ITEMS; i++)
		right &= times_done[i] == 1;
	check(dfi_sequencer_close(items));
	stop(dfi, registry);
	return !right || sum != N_ITEMS;
}
