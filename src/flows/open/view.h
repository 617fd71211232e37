/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of an ordered open flow (O1 to O6 in docs/open-flows.md): what a target
 * reports when a view ends, what is decided from that, and both as values of
 * the registry.
 *
 * Positions of view n begin at n * 2^48. An end is the position behind the last
 * one; 0: there is none in this view.
 */
#ifndef DFI_FLOWS_OPEN_VIEW_H
#define DFI_FLOWS_OPEN_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPEN_VIEW_POSITIONS (UINT64_C(1) << 48)

static inline uint64_t open_view_first(uint64_t view)
{
	return view * OPEN_VIEW_POSITIONS;
}

/* An end, or 0 if it is of an earlier view. */
static inline uint64_t open_view_end(uint64_t view, uint64_t end)
{
	return end > open_view_first(view) ? end : 0;
}

/* What a target has of a source. */
struct open_share {
	uint64_t source;             /* its incarnation */
	uint64_t delivered, arrived; /* ends */
	bool lost;                   /* for this target */
};

struct open_report {
	bool begun; /* it delivers: otherwise it has no shares */
	/*
	 * Where it has begun, if it came in this view; or 0. Of a source that
	 * is lost, and that it does not mention, it has nothing from there on.
	 */
	uint64_t joined;
	uint32_t n_shares;
	struct open_share *shares;
};

/* Where a source's segments end for all members of the next view. */
struct open_kept {
	uint64_t source, end;
};

struct open_view {
	uint64_t number; /* from 1 on; 0: none */
	uint64_t holder; /* of its counter: the incarnation of a target */
	uint32_t n_members, n_kept;
	uint64_t *members; /* targets that were attached before the cut */
	struct open_kept *kept;
	const uint8_t *counter; /* where the counter is, for those above */
	size_t counter_size;
};

struct open_reporter {
	uint64_t target; /* its incarnation */
	struct open_report report;
};

/*
 * Decide who goes on, and with which segments, from the reports of all targets
 * that are attached: each segment that one of them has delivered, and each that
 * all of them have. Who lacks one is no member. Sets members and kept only.
 * False: no memory.
 */
bool dfi__open_view_decide(
    const struct open_reporter *reporters, uint32_t n, struct open_view *view);

void dfi__open_view_free(struct open_view *view);

bool dfi__open_view_has(const struct open_view *view, uint64_t target);

/* Where a source ends in the view before; UINT64_MAX: nowhere. */
uint64_t dfi__open_view_kept(
    const struct open_kept *kept, uint32_t n, uint64_t source);

/*
 * Encode into a block that the caller frees; NULL: no memory. Decoding is false
 * for a value of another form, or without memory. A view that was decoded has
 * its own memory, also for the counter.
 */
uint8_t *dfi__open_report_encode(
    const struct open_report *report, size_t *size);
bool dfi__open_report_decode(
    const uint8_t *bytes, size_t size, struct open_report *report);
uint8_t *dfi__open_view_encode(const struct open_view *view, size_t *size);
bool dfi__open_view_decode(
    const uint8_t *bytes, size_t size, struct open_view *view);

#endif
