/* SPDX-License-Identifier: Apache-2.0 */
/* How a target of an open flow fails, once it has consumed what has come. */
#include "open_target.h"

#include <stdio.h>
#include "base/error.h"
#include "flows/members/eviction.h"

/* Note where each ring ends for a target that has failed; see intake.c. */
static void stop_rings(struct open_target *open)
{
	struct reader *reader;
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++) {
		reader = &open->taken[i].end->readers[0];
		reader->stop = dfi__reader_arrived(reader);
	}
}

void dfi__open_target_fail_later(
    struct dfi_target *target, int err, const char *text)
{
	if (target_lost(target))
		return;
	snprintf(target->status_text, sizeof(target->status_text), "%s", text);
	stop_rings(open_target(target));
	/* Last, as the helper may do this while the owner looks. */
	atomic_publish(&target->lost, err);
}

void dfi__open_target_put_out(struct dfi_target *target)
{
	char text[EVICTION_TEXT];
	int err = dfi__fail(-ESTALE,
	    "flow '%s': %s %u %s, and get from elsewhere what it has missed",
	    target->flow.name, TARGET_ID(target),
	    dfi__eviction_text(&open_target(target)->pairs.seats, text));

	dfi__open_target_fail_later(target, err, dfi_errmsg());
}

void dfi__open_target_return_all(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	bool whole = target->head.next == target->head.end &&
	    !target->lends_batch && !target->cursor_open;
	struct dfi_target *end;
	uint32_t i;

	if (target->flow.input_position)
		return;
	for (i = 0; i < open_n_taken(open); i++) {
		end = open->taken[i].end;
		(void)dfi__reader_return_last(
		    &end->readers[0], end->lends_segment && !whole);
	}
}

int dfi_target_seat(const struct dfi_target *target)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	return ret < 0 ? ret : (int)target->index;
}
