/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds up a hand-over for longer than its bound: "Eviction" in
 * docs/open-flows.md. A target asks from time to time, and evicts who is named.
 * If it asks late, as it was stopped itself, the time between counts as a
 * look's only.
 */
#ifndef DFI_FLOWS_OPEN_OVERDUE_H
#define DFI_FLOWS_OPEN_OVERDUE_H

#include "flows/open/target.h"

struct open_overdue {
	uint64_t table;
	int64_t looked;   /* ns; the last look */
	int64_t since;    /* when this table was seen first, */
	int64_t released; /* and when all its partitions were seen released */
	bool all_released;
};

/* Who waits looks so often in a limit, and counts no time more. */
#define OPEN_OVERDUE_LOOKS 4

/* What has passed by now says nothing of others: they get all the time anew. */
void dfi__open_overdue_restart(struct open_overdue *overdue, int64_t now);

/*
 * A source whose mark this target misses to release its partitions, from number
 * *source on. The caller evicts it if its ring is empty and has room, so that
 * nothing but the source itself keeps the mark; and asks for the next one.
 * limit: evict_after_ms, of which a source has half, as the release comes
 * behind it.
 */
bool dfi__open_overdue_source(struct open_overdue *overdue,
    const struct keyed_target *target, int64_t now, int64_t limit,
    uint32_t *source);

/*
 * Whether that target keeps the newest table from being settled: it has
 * partitions to release, or to take of which all are released.
 */
bool dfi__open_holds_up(const struct open_tables *tables,
    const struct open_seats *seats, uint32_t seat);

/*
 * Another target that has not released in that time (*releases: true), or not
 * taken in it after all was released.
 */
bool dfi__open_overdue_target(struct open_overdue *overdue,
    const struct keyed_target *target, int64_t now, int64_t limit,
    uint32_t *seat, bool *releases);

#endif
