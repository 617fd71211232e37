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
#include "flows/open/watermark.h"

struct dfi_event;
struct dfi_target;

struct target_marks {
	struct open_watermark watermark;
	bool reports; /* the target was opened with DFI_EVENTS */
	bool risen;   /* the watermark has, and no event has told it yet */
	struct open_marker of[]; /* the sources */
};

/*
 * Of a target with this many sources, all of which count if they are there:
 * -ENOMEM.
 */
int dfi__marks_open(struct dfi_target *target, bool are_there);

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
