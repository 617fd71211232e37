/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an endpoint of an open flow puts another one out: M3 and "Eviction" in
 * docs/open-flows.md. Who evicts says so first, and looks once more when its
 * watch has shown that: it knows then what came before.
 */
#ifndef DFI_FLOWS_MEMBERS_EVICTION_H
#define DFI_FLOWS_MEMBERS_EVICTION_H

#include "seat_watch.h"

enum eviction_why {
	EVICTION_FULL = 1, /* a target's ring */
	EVICTION_MARK,     /* a source owed that of a table */
	EVICTION_RELEASE,  /* a target has not released partitions */
	EVICTION_TAKE,     /* ... or not taken them */
	EVICTION_WINDOW,   /* a source has not ended that of a combiner flow */
	EVICTION_VIEW,     /* it owed a flush or report to a view that ends */
	EVICTION_UNANSWERED, /* a target does not answer a source that ends */
	EVICTION_NO_MEMBER,  /* a target evicts itself: it lacks segments */
	EVICTION_NUMBER,     /* a target gives no numbers of its counter */
	EVICTION_BROKEN,     /* a target's connection with a source broke */
};

struct eviction {
	enum open_role role;
	uint32_t seat;
	uint64_t incarnation;
	enum eviction_why why;
	bool has_note; /* of begin(): it is this endpoint's */
};

/*
 * Evict the holder of a seat, if that is still this one. All endpoints hear of
 * it. -ETIMEDOUT and other errors of the registry.
 */
int dfi__evict(
    struct seat_watch *watch, struct eviction *eviction, int64_t deadline);

/*
 * The same in two steps. begin: write the note, and wait until the watch has
 * shown it. Then the caller looks whether the eviction is still due. end: also
 * if it is not. Errors of begin() leave nothing to end.
 */
int dfi__eviction_begin(
    struct seat_watch *watch, struct eviction *eviction, int64_t deadline);
int dfi__eviction_end(struct seat_watch *watch, struct eviction *eviction,
    bool is_due, int64_t deadline);

/*
 * A key of an eviction has changed; rest: its name behind the prefix. Under the
 * lock. False: it is none.
 */
bool dfi__eviction_see(struct seat_watch *watch, const char *rest,
    const struct registry_event *event);

/* Under the lock: whether that holder of a seat was evicted last. */
static inline bool eviction_was_of(const struct seat_watch *watch,
    enum open_role role, uint32_t seat, uint64_t incarnation)
{
	return watch->put_out[role][seat] == incarnation &&
	    watch->seats.seats[role][seat].holder.incarnation != incarnation;
}

/*
 * For the error of an endpoint whose seat was taken away: " by target 1: ...",
 * or what is known. Returns text.
 */
#define EVICTION_TEXT 256
const char *dfi__eviction_text(
    struct seat_watch *watch, char text[EVICTION_TEXT]);

#endif
