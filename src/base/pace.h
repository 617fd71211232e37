/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naps: sleeping through a part of a stream. A target that takes segments as
 * fast as they come spends its time waiting, and so a processor, which a
 * software device needs to move the next segment. If the stream is slow beside
 * a sleep, the target may as well sleep until a few segments are there: nobody
 * is woken for that, and the rings have room for more. docs/decisions/0012.
 */
#ifndef DFI_BASE_NAP_H
#define DFI_BASE_NAP_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
	uint32_t segments;      /* that may come meanwhile; 0: never pace */
	uint32_t hold_off;      /* waits before the next pace */
	uint32_t last_hold_off; /* as it began; paces that help halve it */
	bool paced;             /* before the last wait */
	int64_t usual_ns;       /* per segment, as they come without paces */
	uint64_t seen;          /* segments at the last wait */
	int64_t since;          /* and its time */
};

/*
 * How long to pace now, or 0: before waiting for segments, of which so many
 * have come up to now. If less than two came while napping, or they took one
 * and a half times as long as without, it was for no stream; others are tried
 * later.
 */
int64_t dfi__pace_ns(struct pace *pace, uint64_t segments, int64_t now);

/* Nap before waiting, if it is of use. Returns how long that took, in ns. */
uint64_t dfi__pace(struct pace *pace, uint64_t segments);

#endif
