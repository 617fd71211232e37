/* SPDX-License-Identifier: Apache-2.0 */
/* Views as the registry reports them. */
#include <stdlib.h>

#include "flows/open/bytes.h"
#include "flows/open/views.h"

static void free_note(struct open_note *note)
{
	free(note->report.shares);
}

/* Notes of views that are over. */
static void drop_old(struct open_views *views)
{
	uint32_t i, n = 0;

	for (i = 0; i < views->n_notes; i++) {
		if (views->notes[i].view < views->newest.number)
			free_note(&views->notes[i]);
		else
			views->notes[n++] = views->notes[i];
	}
	views->n_notes = n;
}

static void see_view(struct open_views *views, uint64_t number,
    const uint8_t *value, size_t size)
{
	struct open_view view;

	if (number <= views->newest.number ||
	    !dfi__open_view_decode(value, size, &view))
		return;
	dfi__open_view_free(&views->newest);
	views->newest = view;
	views->newest.number = number;
	drop_old(views);
}

static bool read_note(struct open_note *note, const uint8_t *value, size_t size)
{
	if (note->kind == OPEN_KEY_REPORT)
		return dfi__open_report_decode(value, size, &note->report);
	if (size != sizeof(note->end))
		return false;
	note->end = open_get_number(value, sizeof(note->end));
	return true;
}

/* The slot for a note: that of an earlier one, or a new one; NULL: no memory.
 */
static struct open_note *slot_for(
    struct open_views *views, const struct open_note *note)
{
	struct open_note *notes;
	uint32_t i, room = 2 * views->room + 8;

	for (i = 0; i < views->n_notes; i++) {
		notes = &views->notes[i];
		if (notes->kind == note->kind && notes->view == note->view &&
		    notes->incarnation == note->incarnation) {
			free_note(notes);
			return notes;
		}
	}
	if (views->n_notes == views->room) {
		notes = reallocarray(views->notes, room, sizeof(*notes));
		if (!notes)
			return NULL;
		views->notes = notes;
		views->room = room;
	}
	return &views->notes[views->n_notes++];
}

static void see_note(struct open_views *views, const struct open_key *key,
    const uint8_t *value, size_t size)
{
	struct open_note *slot,
	    note = {
		    .kind = key->kind,
		    .view = key->number,
		    .incarnation = key->incarnation,
	    };

	if (key->number < views->newest.number ||
	    !read_note(&note, value, size))
		return;
	slot = slot_for(views, &note);
	if (slot)
		*slot = note;
	else
		free_note(&note);
}

void dfi__open_views_see(struct open_views *views, const struct open_key *key,
    const uint8_t *value, size_t size, uint64_t revision)
{
	if (key->kind == OPEN_KEY_VIEW) {
		see_view(views, key->number, value, size);
	} else if (key->kind == OPEN_KEY_CUT && key->number > views->cut) {
		views->cut = key->number;
		views->cut_revision = revision;
	} else if (key->kind == OPEN_KEY_FLUSH ||
	    key->kind == OPEN_KEY_REPORT) {
		see_note(views, key, value, size);
	}
}

void dfi__open_views_free(struct open_views *views)
{
	uint32_t i;

	for (i = 0; i < views->n_notes; i++)
		free_note(&views->notes[i]);
	free(views->notes);
	dfi__open_view_free(&views->newest);
}

const struct open_note *dfi__open_views_note(const struct open_views *views,
    enum open_key_kind kind, uint64_t incarnation)
{
	uint32_t i;

	for (i = 0; i < views->n_notes; i++)
		if (views->notes[i].kind == kind &&
		    views->notes[i].view == views->newest.number &&
		    views->notes[i].incarnation == incarnation)
			return &views->notes[i];
	return NULL;
}

/* ---- The end of the newest view ----------------------------------------- */

bool dfi__open_views_has_holder(
    const struct open_views *views, const struct open_seats *seats)
{
	uint32_t i;

	for (i = 0; i < seats->n[OPEN_TARGET]; i++)
		if (open_seat_is(seats, OPEN_TARGET, i, views->newest.holder))
			return true;
	return false;
}

bool dfi__open_views_is_over(
    const struct open_views *views, const struct open_seats *seats)
{
	return open_views_is_cut(views) ||
	    !dfi__open_views_has_holder(views, seats);
}

bool dfi__open_views_asks(const struct open_views *views,
    const struct open_seats *seats, enum open_role role, uint32_t seat)
{
	const struct open_seat *at = &seats->seats[role][seat];

	return at->holder.incarnation && at->revision < views->cut_revision;
}

const struct open_note *dfi__open_views_answer(const struct open_views *views,
    const struct open_seats *seats, enum open_role role, uint32_t seat)
{
	return dfi__open_views_note(views,
	    role == OPEN_SOURCE ? OPEN_KEY_FLUSH : OPEN_KEY_REPORT,
	    seats->seats[role][seat].holder.incarnation);
}

uint32_t dfi__open_views_debtor(const struct open_views *views,
    const struct open_seats *seats, enum open_role role, uint32_t from)
{
	while (from < seats->n[role] &&
	    (!dfi__open_views_asks(views, seats, role, from) ||
		dfi__open_views_answer(views, seats, role, from)))
		from++;
	return from;
}

bool dfi__open_views_decide(const struct open_views *views,
    const struct open_seats *seats, struct open_view *view)
{
	uint32_t i, n = 0, n_targets = seats->n[OPEN_TARGET];
	const struct open_note *note;
	struct open_reporter *reporters;
	bool decided;

	reporters = calloc((size_t)n_targets + 1, sizeof(*reporters));
	for (i = 0; reporters && i < n_targets; i++) {
		if (!dfi__open_views_asks(views, seats, OPEN_TARGET, i))
			continue;
		note = dfi__open_views_answer(views, seats, OPEN_TARGET, i);
		if (note)
			reporters[n++] = (struct open_reporter){
				.target = note->incarnation,
				.report = note->report,
			};
	}
	decided = reporters && dfi__open_view_decide(reporters, n, view);
	free(reporters);
	return decided;
}

bool dfi__open_views_needs(const struct open_views *views,
    const struct open_seats *seats, uint32_t target)
{
	const struct open_seat *at = &seats->seats[OPEN_TARGET][target];
	uint64_t holder = at->holder.incarnation;

	return holder &&
	    (at->revision <= seats->begun ||
		dfi__open_view_has(&views->newest, holder));
}
