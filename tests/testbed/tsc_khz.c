/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the frequency of this machine's time-stamp counter in kHz. The VMs of
 * a testbed read the same counter through QEMU's translator, but have no device
 * to measure its frequency reliably at boot. On a busy machine a kernel's
 * measurement is sometimes wrong by a factor, and so is its clock from then on.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

#define TRIES 200
#define SPAN_NS 50000000

struct moment {
	int64_t ns;
	uint64_t ticks;
};

/* Reads both many times, and keeps the pair with the shortest time between. */
static struct moment now(void)
{
	struct moment best = { 0 };
	uint64_t least = UINT64_MAX, before, after;
	struct timespec ts;
	int i;

	for (i = 0; i < TRIES; i++) {
		before = __rdtsc();
		if (clock_gettime(CLOCK_MONOTONIC_RAW, &ts)) {
			perror("clock_gettime");
			exit(1);
		}
		after = __rdtsc();
		if (after - before >= least)
			continue;
		least = after - before;
		best.ns = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
		best.ticks = before + least / 2;
	}
	return best;
}

int main(void)
{
	const struct timespec span = { .tv_nsec = SPAN_NS };
	struct moment begin = now(), end;
	double khz;

	nanosleep(&span, NULL);
	end = now();
	khz = (double)(end.ticks - begin.ticks) * 1e6 /
	    (double)(end.ns - begin.ns);
	printf("%" PRIu64 "\n", (uint64_t)(khz + 0.5));
	return 0;
}
