/* SPDX-License-Identifier: Apache-2.0 */
/* How a target of an open flow fails, once it has consumed what has come. */
#include "open_target.h"

#include <stdio.h>
#include "base/error.h"

/* Note where each ring ends for a target that has failed; see intake.c. */
static void stop_rings(struct open_target *open)
{
	struct reader *reader;
	uint32_t i;

	for (i = 0; i < open->n_taken; i++) {
		reader = &open->taken[i].end->readers[0];
		reader->stop = dfi__reader_arrived(reader);
	}
}

void dfi__open_target_fail_later(
    struct dfi_target *target, int err, const char *text)
{
	if (target->lost)
		return;
	target->lost = err;
	snprintf(target->status_text, sizeof(target->status_text), "%s", text);
	stop_rings(open_target(target));
}

/* Who has evicted it, for error texts, or "". */
static const char *evictor(struct open_target *open, char text[32])
{
	struct seat_watch *seats = &open->pairs.seats;

	text[0] = '\0';
	pthread_mutex_lock(&seats->lock);
	if (seats->has_evictor)
		snprintf(text, 32, " by source %u", seats->evictor);
	pthread_mutex_unlock(&seats->lock);
	return text;
}

void dfi__open_target_put_out(struct dfi_target *target)
{
	char text[32];
	const char *by = evictor(open_target(target), text);
	int err;

	if (!target->flow.evict_after_ms)
		err = dfi__fail(-ESTALE,
		    "flow '%s': %s %u: its seat was taken away: its key in "
		    "the registry is gone",
		    target->flow.name, TARGET_ID(target));
	else
		err = dfi__fail(-ESTALE,
		    "flow '%s': %s %u was evicted%s: its ring stayed full for "
		    "%u ms (open.evict_after_ms)%s: open it again, and get "
		    "from elsewhere what it has missed",
		    target->flow.name, TARGET_ID(target), by,
		    target->flow.evict_after_ms,
		    by[0] ? "" : ", or its lease has ended (DFI_LEASE)");
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
	for (i = 0; i < open->n_taken; i++) {
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
