/* SPDX-License-Identifier: Apache-2.0 */
/* The events that the owner of an open target has not taken yet. */
#include "open_target.h"

#include "base/error.h"

/* In an ordered flow a seat's next pair is taken beside the one before. */
static uint32_t room(const struct open_target *open)
{
	return open->pairs.seats.n_others * OPEN_SEAT_EVENTS *
	    (open->order ? SEAT_PAIRS : 1);
}

static struct dfi_event *event_at(const struct open_target *open, uint32_t n)
{
	return &open->events[(open->first_event + n) % room(open)];
}

static void push_event(struct open_target *open, const struct dfi_event *event)
{
	if (open->events && open->n_events < room(open))
		*event_at(open, open->n_events++) = *event;
}

void dfi__open_add_event(struct open_target *open, uint32_t type,
    const struct taken *taken, uint64_t value)
{
	if (taken->joined)
		push_event(open,
		    &(struct dfi_event){
			.type = type,
			.seat = taken->seat,
			.incarnation = taken->pair->incarnation,
			.value = value,
		    });
}

void dfi__open_add_given_up(
    struct open_target *open, uint32_t seat, uint64_t incarnation)
{
	push_event(open,
	    &(struct dfi_event){
		.type = DFI_GIVEN_UP,
		.seat = seat,
		.incarnation = incarnation,
	    });
}

bool dfi__open_add_gap(struct open_target *open, uint64_t position)
{
	push_event(open,
	    &(struct dfi_event){
		.type = DFI_GAP,
		.seat = DFI_ANY_SEAT,
		.value = position,
	    });
	return open->events;
}

int dfi__open_take_gap(struct dfi_target *target, const struct taken *taken)
{
	struct open_target *open = open_target(target);
	const struct dfi_gap *gap = &taken->end->gap;

	owned_add(&target->gaps, 1);
	owned_add(&target->lost_segments, gap->count);
	target->has_gap = true;
	target->gap = (struct dfi_gap){
		/* J1's mark came first. */
		.first = gap->first - 1,
		.count = gap->count,
		.source = taken->seat,
	};
	if (open->events) {
		dfi__open_add_event(open, DFI_GAP, taken, gap->count);
		return dfi__marks_event_is_next();
	}
	return dfi__fail(-ENODATA,
	    "flow '%s': %s %u: %u segments of source %u, from number %lu on, "
	    "were lost on the network: the flow goes on behind them, as its "
	    "loss_policy says",
	    target->flow.name, TARGET_ID(target), gap->count, taken->seat,
	    (unsigned long)target->gap.first);
}

void dfi__open_add_mark(struct open_target *open)
{
	const struct open_watermark *watermark =
	    &open->target->marks->watermark;
	struct dfi_event event = {
		.type = DFI_MARK,
		.value = watermark->value,
		.flags = watermark->align &&
			!open_watermark_is_barrier(watermark)
		    ? DFI_NO_BARRIER
		    : 0,
	};

	/* Nothing came between this rise and the last one. */
	if (open->n_events &&
	    event_at(open, open->n_events - 1)->type == DFI_MARK)
		*event_at(open, open->n_events - 1) = event;
	else
		push_event(open, &event);
}

struct dfi_event dfi__open_pop_event(struct open_target *open)
{
	struct dfi_event event = *event_at(open, 0);

	open->n_events--;
	open->first_event = (open->first_event + 1) % room(open);
	return event;
}
