/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an endpoint knows of the views of an ordered flow: the newest one,
 * whether it is cut, and who has flushed and reported. Give it the changes of
 * the keys of these, in any order. What is known stays known, whatever becomes
 * of its key.
 */
#ifndef DFI_FLOWS_OPEN_VIEWS_H
#define DFI_FLOWS_OPEN_VIEWS_H

#include "flows/open/bugs.h"
#include "flows/open/keys.h"
#include "flows/open/seats.h"
#include "flows/open/view.h"

/* That somebody has flushed or reported. */
struct open_note {
	enum open_key_kind kind; /* OPEN_KEY_FLUSH, OPEN_KEY_REPORT */
	uint64_t view, incarnation;
	uint64_t end;              /* of a flush */
	struct open_report report; /* of a report */
};

struct open_views {
	struct open_view newest; /* number 0: there is none */
	uint64_t cut;            /* the number of the newest cut, or 0 */
	uint64_t cut_revision;
	struct open_note *notes;
	uint32_t n_notes, room;
};

/* A key was set; others than those of views are ignored. */
void dfi__open_views_see(struct open_views *views, const struct open_key *key,
    const uint8_t *value, size_t size, uint64_t revision);

void dfi__open_views_free(struct open_views *views);

/* Whether the newest view has ended. */
static inline bool open_views_is_cut(const struct open_views *views)
{
	return views->newest.number && views->cut == views->newest.number;
}

/* What that endpoint has noted at the end of the newest view, or NULL. */
const struct open_note *dfi__open_views_note(const struct open_views *views,
    enum open_key_kind kind, uint64_t incarnation);

/* ---- The end of the newest view ----------------------------------------- */

/* Whether the holder of its counter is attached. */
bool dfi__open_views_has_holder(
    const struct open_views *views, const struct open_seats *seats);

/*
 * Whether it has ended, or is about to, as its holder is gone. A target that
 * has come since then has no part in it, and gets nothing of it.
 */
bool dfi__open_views_is_over(
    const struct open_views *views, const struct open_seats *seats);

/* Whether this endpoint has a part in its end. */
static inline bool open_views_has_part(
    const struct open_views *views, const struct open_seats *seats)
{
	return open_views_is_cut(views) && seats->begun < views->cut_revision;
}

/* Whether the holder of a seat has. */
bool dfi__open_views_asks(const struct open_views *views,
    const struct open_seats *seats, enum open_role role, uint32_t seat);

/* That it has done it: a source has flushed, a target reported; or NULL. */
const struct open_note *dfi__open_views_answer(const struct open_views *views,
    const struct open_seats *seats, enum open_role role, uint32_t seat);

/* The first seat from there on that owes its part, or how many there are. */
uint32_t dfi__open_views_debtor(const struct open_views *views,
    const struct open_seats *seats, enum open_role role, uint32_t from);

/*
 * O4: what follows from the reports of all that are attached, if none of them
 * owes one. Sets members and kept of view. False: no memory.
 */
bool dfi__open_views_decide(const struct open_views *views,
    const struct open_seats *seats, struct open_view *view);

/*
 * Whether a source needs a ring of the target in a seat before it takes a
 * number. One that has come later, and is no member, learns from a mark where
 * it begins (J1).
 */
bool dfi__open_views_needs(const struct open_views *views,
    const struct open_seats *seats, uint32_t target);

#endif
