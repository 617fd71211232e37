/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outcome of a join, and its report as text or JSON.
 */
#ifndef RADIX_JOIN_REPORT_H
#define RADIX_JOIN_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "options.h"
#include "relation.h"

/*
 * A worker's times, from the start of all: until its inner relation is
 * complete, from then until its outer one is, and from then until its end. They
 * use the clock of its machine; on other machines than the first, the start is
 * the arrival of its message.
 */
struct worker_times {
	uint64_t inner_ns;
	uint64_t outer_ns;
	uint64_t join_ns;
	uint64_t sent_bytes; /* through flows */
};

struct outcome {
	struct plan plan;
	struct result result;
	uint64_t total_ns; /* from the start to the last worker's end */
	struct worker_times *workers;
	bool has_expected;
	struct result expected;
	uint64_t keyless[N_RELATIONS]; /* rows without a key */
};

static inline uint64_t worker_total_ns(const struct worker_times *times)
{
	return times->inner_ns + times->outer_ns + times->join_ns;
}

/* Whether the result was checked, and is right. */
bool outcome_verified(const struct outcome *outcome);
bool outcome_wrong(const struct outcome *outcome);

/*
 * Print it to a stream. 0, or -1 after a complaint: the result is wrong, or it
 * cannot be printed.
 */
int report(
    FILE *out, const struct outcome *outcome, const struct options *options);

#endif
