/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open flow in virtual time: a registry, sources, targets, rings and faults,
 * all from one seed. What endpoints decide is src/flows/open. Here is what the
 * library does around it, and an application that stores effects of tuples.
 *
 *	sim.c           a run, from its plan to its verdict; faults
 *	sim_end.c       an endpoint: what it learns from the registry, and when
 *	sim_registry.c  keys, and the order of their changes
 *	sim_ring.c      the ring of a pair
 *	sim_source.c    pushes, marks, hand-over and replay at a source
 *	sim_target.c    consuming, effects, hand-over and acknowledgements
 *	sim_overdue.c   who holds up a hand-over is evicted
 *	sim_order*.c    the same for an ordered flow: sim_order.h
 */
#ifndef TESTS_OPEN_SIM_H
#define TESTS_OPEN_SIM_H

#include <stdarg.h>
#include <stdio.h>

#include "flows/open/bugs.h"
#include "flows/open/bytes.h"
#include "flows/open/choice.h"
#include "flows/open/keys.h"
#include "flows/open/overdue.h"
#include "flows/open/replay.h"
#include "flows/open/source.h"
#include "flows/open/value.h"
#include "flows/open/watermark.h"
#include "sim_order.h"

#define SIM_SOURCES 3
#define SIM_TARGETS 4
#define SIM_PARTITIONS 8
#define SIM_INPUT 40 /* tuples of a source's seat */
#define SIM_ENDS 96  /* incarnations of a run */
#define SIM_KEYS 512
#define SIM_CHANGES 8192
#define SIM_SLOTS 16
#define SIM_LANE (2 * SIM_INPUT)

/* Planted in what is around src/flows/open; see enum open_bug for the others.
 */
enum sim_bug {
	SIM_BUG_BUSY_RING = OPEN_BUG_BEHIND, /* its source is evicted */
	SIM_BUG_NO_LOOK,                     /* before an eviction */
	SIM_BUG_LOW_AT_SENT,  /* sent, but not acknowledged (R8) */
	SIM_BUG_EARLY_ACK,    /* before the effect is stored */
	SIM_BUG_NO_FENCE,     /* the store takes a zombie's effect */
	SIM_BUG_NO_TAKE_BACK, /* from the ring of a lost target */
	SIM_BUG_APART,        /* effects and positions */
	SIM_BUG_LONG_REST,    /* a zombie lengthens its ring */
	SIM_BUG_MARK_FIRST,   /* a mark overtakes tuples that wait */
	SIM_BUG_RESUME_AT_SEEN,
	SIM_BUG_TWO_HOLDERS, /* of a seat */
	SIM_BUG_ANY_HOLDER,  /* of a seat is evicted, also the next one */
	SIM_BUG_SAME_RING,   /* for the next holder of a seat */
	/* In an ordered flow: */
	SIM_BUG_SAME_NUMBERS, /* in each view */
	SIM_BUG_FLUSH_FIRST,  /* before the segment under way */
	SIM_BUG_KEEPS_NUMBER, /* of a view that has ended */
	SIM_BUG_ONLY_HOLDER,  /* is missed, and no source */
	SIM_BUG_NO_WINDOW, /* slots that are not acknowledged are used again */
};
#define SIM_BUG(name) (dfi__open_bug == SIM_BUG_##name)

struct sim;

/* ---- The registry -------------------------------------------------------- */

/* A change of a key, or its last one. */
struct sim_change {
	struct open_key key;
	bool there;
	uint64_t revision;
	unsigned owner; /* the endpoint whose lease it has, or SIM_ENDS */
	struct open_holder holder;
	struct sim_table *table;
	/* The value of "hand/", "assign", or a part of that of a pair. */
	uint8_t value[8 + 8 * SIM_PARTITIONS];
	/* Of a pair: */
	struct sim_ring *ring;
	uint64_t source_incarnation;
	/* Of a report or a view: */
	const uint8_t *bytes;
	size_t size;
};

struct sim_blob {
	struct sim_blob *next;
	uint8_t bytes[];
};

struct sim_table {
	struct open_table table;
	uint64_t memory[SIM_TARGETS + SIM_PARTITIONS];
};

/* ---- Rings --------------------------------------------------------------- */

enum sim_item_kind {
	SIM_TUPLE = 1,
	SIM_TABLE_MARK,
	SIM_MARK,
	SIM_END,
};

struct sim_item {
	enum sim_item_kind kind;
	uint32_t partition;
	uint64_t position; /* also the value of a mark */
	uint64_t table;    /* of a mark */
	uint64_t by;       /* incarnation of the source */
	uint64_t low;      /* without keys: all up to here is acknowledged */
	bool again;        /* was pushed or sent before: it may be late */
};

struct sim_ring {
	struct sim_ring *next; /* of all, to be freed */
	const struct sim_end *target;
	struct sim_item items[SIM_SLOTS];
	bool far; /* what was sent arrives later */
	uint64_t sent, arrived, taken, credit;
};

/* ---- Endpoints ----------------------------------------------------------- */

enum sim_life {
	SIM_UP = 1,
	SIM_STOPPED,
	SIM_OVER, /* dead, closed, or it knows that it was evicted */
};

/* Of a target: a pair that is not over. */
struct sim_pair {
	struct open_pair pair;
	struct sim_ring *ring;
	bool used, gone, held; /* behind its last mark (K4) */
	bool due;              /* its key has to be put */
};
#define SIM_PAIRS 16

struct sim_end {
	struct sim *sim;
	unsigned number;
	enum open_role role;
	uint32_t seat;
	uint64_t incarnation;
	enum sim_life life;
	bool created; /* its key */
	bool leaving; /* its program wants to leave */
	bool done;    /* a source that has ended as it should */
	uint64_t store_epoch;
	size_t change; /* the next one that it sees */
	uint64_t look_at, act_at, lag, step;
	uint64_t wakes_at;
	/* Since when it runs; how long it had run before, and its stops. */
	uint64_t runs_since, ran, n_stops;
	uint64_t
	    lease_at; /* when the next of its keys goes; 0: not yet known */
	struct open_seat seat_memory[SIM_SOURCES + SIM_TARGETS];
	struct open_seats seats;
	struct open_tables tables;
	uint64_t tables_memory[128];
	struct open_views views;
	union {
		struct sim_ordered_source os;
		struct sim_ordered_target ot;
		struct {
			struct keyed_source core;
			struct open_resume resume;
			struct open_tables ways; /* without keys */
			uint64_t ways_memory[128];
			uint64_t memory[64], resume_memory[2 * SIM_PARTITIONS];
			struct sim_ring *rings[SIM_TARGETS];
			struct sim_item lane[SIM_LANE];
			unsigned n_lane;
			bool resumed, mark_due;
			uint64_t next; /* input position to be pushed */
			uint64_t last_mark;

		} s;
		struct {
			struct keyed_target core;
			struct open_watermark watermark;
			struct open_inputs inputs[SIM_SOURCES];
			uint64_t lows[SIM_SOURCES];    /* without keys */
			uint64_t lost_at[SIM_SOURCES]; /* 0: nobody is */
			uint64_t memory[128];
			uint64_t inputs_memory[SIM_SOURCES][2 * SIM_PARTITIONS];
			struct open_marker markers[SIM_SOURCES];
			uint64_t excuses[SIM_SOURCES]; /* late up to here */
			bool joined[SIM_SOURCES];      /* once */
			uint64_t last_watermark;
			bool half; /* effects are stored, positions not */
			struct sim_pair pairs[SIM_PAIRS];
			unsigned queue[SIM_SOURCES][SIM_PAIRS];
			unsigned n_queue[SIM_SOURCES];
			/* Lent, and not stored. */
			struct sim_item pending[SIM_SLOTS * SIM_PAIRS];
			uint32_t pending_source[SIM_SLOTS * SIM_PAIRS];
			unsigned n_pending;
			bool said_leaving;
			struct open_overdue overdue;
			/* When it saw its newest table, for the judge. */
			uint64_t seen_table, seen_at, seen_ran, seen_stops;
		} t;
	};
};

/* Counts of all runs. */
struct sim_counts {
	uint64_t runs, steps, changes, tuples, tables, moves, waited, evicted,
	    overdue;
	uint64_t killed_sources, killed_targets, stopped, left;
	uint64_t taken_back, filtered, refused, resumed, dropped, rests,
	    released;
	uint64_t low_resumed, late, idle, marks, held_back, unaligned, assigned,
	    given_up;
	uint64_t views, segments, delivered, flushes, reports, gaps, outs,
	    left_out;
};

enum sim_routing {
	SIM_BY_KEYS = 0,
	SIM_ANY,
	SIM_DIRECT,
};

struct sim_plan {
	enum sim_routing routing;
	unsigned n_sources, n_targets, n_input, mark_every, room, hold;
	unsigned n_keys; /* partitions that tuples are of */
	unsigned store;  /* percent of chances to store that are taken */
	bool replay, align;
	bool ordered;          /* and only what follows, and faults */
	bool far, breaks;      /* over a network; ways to the counter */
	unsigned give_up;      /* percent of sources that die for good */
	uint64_t return_after; /* 0: the application gives them up */
	bool evict;            /* also whoever is not overdue */
	uint64_t lag, step, fault_pause, calm_at, idle, deadline, handover;
};

struct sim {
	/* Set by the caller. */
	uint64_t seed;
	bool trace;

	struct sim_plan plan;
	uint64_t random;
	uint64_t now, fault_at;
	bool calm;
	struct sim_end *ends[SIM_ENDS];
	unsigned n_ends;
	struct sim_change *changes;
	size_t n_changes;
	struct sim_change *keys[SIM_KEYS]; /* the last change of each key */
	unsigned n_keys;
	struct sim_ring *rings;
	struct sim_blob *blobs;
	struct sim_view *views; /* SIM_VIEWS */
	uint64_t newest_view;
	struct sim_end *evicted_next; /* whose eviction is under way, or NULL */
	struct sim_table *tables[SIM_CHANGES / 8];
	unsigned n_tables;

	/* Of each source's seat. */
	uint64_t pushed[SIM_SOURCES]; /* the highest position ever */
	bool ended[SIM_SOURCES];
	bool given_up[SIM_SOURCES]; /* it does not return */
	/* The store, which the targets share. */
	uint64_t epochs[SIM_PARTITIONS];
	uint64_t stored[SIM_PARTITIONS][SIM_SOURCES];
	/* Effects of each tuple; in a flow without replay, how often lent. */
	uint8_t effects[SIM_SOURCES][SIM_INPUT + 1];
	bool excused[SIM_SOURCES][SIM_INPUT + 1]; /* dropped with its ring */
	uint64_t expected[SIM_PARTITIONS][SIM_SOURCES];

	struct sim_counts counts;
	bool failed;
	char failure[256];
};

/*
 * sim.c: a flow with partitions or replay, then an ordered one. 0: the runs
 * were right; -1: sim->failure says what is wrong.
 */
int sim_run(struct sim *sim);
void sim_fail(struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_trace(struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint64_t sim_below(struct sim *sim, uint64_t n);
bool sim_chance(struct sim *sim, unsigned percent);
/* Or the seat of a target with direct routing, or 0 with any. */
uint32_t sim_partition(
    const struct sim *sim, uint32_t source, uint64_t position);

/* sim.c: R7: whoever was lost in that seat is given up. */
void sim_give_up(struct sim *sim, uint32_t source);

/* sim_registry.c */
struct sim_change *sim_key(struct sim *sim, const struct open_key *key);
/* Whether another owner has the key. */
bool sim_key_is_there(struct sim *sim, const struct open_key *key);
/* Put or delete: copies the change. */
void sim_put(struct sim *sim, const struct sim_change *change);
void sim_delete(struct sim *sim, const struct open_key *key);
const uint8_t *sim_bytes(struct sim *sim, const uint8_t *bytes, size_t size);
struct sim_table *sim_table_copy(
    struct sim *sim, const struct open_table *table);
void sim_registry_free(struct sim *sim);
/* Whether the registry has this endpoint in its seat. */
bool sim_is_attached(struct sim *sim, const struct sim_end *end);
struct open_key sim_seat_key(enum open_role role, uint32_t seat);

/* sim_ring.c */
struct sim_ring *sim_ring_new(struct sim *sim);
bool sim_ring_has_room(const struct sim *sim, const struct sim_ring *ring);
void sim_ring_send(struct sim_ring *ring, const struct sim_item *item);
const struct sim_item *sim_ring_at(const struct sim_ring *ring, uint64_t i);
void sim_rings_free(struct sim *sim);

/* sim_end.c */
struct sim_end *sim_end_start(
    struct sim *sim, enum open_role role, uint32_t seat);
void sim_end_look(struct sim_end *end);
void sim_end_act(struct sim_end *end);
void sim_end_over(struct sim_end *end, const char *why);
void sim_end_put_seat(struct sim_end *end, bool leaving, bool done);
/* M3: its key is deleted. It goes on, or will. */
void sim_end_evict(struct sim_end *end);
/* The same by an evictor who has looked some time ago. */
void sim_end_evict_late(struct sim_end *end);
/* It sees all changes so far. */
void sim_end_catch_up(struct sim_end *end);
/* How long it has run, not stopped. */
uint64_t sim_end_ran(const struct sim_end *end);
/* It dies, or is declared lost. */
void sim_end_lose(struct sim_end *end);
const char *sim_end_name(const struct sim_end *end);

/* sim_source.c */
void sim_source_start(struct sim_end *end);
void sim_source_event(struct sim_end *end, const struct open_event *event);
void sim_source_pair(struct sim_end *end, const struct sim_change *change);
void sim_source_learn(struct sim_end *end);
void sim_source_act(struct sim_end *end);
void sim_source_lose(struct sim_end *end);

/* sim_target.c */
void sim_target_start(struct sim_end *end);
void sim_target_event(struct sim_end *end, const struct open_event *event);
void sim_target_learn(struct sim_end *end);
void sim_target_act(struct sim_end *end);
void sim_target_lose(struct sim_end *end);

/* sim_overdue.c */
void sim_target_evict_overdue(struct sim_end *end);

#endif
