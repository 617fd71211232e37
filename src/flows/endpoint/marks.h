/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target makes of its sources' marks: the watermark, and the event that
 * tells of it (docs/open-flows.md, K1 to K5). Combiner flows end windows by
 * marks instead (kinds/combine).
 */
#ifndef DFI_FLOWS_ENDPOINT_MARKS_H
#define DFI_FLOWS_ENDPOINT_MARKS_H

#include <stdbool.h>
#include <stdint.h>
#include "base/compiler.h"
#include "flows/open/watermark.h"

struct dfi_event;
struct dfi_target;
struct reader;

struct target_marks {
	struct open_watermark watermark;
	bool reports; /* the target was opened with DFI_EVENTS */
	bool risen;   /* the watermark has, and no event has told it yet */
	bool has_gap; /* no event has told of target->gap yet */
	/* When to look for idle sources, or DEADLINE_NEVER. */
	int64_t idle_due;
	uint64_t *seen; /* of each source: the segments at the last look */
	struct open_marker of[]; /* the sources */
};

/*
 * Of a target whose sources all count if they are there. -ENOMEM. free: NULL is
 * allowed.
 */
int dfi__marks_open(
    struct dfi_target *target, bool are_there, uint32_t idle_after_ms);
void dfi__marks_free(struct target_marks *marks);

/* A source of an open flow has joined its seat. */
void dfi__marks_joined(struct target_marks *marks, uint32_t source);

/* The ring of a source that was held back is read again. */
void dfi__marks_resumed(struct target_marks *marks, uint32_t source);

/* A source's mark was taken: whether the watermark has risen. */
bool dfi__marks_marked(
    struct target_marks *marks, uint32_t source, uint64_t value);

/*
 * Whether it is time to look for idle sources. If so, it is time again once
 * dfi__marks_look_at() has found one that may be idle later.
 */
bool dfi__marks_are_due(struct target_marks *marks, int64_t now);

/*
 * Whether a source is found to be idle, and the watermark has risen by that. No
 * segment of it is lent.
 */
bool dfi__marks_look_at(struct dfi_target *target, uint32_t source,
    const struct reader *reader, int64_t now);

/* The same for all of a target that has the rings, if it is time. */
void dfi__marks_look(struct dfi_target *target);

/* The earlier of a deadline, and when to look for idle sources. */
static inline int64_t marks_deadline(
    const struct target_marks *marks, int64_t deadline)
{
	return unlikely(marks && marks->idle_due < deadline) ? marks->idle_due
							     : deadline;
}

/* A segment without tuples was taken from a source; it may be a mark. */
void dfi__marks_passed(struct dfi_target *target, uint32_t source);

/* A source has ended, and all that it sent was taken. */
void dfi__marks_ended(struct dfi_target *target, uint32_t source);

/*
 * The event that is next: 0. -EAGAIN, without a text: there is none. Taking it
 * is the caller's.
 */
int dfi__marks_event(struct dfi_target *target, struct dfi_event *event);

/* -ENOMSG, with a text. */
int dfi__marks_event_is_next(void);

#endif
