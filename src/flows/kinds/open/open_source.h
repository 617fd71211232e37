/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of an open flow. With DFI_ROUTE_DIRECT it has a lane for each seat
 * of a target. Otherwise it has one lane, which points to the segment of the
 * target that the routing has chosen. The segment belongs to the source of the
 * pair (pairs.h), whose own lane is brought up to date before each call on it.
 * In a replicate flow the lane's segment is in memory of its own, from which it
 * is copied to all targets (open_replicate.c). In a combiner flow each lane is
 * that of a target as well, and the source of the pair combines and marks
 * (open_combine.c).
 */
#ifndef DFI_FLOWS_KINDS_OPEN_OPEN_SOURCE_H
#define DFI_FLOWS_KINDS_OPEN_OPEN_SOURCE_H

#include "flows/endpoint/source.h"
#include "flows/context/shared_counter.h"
#include "open_shared.h"
#include "pairs.h"

/* A source of an ordered flow (open_order.c). */
struct source_order {
	/*
	 * Held while a segment goes to all, so that the helper's flush is
	 * behind it. The lock of the pairs is taken within this one.
	 */
	pthread_mutex_t lock;
	uint64_t view; /* whose numbers the source takes; 0: none now */
	uint64_t end;  /* the position behind its last one; 0: it has none */
	bool greeted;  /* the helper has greeted a pair that is not taken */
	struct shared_counter_user *counter; /* of view, or NULL */
	bool broken;                         /* its holder can't be reached */
	bool reads;      /* it was asked where it is, for those in n_made */
	uint64_t n_made; /* pairs that there were then */
	bool draws;      /* the owner waits for a number */
	bool has_number; /* one that has come, and was not sent: */
	uint64_t number;
	uint64_t n_answers; /* of the counter; any count */
	/* Of the owner: the view with all of whose members it has pairs. */
	uint64_t complete;
	bool lacks_pairs; /* with targets that have to get all */
	bool must_greet;  /* pairs may have been taken since it has greeted */
	/* Of the helper: since when it knows of the number that is not sent. */
	uint64_t held;
	int64_t held_since;
	/* Since when the counter owes it an answer, and when it looked last. */
	int64_t owed_since, looked;
	uint64_t owed_at;  /* the answers that it had then */
	uint64_t failed;   /* the view whose counter did not answer, ... */
	uint32_t n_failed; /* ... in so many tries to open it */
	uint64_t flushed;  /* the last view that it has flushed */
	uint64_t reported; /* ... and that the registry knows to be */
};

/* What dfi_source_event() has said of a seat, and what it has to say. */
struct seat_news {
	uint64_t known;   /* the incarnation that it said has joined; or 0 */
	uint64_t present; /* the one that is there; or 0 */
	uint32_t fate;    /* how known has left: enum dfi_event_type */
};

struct keyed;
struct open_multicast;

/* A ring that was found full. */
struct seat_full {
	int64_t since; /* or 0, or EVICTING */
	uint64_t at;   /* what open_given_back() said then */
};

struct open_source {
	struct pairs pairs;
	struct dfi_source *source;
	struct notify *notify;    /* in which a handle that waits sleeps */
	struct dfi_source **ends; /* of the pairs that were taken, or NULL */
	struct pair **taken;      /* these pairs */
	uint32_t n_ends;
	bool may_push;   /* min_sources and min_targets were there */
	bool routed;     /* one lane */
	bool combines;   /* for targets that stay */
	bool replicates; /* to all targets */
	bool goes_on;    /* a full lane, at the same target (open_lanes.c) */
	bool marks;      /* the call wants room for a mark, at each target */
	uint32_t chosen; /* its target, while the lane is open */
	uint32_t next;   /* where the routing goes on */
	uint32_t seen;   /* the last of pairs_changes() */
	/* The seat of the call that was, or OPEN_NO_SEAT; marks, seen then. */
	uint32_t refused, refused_seen;
	bool refused_mark;
	char *room;   /* of the lane's segment, if it replicates by copies */
	char *filled; /* where that segment is, or was */
	struct open_shared *shared; /* if it moves to shared rings, or NULL */
	struct open_multicast *multicast; /* if by datagrams, or NULL */
	uint64_t held;              /* bytes in it that wait for a target */
	uint64_t set;               /* target set of what is sent; 0: no sets */
	struct seat_news *news;     /* of each target; only with DFI_EVENTS */
	struct keyed *keyed;        /* with partitions (keyed.h), or NULL */
	struct source_order *order; /* or NULL */
	_Atomic uint64_t dropped;   /* see dfi_source_dropped() */
	struct seat_full *full;     /* of each ring; or NULL */
	_Atomic uint64_t mark;      /* source->marked, for the helper */
	struct dfi_source_attr attr; /* of the ends */
	struct wait_policy wait;
};

#define EVICTING INT64_MAX

/* Instead of a seat: what a wait is for, all acknowledgements. */
#define OPEN_ALL_SEATS UINT32_MAX
/* The same: only news of targets. */
#define OPEN_NO_SEAT (UINT32_MAX - 1)

/*
 * The segments that a seat's target has given back, or 0: with partitions, and
 * where the routing chooses a target, the owner may not look at a ring as long
 * as it is full.
 */
static inline uint64_t open_given_back(
    const struct open_source *open, uint32_t seat)
{
	/* A hint, which protects nothing. */
	return open->keyed || open->routed
	    ? atomic_peek(
		  &writer_header(&open->ends[seat]->rings[0])->credit.consumed)
	    : 0;
}

/*
 * The ring of a seat's target has room, or has none. With DFI_ROUTE_ANY only a
 * mark waits for it.
 */
static inline void open_note_room(
    struct open_source *open, uint32_t seat, bool has_room)
{
	if (likely(!open->full))
		return;
	if (has_room) {
		if (unlikely(open->full[seat].since == EVICTING))
			pairs_spare(open->taken[seat]);
		open->full[seat].since = 0;
	} else if (!open->full[seat].since &&
	    (open->marks || open->source->router.routing != DFI_ROUTE_ANY)) {
		open->full[seat] = (struct seat_full){
			.since = clock_now_ns(),
			.at = open_given_back(open, seat),
		};
	}
}

/* Whether a seat's target has room for a segment: as writer_credit(). */
static inline int open_credit(const struct open_source *open, uint32_t seat)
{
	return shared_has(open->shared, seat)
	    ? dfi__open_shared_room(open, seat)
	    : writer_credit(&open->ends[seat]->rings[0]);
}

/* How many seats of targets there are. */
static inline uint32_t open_seats(const struct dfi_source *source)
{
	return source->flow.n_targets;
}

/* Whether the target of a pair's source has left. */
static inline bool open_is_lost(struct dfi_source *end)
{
	return end->status || source_target_life(end, 0);
}

/*
 * Wait, as the handle may, until a seat's ring has room, any has with
 * DFI_ROUTE_ANY if it is no mark's call, or something else has changed. seat:
 * open_seats() if there is no ring to wait for. *until: 0 in the first wait of
 * a call, for which the handle's time counts as a whole: the helper may wake it
 * often for nothing. -EAGAIN, -ETIMEDOUT.
 */
int dfi__open_await_room(
    struct dfi_source *source, uint32_t seat, int64_t *until);

/*
 * Make the descriptor of a handle with DFI_NONBLOCK readable when there is news
 * of a target, and for the call that was refused last. false: there is by now.
 */
bool dfi__open_arm_news(struct dfi_source *source);

/*
 * Have targets evicted whose rings have been full for too long. Returns when
 * the next one may be due.
 */
int64_t dfi__open_evict_overdue(struct dfi_source *source);

/* dfi__writer_unreturned() of a pair's source, with what has come by now. */
uint64_t dfi__open_unreturned(
    const struct open_source *open, struct dfi_source *end);

/*
 * A target has left or died. It harms nobody if it has closed and had taken all
 * that was sent. 0, or the sticky error that the flow wants.
 */
int dfi__open_lose(struct dfi_source *source, uint32_t seat);

/* Give up all that have left: 0, or a sticky error. */
int dfi__open_drop_lost(struct dfi_source *source);

/*
 * The same, and take the lock of the seats: 0. With replay, a seat has no other
 * holder then than its end: what lies in the ring of one that has gone comes
 * before all that goes to the next one.
 */
int dfi__open_lock(struct dfi_source *source);

/* Under the lock: take over a pair with the holder of a seat, if it is ready.
 */
void dfi__open_take(struct open_source *open, uint32_t seat);

/*
 * Nobody is there who could take a tuple for a seat, or for any if it is
 * open_seats(): 0 if somebody may come, or a sticky error.
 */
int dfi__open_expect_some(struct dfi_source *source, uint32_t seat);

/* Whether somebody may come for a seat that nobody holds, or holds it. */
bool dfi__open_is_expected(struct dfi_source *source, uint32_t seat);

/* Nobody holds this seat: -ENXIO, or in a combiner flow a sticky error. */
int dfi__open_empty_seat(struct dfi_source *source, uint32_t seat);

/*
 * Look for room at all targets: 1. 0: *seat has none, or is open_seats():
 * nobody is there. Or a sticky error.
 */
int dfi__open_look_for_room(struct dfi_source *source, uint32_t *seat);

/* See struct source_ops. */
int dfi__open_mark(struct dfi_source *source, uint64_t mark);

/*
 * Of an ordered flow, at the close: the place from which on the source does not
 * count (K6), if it did. Waits for a view, for a moment, and for no room:
 * otherwise its end counts where each target sees it.
 */
int dfi__open_mark_last(struct dfi_source *source);

/*
 * Give a target the source's last mark, unless it has that: 1, or 0 without
 * room. The target may be lost by then. Or a sticky error.
 */
int dfi__open_mark_end(struct dfi_source *source, uint32_t seat);

/* Bring the lane of the end up to date, and close the source's. */
void dfi__open_lane_park(struct dfi_source *source, uint32_t lane);

/* Whether a target's end is closed as this source was evicted. */
bool dfi__open_combine_is_put_out(struct dfi_source *source, uint32_t seat);

/*
 * Under the lock: the seat of a target of a combiner flow that was attached and
 * has left, also if this source had no pair with it yet; or n_seats.
 */
uint32_t dfi__open_combine_left(const struct open_source *open);

/* Whether the source of a pair was used. */
bool dfi__open_combine_used(struct dfi_source *end);

/* The same for a combiner flow, where they differ. */
int dfi__open_combine_flush(struct dfi_source *source, uint32_t lane);
int dfi__open_combine_finish(struct dfi_source *source, int64_t deadline);
uint32_t dfi__open_combine_most_room(const struct dfi_source *source,
    uint32_t n, const char **why, const char **instead);
int dfi__open_combine_mark(struct dfi_source *source, uint64_t mark);

/* The same for a ring that nobody uses yet. */
void dfi__open_mark_first(struct dfi_source *end, uint64_t mark);

/* The next segment that is published has no tuples. */
static inline void open_note_mark(struct dfi_source *end)
{
	if (end->marks_to != end->rings[0].seq)
		end->marks_from = end->rings[0].seq;
	end->marks_to = end->rings[0].seq + 1;
}

/* Whether marks are all that a target has not given back. */
bool dfi__open_only_marks(const struct dfi_source *end);

/* Open a segment of an end: 1, 0 without room, or -ENXIO: it is lost. */
int dfi__open_end_segment(struct dfi_source *end);

/* The entries of struct lane_ops. */
int dfi__open_lane_reached(struct dfi_source *source, uint32_t lane);
int dfi__open_lane_send(struct dfi_source *source, uint32_t lane);
int dfi__open_lane_make_room(struct dfi_source *source, uint32_t lane);
int dfi__open_lane_flush(struct dfi_source *source, uint32_t lane);
int dfi__open_lane_check_whole(const struct dfi_source *source);
uint32_t dfi__open_lane_most_room(const struct dfi_source *source, uint32_t n,
    const char **why, const char **instead);
uint64_t dfi__open_lane_waiting_bytes(const struct dfi_source *source);

/* Whether what is sent is for this seat. */
static inline bool open_addresses(const struct open_source *open, uint32_t seat)
{
	return likely(!open->set) || open->set >> seat & 1;
}

/* Whether somebody is attached whom a target set names, if there are sets. */
static inline bool open_set_is_there(
    const struct open_source *open, uint64_t targets)
{
	uint32_t seat;

	for (; targets; targets &= targets - 1) {
		seat = (uint32_t)__builtin_ctzll(targets);
		if (open->ends[seat])
			return true;
	}
	return false;
}

/* The same for a replicate flow, without questions about one target. */
int dfi__open_replica_reached(struct dfi_source *source, uint32_t lane);
int dfi__open_replica_send(struct dfi_source *source, uint32_t lane);
int dfi__open_replica_make_room(struct dfi_source *source, uint32_t lane);
int dfi__open_replica_flush(struct dfi_source *source, uint32_t lane);
int dfi__open_replica_finish(struct dfi_source *source, int64_t deadline);
int dfi__open_replica_choose(struct dfi_source *source, uint64_t targets);
int dfi__open_replica_check_whole(const struct dfi_source *source);
uint64_t dfi__open_replica_waiting_bytes(const struct dfi_source *source);

/* Drop bytes for a set of which nobody is left: 0, or a sticky error. */
int dfi__open_replica_drop(struct dfi_source *source, uint64_t bytes);

/* Reserve the memory of a replicate flow's segment. */
int dfi__open_replica_init(struct dfi_source *source);

/*
 * Tell a new target where it begins, unless it knows (J1). position: of an
 * ordered flow, where its counter is; 0: this source has taken no number.
 */
void dfi__open_replica_greet(
    struct dfi_source *source, struct dfi_source *end, uint64_t position);

/* Of an ordered flow: -ENOMEM; and free what _init() has made. */
int dfi__open_order_init(struct open_source *open);
void dfi__open_order_free(struct open_source *open);

/*
 * For an owner whose helper has ended: read the counter of the source's view,
 * for targets that were not greeted; 0: it has taken no number, or the flow has
 * no order. False: it can't be reached. Blocks for 2 s at most.
 */
bool dfi__open_order_last(struct open_source *open, uint64_t *next);

/*
 * For one that ends, likewise: if it leaves a number unused, for which others
 * would wait, end the view. Accepts a source without an order.
 */
void dfi__open_order_leave(struct open_source *open);

/*
 * Under the lock of the order: tell new targets where the counter is, before
 * the source takes a number of it. False: the source is in no view, so it
 * greets nobody, or the answer of the counter has not come.
 */
bool dfi__open_order_greet(struct open_source *open);

/*
 * Under the same lock, of a source in a view. where: read its counter: 1; 0:
 * the answer has not come; -ECONNRESET. draw: take the number of a segment;
 * false: it has not come.
 */
int dfi__open_order_where(struct open_source *open, uint64_t *next);
bool dfi__open_order_draw(struct open_source *open, uint64_t *position);

/* Under it as well: look once more; whether an answer is still owed. */
bool dfi__open_order_owed(struct open_source *open);

/*
 * An owner that waits: whether an answer of the counter has come since it
 * looked; and how it sleeps until one comes, as struct pairs_wait has it.
 */
bool dfi__open_order_arrived(struct open_source *open);
bool dfi__open_order_announce(struct open_source *open, struct notify *notify);
void dfi__open_order_arm(struct open_source *open);

/* See pairs_ops.tend(). */
int64_t dfi__open_order_tend(void *owner);

/* Under the lock of the pairs: compare the pairs with the view's members. */
void dfi__open_order_complete(struct open_source *open);

/*
 * Take the position of a segment: 1. From then on to _sent() the source is in
 * its view. 0: there is no view now, it has a member that the source has to
 * take over first, or the position has not come; or a sticky error.
 */
int dfi__open_order_take(struct dfi_source *source, uint64_t *position);
void dfi__open_order_sent(struct dfi_source *source, uint64_t position);

/* Of open flows (row.c). */
extern const struct lane_ops dfi__open_lane_ops, dfi__open_replica_ops,
    dfi__open_combine_ops;

static inline struct open_source *open_source(const struct dfi_source *source)
{
	return source->state;
}

/* The close waits, also of an owner that has polled its descriptor. */
static inline void open_sleep_to_close(struct dfi_source *source)
{
	atomic_publish(
	    &source->targets.sleeping, &open_source(source)->notify->self.word);
}

/*
 * Take over what the helper has made, and give up ends whose targets have left:
 * 0, or a sticky error.
 */
int dfi__open_adopt(struct dfi_source *source);

/* Wait until the source may push. -ETIMEDOUT, or an error of _adopt(). */
int dfi__open_await_start(struct dfi_source *source, int64_t deadline);

#endif
