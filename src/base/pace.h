/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pacing: sleeping through a part of a stream. A target that takes segments as
 * fast as they come spends its time waiting, and so occupies a processor, which
 * a software device needs to move the next segment. If the stream is slow
 * compared with a sleep, the target can sleep until several segments are there.
 * No wake-up is needed for that, and the rings have room. docs/decisions/0012.
 */
#ifndef DFI_BASE_PACE_H
#define DFI_BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
	uint32_t segments;      /* most in a pace; 0: never pace */
	uint32_t hold_off;      /* waits before the next pace */
	uint32_t last_hold_off; /* hold_off's start; halved if a pace helps */
	bool paced;             /* it has paced before the last wait */
	int64_t usual_ns;       /* time per segment without paces */
	uint64_t seen;          /* segments at the last wait */
	int64_t since;          /* time of the last wait */
};

/*
 * Returns how long to pace now, or 0. Call it before waiting for segments;
 * segments is the number that have come so far. A pace fails if fewer than two
 * segments come during it, or if each takes one and a half times as long as
 * without paces. After a failure, the next pace comes later.
 */
int64_t dfi__pace_ns(struct pace *pace, uint64_t segments, int64_t now);

/* Pace before waiting, if that helps. Returns how long it took, in ns. */
uint64_t dfi__pace(struct pace *pace, uint64_t segments);

#endif
