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
#include "base/error.h"
#include "buffers/reader.h"
#include "target.h"

int dfi__marks_open(struct dfi_target *target, bool are_there)
{
	uint32_t n_sources = target->flow.n_sources;
	struct target_marks *marks = calloc(
	    1, sizeof(*marks) + n_sources * sizeof(marks->of[0]));
	uint32_t i;

	if (!marks)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", target->flow.name);
	dfi__open_watermark_init(&marks->watermark, n_sources,
	    target->flags & DFI_ALIGN, false, 0, marks->of);
	for (i = 0; are_there && i < n_sources; i++)
		(void)dfi__open_watermark_join(&marks->watermark, i, 0);
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
		target->look_again = true;
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
	target->look_again = true;
}

void dfi__marks_passed(struct dfi_target *target, uint32_t source)
{
	struct reader *reader = &target->readers[source];
	bool risen;

	if (!reader->has_mark)
		return;
	reader->has_mark = false;
	risen = dfi__open_watermark_mark(
	    &target->marks->watermark, source, reader->marked, 0);
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

int dfi__marks_event(struct dfi_target *target, struct dfi_event *event)
{
	struct target_marks *marks = target->marks;

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
