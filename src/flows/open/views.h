/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an endpoint knows of the views of an ordered flow: the newest one,
 * whether it is cut, and who has flushed and reported. Give it the changes of
 * the keys of these, in any order. What is known stays known, whatever becomes
 * of its key.
 */
#ifndef DFI_FLOWS_OPEN_VIEWS_H
#define DFI_FLOWS_OPEN_VIEWS_H

#include "flows/open/keys.h"
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

#endif
