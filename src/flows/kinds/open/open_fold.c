/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target of an open combiner flow folds what its rings bring. A source whose
 * mark is above the window is held back until all others have got there. So who
 * has joined by then counts, and where each of them stands is the application's
 * value, the same at all targets.
 */
#include "open_target.h"

#include <dfi/mark.h>
#include <dfi/open_flow.h>
#include "base/bits.h"
#include "flows/kinds/combine/combine.h"
#include "open.h"

void dfi__open_fold_mark(struct dfi_target *target, struct taken *taken)
{
	struct open_target *open = open_target(target);
	struct reader *reader = &taken->end->readers[0];

	taken->mark = reader->marked;
	/* One that has joined behind the others goes on. */
	if (taken->mark <= target->combiner->window || taken->held)
		return;
	dfi__reader_pause(reader);
	taken->held = true;
	open->n_held++;
}

void dfi__open_fold_release(struct open_target *open, struct taken *taken)
{
	if (!taken->held)
		return;
	dfi__reader_resume(&taken->end->readers[0]);
	taken->held = false;
	open->n_held--;
}

void dfi__open_fold_lose(struct dfi_target *target)
{
	target->combiner->flags |= DFI_WINDOW_LOST;
}

uint64_t dfi__open_fold_watermark(const struct dfi_target *target)
{
	return target->combiner->mark;
}

bool dfi__open_fold_is_whole(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	struct seat_watch *seats = &open->pairs.seats;
	bool comes;

	if (!open_n_taken(open) || open->n_held != open_n_taken(open))
		return false;
	/* Its source may be open already, and have told the others so. */
	pthread_mutex_lock(&seats->lock);
	comes = dfi__pairs_are_coming(&open->pairs);
	pthread_mutex_unlock(&seats->lock);
	return !comes;
}

/* The ring of the head's segment. */
static struct taken *in_work(const struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	uint32_t i = open->current;

	if (i < open_n_taken(open) &&
	    open->taken[i].seat == target->head.source)
		return &open->taken[i];
	for (i = 0; open->taken[i].seat != target->head.source;)
		i++;
	return &open->taken[i];
}

static int next(struct dfi_target *target)
{
	int ret = dfi__open_target_next(target);

	if (ret > 0 && in_work(target)->mark < target->combiner->window)
		target->combiner->flags |= DFI_WINDOW_LATE;
	return ret;
}

static const struct ring_geometry *geometry(const struct dfi_target *target)
{
	return &in_work(target)->end->readers[0].geometry;
}

/* The segment is that of a pair's target, which keeps it until the next. */
static void lend(struct dfi_target *target, bool lends)
{
	(void)target;
	(void)lends;
}

static void folded(struct dfi_target *target)
{
	struct taken *taken = in_work(target);

	if (taken->end->readers[0].marked != taken->mark)
		dfi__open_fold_mark(target, taken);
}

static uint64_t least_mark(const struct dfi_target *target)
{
	const struct open_target *open = open_target(target);
	uint64_t least = DFI_NO_MARK;
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++)
		least = min_u64(least, open->taken[i].mark);
	return least;
}

static void resume(struct dfi_target *target, uint64_t mark)
{
	struct open_target *open = open_target(target);
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++) {
		if (!open->taken[i].held || open->taken[i].mark > mark)
			continue;
		dfi__open_fold_release(open, &open->taken[i]);
		/* Its source may have gone meanwhile. */
		open->taken[i].end->look_again |= LOOK_AT_SOURCES;
	}
}

const struct combine_intake dfi__open_fold_intake = {
	.segment = next,
	.geometry = geometry,
	.lend = lend,
	.folded = folded,
	.window_end = least_mark,
	.begin_window = resume,
};
