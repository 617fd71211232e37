/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job in phases: in each, every worker computes from its neighbour's value of
 * the phase before. A barrier keeps the phases apart. Here the workers are
 * threads; they may be processes on several machines.
 */
#include <inttypes.h>
#include <stdint.h>
#include "small.h"

enum {
	N_WORKERS = 3,
	N_PHASES = 4
};

static struct dfi *dfi;
static uint64_t value[N_PHASES + 1][N_WORKERS] = { { 1, 2, 3 } };

static void *work(void *arg)
{
	uint32_t self = *(const uint32_t *)arg, left, phase;
	struct dfi_barrier *barrier;

	left = (self + N_WORKERS - 1) % N_WORKERS;
	check(dfi_barrier_open(dfi, "phases", N_WORKERS, self, &barrier));
	for (phase = 0; phase < N_PHASES; phase++) {
		value[phase + 1][self] = value[phase][self] +
		    value[phase][left];
		/*
		 * 0: as long as the others live. A death ends the wait at once.
		 */
		check(dfi_barrier_wait(barrier, 0));
	}
	check(dfi_barrier_close(barrier));
	return NULL;
}

int main(void)
{
	static uint32_t index[N_WORKERS] = { 0, 1, 2 };
	struct dfi_registry *registry;
	pthread_t threads[N_WORKERS];
	uint64_t *last = value[N_PHASES];

	dfi = start(&registry);
	for (int i = 0; i < N_WORKERS; i++)
		threads[i] = spawn(work, &index[i]);
	for (int i = 0; i < N_WORKERS; i++)
		pthread_join(threads[i], NULL);
	printf("after %d phases: %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
	    N_PHASES, last[0], last[1], last[2]);
	stop(dfi, registry);
	/* Each phase doubles the sum of all values. */
	return last[0] + last[1] + last[2] != 6 << N_PHASES;
}
