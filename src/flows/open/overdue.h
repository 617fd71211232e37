/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds up a hand-over for longer than its bound: "Eviction" in
 * docs/open-flows.md. A target asks from time to time, and evicts who is named.
 */
#ifndef DFI_FLOWS_OPEN_OVERDUE_H
#define DFI_FLOWS_OPEN_OVERDUE_H

#include "flows/open/target.h"

struct open_overdue {
	uint64_t table;
	int64_t since;    /* ns; when this table was seen first, */
	int64_t released; /* and when all its partitions were seen released */
	bool all_released;
};

/*
 * A source whose mark this target misses to release its partitions, from number
 * *source on. The caller evicts it if its ring is empty and has room, so that
 * nothing but the source itself keeps the mark; and asks for the next one.
 * limit: of one step of a hand-over.
 */
bool dfi__open_overdue_source(struct open_overdue *overdue,
    const struct keyed_target *target, int64_t now, int64_t limit,
    uint32_t *source);

/*
 * Another target that has not released in the time of two steps, marks and
 * release, or not taken in the time of one after all was released.
 */
bool dfi__open_overdue_target(struct open_overdue *overdue,
    const struct keyed_target *target, int64_t now, int64_t limit,
    uint32_t *seat);

#endif
