/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routing by keys in open flows: H1 to H8 of docs/open-flows.md; and any other
 * routing with replay (R8), where ways (choice.h) take the part of partitions.
 *
 * A source pushes into the lanes of the ends of its pairs, as a table of owners
 * says; its own lane stays closed. Tuples of partitions that move wait in
 * memory of their own: their lane has no room. The helper adopts tables, sends
 * marks behind what was sent to the last owners, and sends what waits, also
 * while the owner does something else. So both use the ends, one at a time, by
 * the latch: the owner passes it with two stores and a load, and the helper,
 * which is rarely there, pays for both.
 *
 * The table and the owner's word of the latch are public (dfi/push.h), so a
 * push that fits makes no call. It does not look at errors, of the source or of
 * an earlier push, and counts nothing: where that matters, the table's lanes
 * have no room, or the source's inline routing is none. Nor does it look for
 * the helper: as long as that is inside, or about to be, the table is shut: the
 * lanes that it shows have no room.
 */
#ifndef DFI_FLOWS_KINDS_OPEN_KEYED_H
#define DFI_FLOWS_KINDS_OPEN_KEYED_H

#include <pthread.h>
#include "base/fence.h"
#include "flows/open/choice.h"
#include "open_source.h"

/*
 * Tuples that wait: slots of one memory, in a list for each partition, in the
 * order of pushes. Tuples that were taken back come first in it.
 */
struct held {
	char *tuples;
	uint32_t *behind; /* of each slot: the next of its list */
	/* Without keys, of each: the lowest input position from here on. */
	uint64_t *lowest;
	uint32_t *first, *last; /* of each partition */
	uint32_t n, n_used, room;
	uint32_t free;    /* slots that had a tuple; a list */
	uint32_t begin;   /* the partition that is sent first */
	uint64_t n_looks; /* how often a tuple was looked at */
};

#define HELD_NONE UINT32_MAX

/*
 * Of an end without keys: from which input position on a segment and all behind
 * it have tuples. Both rise from one to the next.
 */
struct lows {
	struct low {
		uint64_t segment, position;
	} * of;
	uint32_t first, n, room;
};

/* Of a source. The latch protects all that is below. */
struct keyed {
	struct dfi_source_table table;
	/*
	 * The lanes of the ends, by their seats. In the ends themselves, which
	 * begin on pages, they would have equal addresses but for the page: the
	 * processor takes a store to one for one to another.
	 */
	struct dfi_source_lane *of_seats;
	struct dfi_source **ends; /* by their seats: those of the source */
	/* Of each partition: the lane of an end, or the waiting one. */
	struct dfi_source_lane **lanes;
	struct dfi_source_lane **shut; /* the same, all the waiting one */
	uint32_t wanted;       /* the helper is inside, or about to be, */
	pthread_mutex_t latch; /* ... and has this */
	struct dfi_source_lane waiting; /* has no room: tuples wait */
	char *spare;                    /* where it points to */
	struct keyed_source state;
	uint64_t *incarnations; /* of the seats that the state means */
	struct held held;
	uint32_t most_held; /* tuples that were pushed */
	/* Of each seat: no room was found; its segment has tuples that waited.
	 */
	bool *full, *begun;
	bool hash64;             /* dfi__router_hashes64() */
	uint32_t inline_routing; /* of the source, while no push was refused */
	bool needs_room;         /* a ring has kept something from being sent */
	bool has_sent;           /* ... but not all */
	int64_t pause_ns;        /* how long the helper waits then */
	/* With replay (keyed_replay.c): */
	bool replays;
	bool closing;     /* it asks targets to acknowledge */
	uint64_t last;    /* the highest input position that was taken */
	uint64_t settled; /* see struct segment_header */
	uint64_t acked;   /* segments, when it looked last */
	uint64_t *asked;  /* of each seat: the end of its ring then */
	/* Without keys (keyed_choice.c), else NULL: */
	struct open_tables *ways;
	uint32_t next;       /* the seat from which on the next tuple goes */
	uint64_t low;        /* all up to here are acknowledged */
	uint32_t known;      /* segments that may yet say the same low */
	struct lows *lows;   /* of each seat */
	struct spill *spill; /* with spill_dir (keyed_spill.c), else NULL */
	/* If it lingers (keyed_linger.c), else 0: */
	int64_t linger_ns;
	int64_t
	    *due;   /* of each seat: when to send its segment; 0: it is empty */
	bool armed; /* the helper looks before any is due */
};

/* How long the helper waits at least until a ring may have room. */
#define KEYED_LEAST_PAUSE_NS (INT64_C(1) * NS_PER_MS)

void dfi__latch_wait(struct keyed *keyed);

static inline bool latch_is_wanted(const struct keyed *keyed)
{
	return __atomic_load_n(&keyed->wanted, __ATOMIC_ACQUIRE);
}

/* As dfi_source_push_table() does. */
static inline void latch_enter(struct keyed *keyed)
{
	__atomic_store_n(&keyed->table.inside, 1, __ATOMIC_RELAXED);
	/* Pairs with dfi__fence_heavy() in the helper's way in. */
	fence_light();
	/* Pairs with the helper's way out: all that it did is there. */
	if (unlikely(latch_is_wanted(keyed)))
		dfi__latch_wait(keyed);
}

static inline void latch_leave(struct keyed *keyed)
{
	/* Pairs with the helper's wait: it sees all that the owner did. */
	__atomic_store_n(&keyed->table.inside, 0, __ATOMIC_RELEASE);
}

/* For the owner, in flows of any routing. */
static inline void keyed_enter(struct open_source *open)
{
	if (open->keyed)
		latch_enter(open->keyed);
}

static inline void keyed_leave(struct open_source *open)
{
	if (open->keyed)
		latch_leave(open->keyed);
}

/* The end that a partition's tuples go to; NULL: they wait. */
static inline struct dfi_source *keyed_to(
    const struct keyed *keyed, uint32_t partition)
{
	struct dfi_source_lane *lane = keyed->lanes[partition];

	return lane == &keyed->waiting ? NULL
				       : keyed->ends[lane - keyed->of_seats];
}

/* -ENOMEM. free: NULL is allowed. */
int dfi__keyed_new(struct dfi_source *source);
/* Once the seat is there, and before the first push. */
void dfi__keyed_start(struct open_source *open);
void dfi__keyed_free(struct keyed *keyed);

/* Inside the latch, under the lock: something has changed. */
void dfi__keyed_learn(struct open_source *open);
/*
 * Inside the latch: the end of a seat is new. An earlier one may have lost a
 * mark. And: it is given up.
 */
void dfi__keyed_take(struct open_source *open, uint32_t seat);
void dfi__keyed_give(struct open_source *open, uint32_t seat);
/* Inside the latch: the ends have changed. */
void dfi__keyed_route(struct open_source *open);
/* Inside the latch: the lane of tuples that wait has none. */
void dfi__keyed_close_waiting(struct dfi_source *source);
/* Inside the latch: a partition's tuples go to that seat, or wait. */
void dfi__keyed_point(
    struct open_source *open, uint32_t partition, uint16_t seat);
uint64_t dfi__keyed_held_bytes(struct dfi_source *source);
/* Inside the latch: an end's segment is about to be sent, or is lost. */
void dfi__keyed_count(struct dfi_source *source, const struct dfi_source *end);
/* struct pairs_ops.tend of sources. */
int64_t dfi__keyed_tend(void *owner);

/* Push a tuple by its key, or n of them: as dfi_source_push(), _push_batch().
 */
int dfi__keyed_push(struct dfi_source *source, const void *tuple);
/* dfi_source_table_full(): inside the latch, which it leaves. */
int dfi__keyed_full(struct dfi_source *source, uint32_t partition);
uint32_t dfi__keyed_push_batch(
    struct dfi_source *source, const char *tuples, uint32_t n, int *ret);

/* With replay, where ways are seats: the same for one of them. */
int dfi__keyed_push_to(
    struct dfi_source *source, uint32_t seat, const void *tuple);
uint32_t dfi__keyed_push_batch_to(struct dfi_source *source, uint32_t seat,
    const char *tuples, uint32_t n, int *ret);

/* The end of the pair with the owner that the table means, if it is there. */
static inline struct dfi_source *keyed_end(
    const struct open_source *open, uint32_t seat)
{
	return seat != OPEN_NOBODY && open->ends[seat] &&
		open->taken[seat]->incarnation ==
		    open->keyed->incarnations[seat]
	    ? open->ends[seat]
	    : NULL;
}

/* Inside the latch: send what the open segment of an end has. */
void dfi__keyed_send_end(struct dfi_source *source, struct dfi_source *end);

/* Inside the latch: send tuples that wait and may go, in order. */
void dfi__keyed_send_held(struct dfi_source *source);

/*
 * Inside the latch. hold: let a tuple wait; false: there is no room for it.
 * hold_first: the same in front of its partition's, for one that is taken back
 * from a seat; false: no memory. drop_first: the first of a partition waits no
 * more. held_low: the lowest input position of those that wait, or UINT64_MAX.
 */
bool dfi__keyed_hold(
    struct dfi_source *source, uint32_t partition, const void *tuple);
bool dfi__keyed_hold_first(
    struct dfi_source *source, uint32_t seat, const void *tuple);
void dfi__keyed_drop_first(struct keyed *keyed, uint32_t partition);
uint64_t dfi__keyed_held_low(const struct keyed *keyed);
void dfi__held_free(struct held *held);

/*
 * Inside the latch: publish what an end has, and with it this table, or 0, and
 * what asks for an acknowledgement. false: it has no room.
 */
bool dfi__keyed_say(struct dfi_source *source, struct dfi_source *end,
    uint64_t table, uint64_t asks);

/*
 * With replay, all inside the latch. note_gone: under the lock: whether a seat
 * has another holder than its end; these ends are stale then. take_back: what a
 * lost target has not acknowledged waits, before all newer tuples (R2); 0 or
 * -ENOMEM, sticky. ask: ask those that have tuples to acknowledge. await: wait
 * until all have. progressed: whether some have, since await() looked.
 * check_window: of a full ring, or any (n_seats): -ENOBUFS, once, if its target
 * says that all of it waits for an acknowledgement, and that it consumes on.
 */
bool dfi__replay_note_gone(struct open_source *open);
int dfi__replay_check_window(struct dfi_source *source, uint32_t seat);
int dfi__replay_take_back(struct dfi_source *source, uint32_t seat);
void dfi__replay_ask(struct dfi_source *source);
int dfi__replay_await(struct dfi_source *source);
bool dfi__replay_progressed(struct dfi_source *source);

/*
 * Without keys, inside the latch. new_ways: for keyed_new(); false: no memory.
 * choose: the target of the next tuple; again: of one that waits, so none that
 * is full. note: a tuple is about to be put into a seat's segment. note_ring:
 * its ring is new. took: it was pushed. low: all tuples up to this input
 * position are acknowledged. way: of a tuple that was taken back from a seat.
 */
bool dfi__keyed_new_ways(struct dfi_source *source, struct keyed *keyed);
void dfi__keyed_free_ways(struct keyed *keyed);
void dfi__keyed_choose(struct dfi_source *source, bool again);
void dfi__keyed_note(
    struct dfi_source *source, uint32_t seat, const void *tuple);
void dfi__keyed_note_ring(struct keyed *keyed, uint32_t seat);
void dfi__keyed_took(struct dfi_source *source, struct dfi_source *end);
uint64_t dfi__keyed_low(struct dfi_source *source);
uint32_t dfi__keyed_way(
    struct dfi_source *source, uint32_t seat, const void *tuple);

/* What a target has not given back, as the ring says by now. */
uint64_t dfi__replay_unreturned(const struct writer *ring);

/* How many segments the target of a seat has not acknowledged. */
uint64_t dfi__replay_unacked(const struct open_source *open, uint32_t seat);

/*
 * With spill_dir, inside the latch. new: -ENOMEM, or an error of the directory.
 * take: a ring is new. learn: under the lock. unacked: of a ring. read: a
 * segment that lies in its file, so many bytes of it from its start (struct
 * spilled), or NULL. fail: why a push finds no room, or 0; once. failed:
 * whether there is such an error. forget: nothing needs room now; spill_dir may
 * be missing.
 */
struct spilled {
	uint64_t bytes;
	char tuples[];
};
int dfi__spill_new(struct dfi_source *source);
void dfi__spill_free(struct spill *spill);
void dfi__spill_take(struct open_source *open, uint32_t seat);
void dfi__spill_learn(struct open_source *open);
uint64_t dfi__spill_unacked(const struct open_source *open, uint32_t seat);
const struct spilled *dfi__spill_read(const struct open_source *open,
    uint32_t seat, uint64_t number, size_t size);
int dfi__spill_fail(struct dfi_source *source);
void dfi__spill_forget(struct open_source *open);
bool dfi__spill_failed(const struct open_source *open);

/*
 * Of one that lingers, inside the latch. init: before the first push; -ENOMEM.
 * start: an end's segment has tuples. park: it may have none. linger: for the
 * helper: send what is due; when to look again.
 */
int dfi__keyed_linger_init(struct dfi_source *source, uint32_t linger_us);
void dfi__keyed_linger_start(struct dfi_source *source, struct dfi_source *end);
void dfi__keyed_park(struct keyed *keyed, struct dfi_source *end);
int64_t dfi__keyed_linger(struct dfi_source *source);

/* Set what the next segment of an end says of input positions. */
static inline void replay_set_input(
    struct dfi_source *source, struct dfi_source *end)
{
	const struct keyed *keyed = open_source(source)->keyed;

	if (likely(!keyed->replays))
		return;
	end->writers[0].input = keyed->ways ? dfi__keyed_low(source)
	    : keyed->held.n                 ? 0
					    : keyed->last;
	end->writers[0].settled = keyed->settled;
}

/* Inside the latch: send all that was pushed: 1; 0: some of it waits. */
int dfi__keyed_send_pushed(struct dfi_source *source);

/* The entries of its table of lanes (row.c). */
int dfi__keyed_no_lane(struct dfi_source *source, uint32_t lane);
int dfi__keyed_flush(struct dfi_source *source, uint32_t lane);
int dfi__keyed_finish(struct dfi_source *source, int64_t deadline);
int dfi__keyed_check_whole(const struct dfi_source *source);
void dfi__keyed_forget(struct dfi_source *source, uint32_t lane);
uint64_t dfi__keyed_waiting_bytes(const struct dfi_source *source);

extern const struct lane_ops dfi__keyed_lane_ops;

#endif
