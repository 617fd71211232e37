/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for segments, as consuming calls need it. */
#ifndef DFI_FLOWS_ENDPOINT_AWAIT_H
#define DFI_FLOWS_ENDPOINT_AWAIT_H

#include "transport/transport.h"
#include "target.h"

/* A count of the changes among the sources and their connections. */
static inline uint32_t target_changes(struct dfi_target *target)
{
	const struct export *export = target->region->exports;
	uint32_t n = peers_changes(&target->sources);

	/*
	 * Pairs with the add where a connection breaks: orders what it reports.
	 */
	for (; unlikely(export != NULL); export = export->next)
		n += atomic_observe(&export->changes);
	return n;
}

/* Take in what networks have for this process; see transport.h. */
static inline void target_progress(
    const struct dfi_target *target, uint32_t looks)
{
	const struct export *export = target->region->exports;

	for (; unlikely(export != NULL); export = export->next)
		export->transport->ops->progress(export->transport, looks);
}

/* Whether the segments of some rings are seen only after progress(). */
static inline bool target_is_queued(const struct dfi_target *target)
{
	const struct export *export = target->region->exports;
	bool queued = false;

	for (; unlikely(export != NULL); export = export->next)
		queued |= atomic_peek(&export->queued);
	return queued;
}

/*
 * A pause of some nanoseconds between two looks at a line that a peer is about
 * to write. A peer that writes needs the line alone, and a look that comes
 * before its stores takes the line away again. nothing is 0, and the result is
 * it, later: the address of the next look must depend on that.
 */
static always_inline uint64_t look_later(uint64_t nothing)
{
	uint32_t i;

	for (i = 0; i < 8; i++) {
		nothing *= nothing;
		__asm__("" : "+r"(nothing));
	}
	return nothing;
}

/* Whether a ring has a segment, whose first line may come with its footer. */
static always_inline bool target_ring_ready(
    const struct dfi_target *target, const struct reader *reader)
{
	if (target->prefetches)
		__builtin_prefetch((const char *)reader->head -
		    reader->geometry.footer_offset);
	return reader_ready(reader);
}

/* Whether some ring has a segment to take. */
bool dfi__target_has_segment(struct dfi_target *target);

/*
 * Make the descriptor readable once there is something to consume or report.
 * true: there already is.
 */
bool dfi__target_arm(struct dfi_target *target);

/*
 * The error of an owner that doesn't wait: -EAGAIN, or -ETIMEDOUT if sources
 * have not attached in time.
 */
int dfi__target_found_none(struct dfi_target *target);

/*
 * Look a few more times at memory and at the network's queue, before slower
 * work: the sources' states are checked only while no segments come. Returns
 * whether a ring has a segment by now; in an ordered flow, always false.
 */
bool dfi__target_glance(struct dfi_target *target);

/* Wait for a segment, an end, or a change among the sources. -ETIMEDOUT. */
int dfi__target_wait(struct dfi_target *target);

#endif
