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
