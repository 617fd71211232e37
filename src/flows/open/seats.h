/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds which seat of an open flow, as one endpoint knows it: M1 to M3 of
 * docs/open-flows.md. Give it the changes of all "sources/" and "targets/" keys
 * of the flow in the order in which the watch reports them.
 */
#ifndef DFI_FLOWS_OPEN_SEATS_H
#define DFI_FLOWS_OPEN_SEATS_H

#include <stdbool.h>
#include <stdint.h>

enum open_role {
	OPEN_SOURCE = 0,
	OPEN_TARGET,
};
#define OPEN_ROLES 2

/* What the key of a seat says about its holder. */
struct open_holder {
	uint64_t incarnation; /* not 0 */
	bool done; /* a source that has ended; a target that has received all */
	/* Of targets only: */
	uint64_t store_epoch; /* the highest that its store knows */
	bool leaving;         /* it takes no more partitions */
};

struct open_seat {
	struct open_holder holder; /* incarnation 0: nobody */
	uint64_t revision;         /* of the change by which it took the seat */
	uint64_t taken;            /* the same of the last one who did */
	bool given_up;             /* who held it last does not return (R7) */
};

struct open_seats {
	struct open_seat *seats[OPEN_ROLES];
	uint32_t n[OPEN_ROLES];
	uint32_t n_attached[OPEN_ROLES];
	enum open_role own_role;
	uint32_t own_seat;
	uint64_t own_incarnation;
	uint64_t begun; /* the revision of the own key; 0: not shown yet */
	bool evicted;   /* the own key is gone */
};

/* What a change means for this endpoint. */
enum open_event_type {
	OPEN_JOINED = 1, /* seat has a new holder */
	OPEN_CHANGED,    /* its holder leaves, or its store knows more */
	OPEN_ENDED,      /* a holder is gone that had said that it is done */
	OPEN_LOST,       /* any other holder is gone */
	/*
	 * The watch has shown the own key: all that came before is known, and
	 * others count this endpoint in what comes behind.
	 */
	OPEN_BEGUN,
	OPEN_EVICTED, /* the own key is gone: calls return -ESTALE */
};

struct open_event {
	enum open_event_type type;
	enum open_role role;
	uint32_t seat;
	uint64_t incarnation;
};

/* A seat that passes from one holder to another makes two. */
struct open_events {
	uint32_t n;
	struct open_event event[2];
};

/*
 * Nobody is attached. memory: n_sources + n_targets seats, which must outlive
 * seats.
 */
void dfi__open_seats_init(struct open_seats *seats, uint32_t n_sources,
    uint32_t n_targets, struct open_seat *memory);

/* Say who this endpoint is, before its own key is given to put(). */
void dfi__open_seats_set_own(struct open_seats *seats, enum open_role role,
    uint32_t seat, uint64_t incarnation);

/*
 * The key of a seat has this value, since that revision. The caller has checked
 * that there is such a seat. Another incarnation than the last one means that
 * the last one is gone: so a REGISTRY_DELETE with "replaced" is not given to
 * delete(), and the PUT that follows it says all.
 */
void dfi__open_seats_put(struct open_seats *seats, enum open_role role,
    uint32_t seat, const struct open_holder *holder, uint64_t revision,
    struct open_events *events);

/* A target has said that it leaves; one that holds the seat no more is ignored.
 */
void dfi__open_seats_will_leave(
    struct open_seats *seats, uint32_t seat, uint64_t incarnation);

/*
 * The key that gives up a source's seat was put, by a change of this revision:
 * its last holder does not return. It counts for nobody who takes the seat
 * later, or holds it.
 */
void dfi__open_seats_give_up(
    struct open_seats *seats, uint32_t source, uint64_t revision);

/* The key of a seat is gone. */
void dfi__open_seats_delete(struct open_seats *seats, enum open_role role,
    uint32_t seat, struct open_events *events);

/* Whether that incarnation holds the seat. Once it does not, it never will. */
static inline bool open_seat_is(const struct open_seats *seats,
    enum open_role role, uint32_t seat, uint64_t incarnation)
{
	return incarnation &&
	    seats->seats[role][seat].holder.incarnation == incarnation;
}

/* Whether nobody holds a source's seat, and who held it last is given up. */
static inline bool open_seat_is_given_up(
    const struct open_seats *seats, uint32_t source, bool finished)
{
	const struct open_seat *seat = &seats->seats[OPEN_SOURCE][source];

	return !seat->holder.incarnation && (seat->given_up || finished);
}

/* Whether a target is attached in the seat, and does not leave. */
static inline bool open_seat_stays(
    const struct open_seats *seats, uint32_t target)
{
	const struct open_holder *holder =
	    &seats->seats[OPEN_TARGET][target].holder;

	return holder->incarnation && !holder->leaving;
}

#endif
