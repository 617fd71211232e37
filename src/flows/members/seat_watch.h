/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint's view of the seats of its open flow (flows/open/seats.h), fed by
 * the registry: it takes a seat and watches all keys of the flow. The watch
 * runs on the control thread and only notes changes; a helper thread of the
 * endpoint acts on them.
 */
#ifndef DFI_FLOWS_MEMBERS_SEAT_WATCH_H
#define DFI_FLOWS_MEMBERS_SEAT_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "flows/descriptor/descriptor.h"
#include "flows/open/seats.h"
#include "flows/open/table.h"
#include "flows/open/views.h"

struct dfi;
struct open_resume;
struct registry_watch;

/* By whom an endpoint is evicted, and why (eviction.h). */
struct eviction_note {
	uint32_t role; /* enum open_role */
	uint32_t seat;
	uint32_t why; /* enum eviction_why */
};

/* The endpoint has at most so many pairs with the holders of a seat at once. */
#define SEAT_WATCH_PAIRS 2

struct seat_watch {
	/* Held by the watch for moments; protects all that is below. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* signalled for each change of the registry */
	struct dfi *dfi;
	const struct flow *flow;
	enum open_role role; /* of this endpoint */
	enum open_role other;
	uint32_t n_others; /* seats of the other role */
	uint64_t incarnation;
	uint64_t store_epoch; /* of a target: see dfi_target_attr */
	struct open_seats seats;
	struct open_seat *memory; /* of seats */
	/*
	 * Of each seat of the other role: the last pairs with this endpoint to
	 * which its holders have attached, the latest first.
	 */
	uint64_t (*pairs)[SEAT_WATCH_PAIRS];
	/* Of each seat: the last holder that was evicted, or is to be. */
	uint64_t *put_out[OPEN_ROLES];
	struct eviction_note evictor; /* who has evicted this endpoint */
	bool has_evictor;             /* ... if that is known */
	uint64_t n_evicted;           /* others that this one has evicted */
	uint64_t *withdrawn; /* the last pair that this endpoint has left */
	uint32_t news;       /* counts what the helper should look at */
	/* Of a flow with partitions: who owns them, else NULL. */
	struct open_tables *tables;
	/* Of a source of a flow with replay: what was acknowledged, else NULL.
	 */
	struct open_resume *resume;
	/* The same: of each target's seat, the last pair of which it said how
	 * many segments it has acknowledged: with spill_dir always, else when
	 * it consumed on though all of the ring waited for that.
	 */
	struct pair_acks {
		uint64_t pair, segments;
		bool reported; /* to the source's owner: all others wait */
	} * acks;
	bool removed;         /* the flow: nobody comes any more */
	bool finished;        /* no sources come any more */
	uint64_t finished_at; /* ... that have a later revision */
	bool finished_before; /* ... and the own key came later */
	/*
	 * While the connection is restored, changes come in the order of keys:
	 * sides of pairs before the holders that they are of.
	 */
	bool restoring;
	struct early_pair {
		uint64_t pair;
		uint32_t seat;
	} * early;
	size_t n_early, early_room;
	/* Only in an ordered flow: */
	struct open_views views;
	/*
	 * Of a target: the sources that were attached when it began, and how
	 * many.
	 */
	uint64_t *before;
	uint32_t n_before;
	/* The same, when the newest view was decided. */
	uint64_t *in_view;
	uint32_t n_in_view;
	struct registry_watch *watch, *flow_watch;
	char key[KEY_SIZE]; /* the own one; "" as long as it is not set */
};

/*
 * Take seat number index of a role, or any (DFI_ANY_SEAT), and start to watch.
 * The flow outlives the watch, which does not move. store_epoch: of a target,
 * the highest that its store knows, or 0. -EEXIST: the seat is taken.
 * -EBUSY: all are. -ESHUTDOWN: a source came after the flow was finished.
 */
int dfi__seat_watch_open(struct seat_watch *watch, struct dfi *dfi,
    const struct flow *flow, enum open_role role, uint32_t index,
    uint64_t store_epoch, int64_t deadline);

/* Stop the watch, and give the seat back. Preserves dfi_errmsg(). */
void dfi__seat_watch_close(struct seat_watch *watch);

/* Give the seat back before that. */
void dfi__seat_watch_leave(struct seat_watch *watch);

/* Under the lock: whether that endpoint is attached, and in which seat. */
bool dfi__seat_watch_finds(const struct seat_watch *watch, enum open_role role,
    uint64_t incarnation, uint32_t *seat);

/*
 * The id of the pair with that holder of a seat of the other role. A pair whose
 * making fails is made under another id: the target counts the attempts. Not 0.
 */
uint64_t dfi__seat_watch_pair(
    const struct seat_watch *watch, uint64_t incarnation, uint32_t attempt);

/*
 * The id of the pair to which that holder of a seat has attached, in its last
 * attempt, or 0. Under the lock.
 */
uint64_t dfi__seat_watch_attached(
    const struct seat_watch *watch, uint32_t seat, uint64_t incarnation);

/* Who holds a seat of the other role: an incarnation, or 0. Under the lock. */
static inline uint64_t seat_watch_holder(
    const struct seat_watch *watch, uint32_t seat)
{
	return watch->seats.seats[watch->other][seat].holder.incarnation;
}

/* A change in the registry, on the control thread. */
struct registry_event;
void dfi__seat_watch_see(
    struct seat_watch *watch, const struct registry_event *event);

/* Make the helper look once more. Under the lock. */
static inline void seat_watch_call(struct seat_watch *watch)
{
	watch->news++;
	pthread_cond_broadcast(&watch->changed);
}

#endif
