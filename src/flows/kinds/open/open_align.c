/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a target of an open flow aligns the marks of its sources: it pauses the
 * rings of those that are ahead (K4). And how it finds those that are idle
 * (K3).
 */
#include "open_target.h"

#include "base/clock.h"

static bool may_take(const struct open_target *open, const struct taken *taken)
{
	return open_watermark_may_take(&open->target->marks->watermark,
	    taken->end->readers[0].marked, taken->followed);
}

void dfi__open_resume(struct open_target *open)
{
	struct dfi_target *end;
	uint32_t i;

	if (!open->target->marks)
		return;
	for (i = 0; i < open_n_taken(open); i++) {
		end = open->taken[i].end;
		if (likely(!end->readers[0].held) ||
		    !may_take(open, &open->taken[i]))
			continue;
		dfi__reader_resume(&end->readers[0]);
		/* Its source may have ended, or be gone. */
		end->look_again |= LOOK_AT_SOURCES;
		dfi__marks_resumed(open->target->marks, open->taken[i].seat);
	}
}

void dfi__open_risen(struct open_target *open)
{
	dfi__open_add_mark(open);
	dfi__open_resume(open);
}

bool dfi__open_may_read_on(struct open_target *open, const struct taken *taken)
{
	if (may_take(open, taken))
		return true;
	dfi__reader_pause(&taken->end->readers[0]);
	return false;
}

void dfi__open_look_for_idle(struct open_target *open)
{
	struct dfi_target *target = open->target;
	int64_t now = clock_now_ns();
	const struct taken *taken;
	uint32_t i;

	if (!dfi__marks_are_due(target->marks, now))
		return;
	for (i = 0; i < open_n_taken(open); i++) {
		taken = &open->taken[i];
		if (dfi__marks_look_at(
			target, taken->seat, &taken->end->readers[0], now))
			dfi__open_risen(open);
	}
}
