/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of an open flow with partitions: "tables/", "hand/" and "assign"
 * (H1 to H7 of docs/open-flows.md). A seat watch (seat_watch.h) feeds
 * watch->tables with them, in the order of the registry's changes.
 */
#ifndef DFI_FLOWS_MEMBERS_TABLES_WATCH_H
#define DFI_FLOWS_MEMBERS_TABLES_WATCH_H

#include "seat_watch.h"

struct open_key;
struct registry_event;

/*
 * Reserve watch->tables if the flow has partitions, and watch->resume if it
 * has replay; true: no memory.
 */
bool dfi__tables_watch_new(struct seat_watch *watch);

/* A key has changed. Under the lock. */
void dfi__tables_watch_see(struct seat_watch *watch, const struct open_key *key,
    const struct registry_event *event);

/*
 * Before the seat is given back: whether the flow is finished. Then tables are
 * of no use for those who come later, and forget(), behind the seat, deletes
 * them if nobody else is attached. Without a registry they stay.
 */
bool dfi__tables_watch_leave(struct seat_watch *watch);
void dfi__tables_watch_forget(struct seat_watch *watch);

/*
 * For the helper of a target, without the lock: create the next table if one is
 * due, and delete those before. *cleaned: the newest table of which that was
 * done. 0, or -EAGAIN: the registry has not answered, so try again.
 */
int dfi__tables_watch_propose(struct seat_watch *watch, uint64_t *cleaned);

/* Say that this target takes no more partitions. The same errors. */
int dfi__tables_watch_will_leave(struct seat_watch *watch);

/* Publish what this target has released and taken. The same errors. */
int dfi__tables_watch_hand(
    struct seat_watch *watch, const struct open_hand *hand);

/*
 * Publish what this target has acknowledged of a source: size bytes of
 * dfi__open_positions_encode(), or without keys of dfi__open_low_encode(). The
 * same errors. withdraw: it closes.
 */
int dfi__tables_watch_positions(struct seat_watch *watch, uint32_t source,
    const uint8_t *bytes, size_t size);
void dfi__tables_watch_withdraw(struct seat_watch *watch, uint32_t source);

/* Say that the source that was lost in this seat does not return (R7). The same
 * errors. */
int dfi__tables_watch_give_up(struct seat_watch *watch, uint32_t source);

#endif
