/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watermark of a target of an open flow, from its sources' marks: K1 to K5
 * of docs/open-flows.md.
 */
#ifndef DFI_FLOWS_OPEN_WATERMARK_H
#define DFI_FLOWS_OPEN_WATERMARK_H

#include <stdbool.h>
#include <stdint.h>

#include "flows/open/bugs.h"

enum open_marker_state {
	OPEN_MARKER_ABSENT = 0,
	OPEN_MARKER_COUNTS,
	OPEN_MARKER_IDLE,
};

/* What a target knows of a source's marks. */
struct open_marker {
	uint8_t state;    /* enum open_marker_state */
	uint32_t n_pairs; /* incarnations that have joined, and are not over */
	bool late; /* it was idle, and its marks are below the watermark */
	uint64_t value;
	int64_t quiet_since; /* ns; when something came last */
};

struct open_watermark {
	struct open_marker *markers; /* of each source's seat */
	uint32_t n;
	uint32_t n_counting;
	uint64_t value;
	/*
	 * Up to this value, a mark is no barrier: something behind it was taken
	 * before the watermark was there.
	 */
	uint64_t unaligned;
	bool align, suspended;
	/* Who is lost may return: until then it counts with its last value. */
	bool replay;
	int64_t idle_ns; /* 0: nobody is idle */
};

/* memory: n markers. */
void dfi__open_watermark_init(struct open_watermark *watermark, uint32_t n,
    bool align, bool replay, int64_t idle_ns, struct open_marker *memory);

/*
 * All calls below return whether the watermark has risen.
 *
 * A source has joined its seat (K2). One that returns goes on where it was.
 */
bool dfi__open_watermark_join(
    struct open_watermark *watermark, uint32_t source, int64_t now);

/* A mark of a source was taken. */
bool dfi__open_watermark_mark(struct open_watermark *watermark, uint32_t source,
    uint64_t value, int64_t now);

/*
 * All that an incarnation of a source has sent was taken, and it has ended, or
 * is lost.
 */
bool dfi__open_watermark_ended(
    struct open_watermark *watermark, uint32_t source);
bool dfi__open_watermark_lost(
    struct open_watermark *watermark, uint32_t source);

/* A lost source is given up (R7), unless it has returned. */
bool dfi__open_watermark_given_up(
    struct open_watermark *watermark, uint32_t source);

/* A source's ring is empty at this time: it may be idle (K3). */
bool dfi__open_watermark_quiet(
    struct open_watermark *watermark, uint32_t source, int64_t now);

/*
 * Partitions move, or do not any more: meanwhile nobody waits for marks of
 * others, as what a target takes may wait for what another has to release (K4).
 */
void dfi__open_watermark_suspend(struct open_watermark *watermark, bool moving);

/*
 * Whether what comes next in a ring may be taken (K4). behind: the last mark
 * that was taken from it, or 0. A source that returns has a ring without marks:
 * what it sends again is in front of marks that it gave before. gone: the
 * ring's source is; what is behind the rest of its ring may have to come before
 * others can go on.
 */
static inline bool open_watermark_may_take(
    const struct open_watermark *watermark, uint64_t behind, bool gone)
{
	return !watermark->align || watermark->suspended || gone ||
	    behind <= watermark->value || OPEN_BUG(NO_ALIGN);
}

/* It is taken, at this time. */
static inline void open_watermark_took(struct open_watermark *watermark,
    uint32_t source, uint64_t behind, int64_t now)
{
	watermark->markers[source].quiet_since = now;
	if (behind > watermark->value && behind > watermark->unaligned &&
	    !OPEN_BUG(NO_ALIGN))
		watermark->unaligned = behind;
}

/* Whether tuples of a source are flagged late (K3). */
static inline bool open_watermark_is_late(
    const struct open_watermark *watermark, uint32_t source)
{
	return watermark->markers[source].late;
}

/* Whether the watermark is a barrier at this target (K4). */
static inline bool open_watermark_is_barrier(
    const struct open_watermark *watermark)
{
	return watermark->value > watermark->unaligned;
}

#endif
