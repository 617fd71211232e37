/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds which seat: who joins, changes and goes, from changes in order. */
#include <string.h>

#include "flows/open/seats.h"

void dfi__open_seats_init(struct open_seats *seats, uint32_t n_sources,
    uint32_t n_targets, struct open_seat *memory)
{
	memset(seats, 0, sizeof(*seats));
	memset(memory, 0, (n_sources + (size_t)n_targets) * sizeof(*memory));
	seats->seats[OPEN_SOURCE] = memory;
	seats->seats[OPEN_TARGET] = memory + n_sources;
	seats->n[OPEN_SOURCE] = n_sources;
	seats->n[OPEN_TARGET] = n_targets;
}

void dfi__open_seats_set_own(struct open_seats *seats, enum open_role role,
    uint32_t seat, uint64_t incarnation)
{
	seats->own_role = role;
	seats->own_seat = seat;
	seats->own_incarnation = incarnation;
}

static bool is_own(const struct open_seats *seats, enum open_role role,
    uint32_t seat, uint64_t incarnation)
{
	return role == seats->own_role && seat == seats->own_seat &&
	    incarnation == seats->own_incarnation;
}

static void add(struct open_events *events, enum open_event_type type,
    enum open_role role, uint32_t seat, uint64_t incarnation)
{
	struct open_event *event = &events->event[events->n++];

	event->type = type;
	event->role = role;
	event->seat = seat;
	event->incarnation = incarnation;
}

static void leave(struct open_seats *seats, enum open_role role, uint32_t seat,
    struct open_events *events)
{
	struct open_seat *at = &seats->seats[role][seat];
	uint64_t incarnation = at->holder.incarnation;
	bool done = at->holder.done;

	if (!incarnation)
		return;
	memset(&at->holder, 0, sizeof(at->holder));
	at->revision = 0;
	seats->n_attached[role]--;
	if (is_own(seats, role, seat, incarnation)) {
		seats->evicted = true;
		add(events, OPEN_EVICTED, role, seat, incarnation);
	} else {
		add(events, done ? OPEN_ENDED : OPEN_LOST, role, seat,
		    incarnation);
	}
}

static void join(struct open_seats *seats, enum open_role role, uint32_t seat,
    const struct open_holder *holder, uint64_t revision,
    struct open_events *events)
{
	struct open_seat *at = &seats->seats[role][seat];
	bool own = is_own(seats, role, seat, holder->incarnation);

	at->holder = *holder;
	at->revision = at->taken = revision;
	at->given_up = false;
	seats->n_attached[role]++;
	if (own)
		seats->begun = revision;
	add(events, own ? OPEN_BEGUN : OPEN_JOINED, role, seat,
	    holder->incarnation);
}

void dfi__open_seats_put(struct open_seats *seats, enum open_role role,
    uint32_t seat, const struct open_holder *holder, uint64_t revision,
    struct open_events *events)
{
	struct open_holder *last = &seats->seats[role][seat].holder;

	events->n = 0;
	if (last->incarnation == holder->incarnation) {
		*last = *holder;
		add(events, OPEN_CHANGED, role, seat, holder->incarnation);
		return;
	}
	leave(seats, role, seat, events);
	join(seats, role, seat, holder, revision, events);
}

void dfi__open_seats_give_up(
    struct open_seats *seats, uint32_t source, uint64_t revision)
{
	struct open_seat *at = &seats->seats[OPEN_SOURCE][source];

	if (!at->holder.incarnation && revision > at->taken)
		at->given_up = true;
}

void dfi__open_seats_delete(struct open_seats *seats, enum open_role role,
    uint32_t seat, struct open_events *events)
{
	events->n = 0;
	leave(seats, role, seat, events);
}

void dfi__open_seats_will_leave(
    struct open_seats *seats, uint32_t seat, uint64_t incarnation)
{
	if (open_seat_is(seats, OPEN_TARGET, seat, incarnation))
		seats->seats[OPEN_TARGET][seat].holder.leaving = true;
}
