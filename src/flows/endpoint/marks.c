/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target's watermark. Marks come between segments of tuples, so no look at a
 * segment of tuples is about marks.
 */
#include "marks.h"

#include <errno.h>
#include <stdlib.h>
#include <dfi/event.h>
#include <dfi/mark.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "buffers/reader.h"
#include "target.h"

void dfi__marks_free(struct target_marks *marks)
{
	if (marks)
		free(marks->seen);
	free(marks);
}

/* A source counts from now on, and may be idle at some time. */
static void look_soon(struct target_marks *marks)
{
	if (unlikely(marks->watermark.idle_ns))
		marks->idle_due = 0;
}

void dfi__marks_resumed(struct target_marks *marks, uint32_t source)
{
	/* No ring has had so many segments: something has come up to now. */
	marks->seen[source] = UINT64_MAX;
	look_soon(marks);
}

void dfi__marks_joined(struct target_marks *marks, uint32_t source)
{
	(void)dfi__open_watermark_join(&marks->watermark, source, 0);
	dfi__marks_resumed(marks, source);
}

bool dfi__marks_marked(
    struct target_marks *marks, uint32_t source, uint64_t value)
{
	bool risen = dfi__open_watermark_mark(
	    &marks->watermark, source, value, 0);

	look_soon(marks);
	return risen;
}

int dfi__marks_open(
    struct dfi_target *target, bool are_there, uint32_t idle_after_ms)
{
	uint32_t n_sources = target->flow.n_sources;
	struct target_marks *marks = calloc(
	    1, sizeof(*marks) + n_sources * sizeof(marks->of[0]));
	uint32_t i;

	if (marks)
		marks->seen = calloc(n_sources, sizeof(marks->seen[0]));
	if (!marks || !marks->seen) {
		dfi__marks_free(marks);
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", target->flow.name);
	}
	dfi__open_watermark_init(&marks->watermark, n_sources,
	    target->flags & DFI_ALIGN, target->flow.input_position != 0,
	    idle_after_ms * (int64_t)NS_PER_MS, marks->of);
	marks->idle_due = DEADLINE_NEVER;
	for (i = 0; are_there && i < n_sources; i++)
		dfi__marks_joined(marks, i);
	if (idle_after_ms)
		target->look_again |= LOOK_FOR_IDLE;
	marks->reports = target->flags & DFI_EVENTS;
	target->marks = marks;
	return 0;
}

static bool may_read_on(
    const struct dfi_target *target, const struct reader *reader)
{
	return open_watermark_may_take(
	    &target->marks->watermark, reader->marked, false);
}

/* Read on where the watermark has come to the ring's last mark. */
static void resume(struct dfi_target *target)
{
	struct reader *reader = target->readers;
	uint32_t i;

	for (i = 0; target->n_held && i < target->n_readers; i++, reader++) {
		if (!reader->held || !may_read_on(target, reader))
			continue;
		dfi__reader_resume(reader);
		target->n_held--;
		/* Its source may have ended, or be gone. */
		target->look_again |= LOOK_AT_SOURCES;
		dfi__marks_resumed(target->marks, i);
	}
}

static void rise(struct dfi_target *target)
{
	struct target_marks *marks = target->marks;

	resume(target);
	if (!marks->reports)
		return;
	marks->risen = true;
	/* The event comes before the next tuple. */
	target->look_again |= LOOK_AT_SOURCES;
}

void dfi__marks_passed(struct dfi_target *target, uint32_t source)
{
	struct reader *reader = &target->readers[source];
	bool risen;

	if (!reader->has_mark)
		return;
	reader->has_mark = false;
	risen = dfi__marks_marked(target->marks, source, reader->marked);
	if (!may_read_on(target, reader)) {
		dfi__reader_pause(reader);
		target->n_held++;
	}
	if (risen)
		rise(target);
}

void dfi__marks_ended(struct dfi_target *target, uint32_t source)
{
	if (dfi__open_watermark_ended(&target->marks->watermark, source))
		rise(target);
}

/* ---- Idle sources ------------------------------------------------------- */

/*
 * A target looks at its sources so often in the time after which one is idle.
 * So taking segments costs no more than the clock.
 */
#define IDLE_LOOKS 4

bool dfi__marks_are_due(struct target_marks *marks, int64_t now)
{
	if (now < marks->idle_due)
		return false;
	marks->idle_due = DEADLINE_NEVER;
	return true;
}

bool dfi__marks_look_at(struct dfi_target *target, uint32_t source,
    const struct reader *reader, int64_t now)
{
	struct target_marks *marks = target->marks;
	struct open_marker *marker = &marks->of[source];
	bool risen;

	/* One that is held back is ahead. */
	if (marker->state != OPEN_MARKER_COUNTS || reader->held)
		return false;
	if (reader_ready(reader) || marks->seen[source] != reader->seq) {
		marks->seen[source] = reader->seq;
		marker->quiet_since = now;
	}
	risen = dfi__open_watermark_quiet(&marks->watermark, source, now);
	if (marker->state == OPEN_MARKER_COUNTS)
		marks->idle_due = now + marks->watermark.idle_ns / IDLE_LOOKS;
	else
		dfi__log(DFI_LOG_INFO,
		    "flow '%s': %s %u: source %u is idle: the watermark does "
		    "not wait for it",
		    target->flow.name, TARGET_ID(target), source);
	return risen;
}

void dfi__marks_look(struct dfi_target *target)
{
	int64_t now = clock_now_ns();
	uint32_t i;

	if (!dfi__marks_are_due(target->marks, now))
		return;
	for (i = 0; i < target->n_readers; i++)
		if (dfi__marks_look_at(target, i, &target->readers[i], now))
			rise(target);
}

int dfi_target_late(const struct dfi_target *target)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (ret < 0)
		return ret;
	return target->marks && atomic_peek(&target->segments) &&
	    open_watermark_is_late(
		&target->marks->watermark, target->head.source);
}

/* ---- Events and questions ----------------------------------------------- */

int dfi__marks_event(struct dfi_target *target, struct dfi_event *event)
{
	struct target_marks *marks = target->marks;

	if (marks->has_gap) {
		marks->has_gap = false;
		*event = (struct dfi_event){
			.type = DFI_GAP,
			.seat = target->gap.source,
			.value = target->gap.count,
		};
		return 0;
	}
	if (!marks->risen)
		return -EAGAIN;
	marks->risen = false;
	*event = (struct dfi_event){
		.type = DFI_MARK,
		.value = marks->watermark.value,
	};
	return 0;
}

int dfi__marks_event_is_next(void)
{
	return dfi__fail_text(
	    -ENOMSG, "an event is next: take it (dfi_target_event())");
}

static int bad_output(const struct dfi_target *target, const char *call)
{
	return dfi__fail(-EINVAL, "flow '%s': %s %u: %s is NULL",
	    target->flow.name, TARGET_ID(target), call);
}

int dfi_target_event(struct dfi_target *target, struct dfi_event *event)
{
	TARGET_CALL(target, TARGET_SHARED(target));
	int ret = target_check(target);

	if (ret < 0)
		return ret;
	if (!event)
		return bad_output(target, "dfi_target_event: event");
	if (!(target->flags & DFI_EVENTS))
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: has no events: open it with DFI_EVENTS",
		    target->flow.name, TARGET_ID(target));
	ret = target_take_event(target, event);
	return ret < 0 ? dfi__fail_text(-EAGAIN, "no event is next") : 0;
}

int dfi_target_watermark(const struct dfi_target *target, uint64_t *value)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (ret < 0)
		return ret;
	if (!value)
		return bad_output(target, "dfi_target_watermark: value");
	*value = target_watermark(target);
	return 0;
}
