/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of chaos in an open flow: actors, which are sources or targets, take a
 * seat, do something, and leave or are killed, again and again; each time is a
 * stay. All of it follows from the seed. The board is memory that the
 * processes of a run share with the judging process.
 */
#ifndef DFI_TESTS_CHAOS_OPEN_PLAN_H
#define DFI_TESTS_CHAOS_OPEN_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <dfi/dfi.h>

#include "open_cells.h"

#define OPEN_FLOW "open-chaos"
#define OPEN_SEATS 4
#define OPEN_ACTORS 8 /* sources first */
#define OPEN_PROCESSES 5
#define OPEN_FAULTS 6 /* of processes */
#define OPEN_STRIKES 4
#define OPEN_FORCED 4 /* faults of a run in which all happens */
#define OPEN_CALLS 3  /* of the flow's creator */
#define OPEN_STAYS 32 /* of an actor, at most */
#define OPEN_ALL_STAYS (OPEN_ACTORS * OPEN_STAYS)
#define OPEN_TUPLES 4096 /* of a stay, at most */
#define OPEN_GROUPS 64   /* keys by which a flow may route */
#define OPEN_PARTITIONS 16
#define OPEN_RADIX_BITS 6  /* of a group */
#define OPEN_PARTS 4       /* groups of a stay in a combiner flow */
#define OPEN_RESULTS 65536 /* of a combiner flow, at most */

enum open_style {
	OPEN_SINGLE,
	OPEN_BATCH,
	OPEN_CLAIM, /* of a target: a batch */
	OPEN_CURSOR,
	OPEN_STYLES,
};

enum open_act {
	OPEN_STAY,   /* a source: until all is pushed; a target: to the end */
	OPEN_LEAVE,  /* a target: close */
	OPEN_ABORT,  /* and close */
	OPEN_EXIT,   /* the process ends without closing anything */
	OPEN_DIE,    /* SIGKILL */
	OPEN_GIVE,   /* a target: dfi_target_leave(), and consume to the end */
	OPEN_CANCEL, /* a target: dfi_target_cancel(), and close */
};

struct stay_plan {
	uint32_t seat; /* or DFI_ANY_SEAT */
	uint32_t delay_ms;
	bool nonblock, events;
	uint32_t wait; /* enum dfi_wait */
	enum open_style style;
	uint32_t n_tuples, flush_every, pause_every, pause_us;
	bool settles; /* a source waits until it knows of all its tuples */
	bool aligns;  /* a target */
	uint32_t idle_after_ms; /* of a target */
	uint32_t linger_us;
	enum open_act act;
	uint32_t act_at; /* in tuples */
};

enum open_fault_kind {
	OPEN_KILL,    /* the process starts again later */
	OPEN_STOP,    /* and continue */
	OPEN_RESTART, /* kill the registry, and start another */
	OPEN_FINISH,  /* dfi_flow_finish() before all sources have come */
	OPEN_ASSIGN,  /* dfi_flow_assign(): partitions move */
	OPEN_GIVE_UP, /* dfi_flow_give_up() of some source's seat */
	/* Of the machine of a process: */
	OPEN_BLINK, /* cut off, for a moment that connections outlive */
	OPEN_CUT,   /* cut off for longer, and healed */
	OPEN_OFF,   /* powered off, and booted again */
	OPEN_FAULT_KINDS,
};

/* Whom a fault hits. */
enum open_whom {
	OPEN_PROCESS, /* that process, at that time */
	OPEN_SOURCE,  /* one that has an open source, as soon as there is one */
	OPEN_TARGET,
};

struct open_fault {
	enum open_fault_kind kind;
	enum open_whom whom;
	uint32_t process;
	uint32_t at_ms, for_ms;
};

struct open_plan {
	uint64_t seed;
	struct open_cell cell;
	uint32_t n_sources, n_targets; /* seats */
	uint32_t n_source_actors, n_actors, n_processes;
	uint32_t process_of[OPEN_ACTORS];
	uint32_t n_stays[OPEN_ACTORS]; /* that are planned */
	bool resident[OPEN_ACTORS];    /* a target that comes back to the end */
	bool replicates;               /* else it shuffles */
	bool ordered;                  /* all targets deliver one order */
	bool datagrams;                /* to all targets at once */
	bool keyed;                    /* by groups */
	bool names_seats;              /* in pushes, or by a function */
	bool combines;                 /* open_combine.c */
	uint32_t per_window;           /* then: tuples of a source */
	uint32_t combining;            /* enum dfi_source_combining */
	bool replays;                  /* open_replay.c */
	uint32_t n_input;              /* then: tuples of a source's seat */
	uint32_t pace_us;              /* a pause of a source */
	bool spills;                   /* spill_dir */
	uint32_t return_timeout_ms;
	uint64_t hold_bytes;
	uint32_t goal, routing, on_loss, min_sources, min_targets;
	uint32_t evict_after_ms;
	bool forced; /* members of both roles join, leave, die and stop */
	bool harsh;  /* a bound that may put out anybody whose ring is full */
	uint32_t tuple_size, segment_size, segment_count;
	/* Tuples of a source; 0: none, or as flows with replay, or that
	 * combine. */
	uint32_t mark_every;
	uint32_t lease_ms;   /* 0: none */
	uint32_t n_machines; /* 0: one */
	uint32_t n_faults;
	struct open_fault
	    faults[OPEN_FAULTS + OPEN_STRIKES + OPEN_FORCED + OPEN_CALLS];
};

/* The goal (enum dfi_goal) of a run in which all happens, or -1: another. */
int open_forced_goal(uint64_t seed, const char *only);

/* Of a cell whose name contains only; between machines if there are some. */
void open_make_plan(struct open_plan *plan, uint64_t seed, const char *only,
    uint32_t n_machines);

/* Where a process runs: the first machine has none. */
static inline uint32_t open_machine_of(uint32_t n_machines, uint32_t process)
{
	return 1 + process % (n_machines - 1);
}

/* How late news of others may come, and of an own eviction. */
uint32_t open_news_ms(const struct open_plan *plan);
uint32_t open_own_news_ms(const struct open_plan *plan);

/* The partition of a group, with routing by keys. */
uint32_t open_partition_of(const struct open_plan *plan, uint32_t group);

/*
 * Of a resident target also beyond n_stays. volume: percent of the usual number
 * of tuples.
 */
struct stay_plan open_stay_plan(const struct open_plan *plan, uint32_t volume,
    uint32_t actor, uint32_t stay);

void open_print_plan(const struct open_plan *plan);

static inline bool open_is_source(const struct open_plan *plan, uint32_t actor)
{
	return actor < plan->n_source_actors;
}

/* Of all stays of a run. */
static inline uint32_t open_stay_id(uint32_t actor, uint32_t stay)
{
	return actor * OPEN_STAYS + stay;
}

/* The first fields of a tuple; the key determines the rest. */
struct open_tuple {
	uint64_t key;
	uint32_t stay;   /* its source's id */
	uint32_t n;      /* its number there */
	uint32_t seat;   /* its source's */
	uint32_t target; /* the seat it was pushed to, or any; or its group */
};

/* With replay. */
struct replay_tuple {
	uint64_t key;
	uint64_t position;
	uint32_t seat;
	uint32_t group;
};

/* What is stored of a partition: positions together with the effects. */
struct replay_state {
	uint64_t epoch;
	uint64_t positions[OPEN_SEATS];
	uint64_t counts[OPEN_SEATS], sums[OPEN_SEATS];
};

struct replay_board {
	/* Its process + 1: if that ends, it has not made anything current. */
	_Atomic uint32_t holder;
	struct {
		struct replay_state states[2];
		_Atomic uint32_t current;
	} of[OPEN_PARTITIONS];
	/* Without keys: of each seat, which tuples took effect. */
	_Atomic bool seen[OPEN_SEATS][OPEN_TUPLES];
	_Atomic bool given_up[OPEN_SEATS]; /* or it was tried */
	/* All of a seat's input was acknowledged. */
	_Atomic bool whole[OPEN_SEATS];
};

/* In a combiner flow; the group is PARTS * stay + n % PARTS. */
struct combine_tuple {
	uint64_t group;
	uint64_t value;
	uint64_t n;
};

/* What a target was given. */
struct combine_result {
	uint64_t group, window, count, sum;
	uint32_t flags;
	uint32_t target; /* the id of its stay */
};

struct combine_board {
	struct combine_result results[OPEN_RESULTS];
	_Atomic uint32_t n_results;
	_Atomic uint64_t newest;        /* that a source has begun */
	_Atomic bool failed;            /* a target has */
	uint64_t first[OPEN_ALL_STAYS]; /* window of a source; 0: none */
};

void open_make_tuple(
    const struct open_plan *plan, const struct open_tuple *head, void *tuple);
/* Whether open_make_tuple() made it. */
bool open_check_tuple(const struct open_plan *plan, const void *tuple);

enum stay_state {
	STAY_NONE,
	STAY_OPENING,
	STAY_OPEN,
	STAY_SETTLING,
	STAY_CLOSING,
	STAY_CLOSED,
	STAY_REFUSED, /* it could not be opened */
};

struct stay_board {
	_Atomic uint32_t state; /* enum stay_state */
	uint32_t seat;
	int32_t ret; /* what ended it; 0: the plan, or the end of the flow */
	int32_t close_ret;
	bool ended;           /* a target that has come to the end */
	bool cancelled;       /* a target whose leaving harms nobody */
	bool aborted;         /* as planned */
	_Atomic bool excused; /* its process was stopped beyond its lease */
	bool wrong;           /* text says what it saw */
	uint32_t harm;        /* then: enum open_harm */
	_Atomic uint32_t n_stops;
	uint32_t n_events, n_repeats;
	_Atomic uint32_t attempted, pushed; /* tuples of a source */
	_Atomic uint32_t flushed;           /* of these */
	_Atomic uint32_t received;          /* of a source, by all targets */
	_Atomic uint32_t taken;             /* by a target */
	uint64_t dropped;
	bool settled; /* dropped is of the end */
	_Atomic int64_t opening_ns, opened_ns;
	_Atomic int64_t gone_ns; /* since then it may be lost for others */
	/* Until then they may take it for one that is there; 0: gone_ns. */
	_Atomic int64_t out_ns;
	int64_t failed_ns, closed_ns;
	int64_t late_ns; /* after -ESTALE: of late (open_late.h) */
	/* With keys, of a target with events: what it has gained. */
	_Atomic bool gained[OPEN_PARTITIONS];
	_Atomic bool gaining; /* it may have gained something else */
	char text[400];
};

struct open_board {
	_Atomic int64_t clock_ns; /* as last seen: open_stamp() */
	struct stay_board stays[OPEN_ALL_STAYS];
	_Atomic uint32_t next_stay[OPEN_ACTORS];
	_Atomic bool done[OPEN_ACTORS];
	_Atomic int64_t died_ns[OPEN_PROCESSES]; /* by its own plan */
	_Atomic bool excused[OPEN_PROCESSES];    /* stopped beyond its lease */
	_Atomic bool no_more_sources;            /* all have done their stays */
	_Atomic bool finished;                   /* or are about to be */
	int64_t start_ns;
	/*
	 * Where each tuple was pushed to (seat + 1, with keys partition + 1),
	 * when (after the start), and who got it (id + 1).
	 */
	uint8_t sent[OPEN_ALL_STAYS][OPEN_TUPLES];
	uint32_t sent_ms[OPEN_ALL_STAYS][OPEN_TUPLES];
	_Atomic uint16_t owner[OPEN_ALL_STAYS][OPEN_TUPLES];
	/* The last mark before it, or 0; and the last mark of all. */
	uint32_t marked[OPEN_ALL_STAYS][OPEN_TUPLES];
	_Atomic uint32_t newest_mark;
	/* The last tuple of each group that some target got (n + 1). */
	_Atomic uint32_t last[OPEN_ALL_STAYS][OPEN_GROUPS];
	/* In an ordered flow: where a target was behind each tuple, or 0. */
	_Atomic uint64_t position[OPEN_ALL_STAYS][OPEN_TUPLES];
	/* How a target saw a source leave: enum dfi_event_type. */
	uint8_t fate[OPEN_ALL_STAYS][OPEN_ALL_STAYS];
	/* The last tuple of a source that a target got (n + 1). */
	uint32_t last_of[OPEN_ALL_STAYS][OPEN_ALL_STAYS];
	struct replay_board replay;
	struct combine_board combine;
};

/*
 * A time that is later than all that others have noted before. Clocks of
 * machines differ: it is of the process that judges, which raises clock_ns.
 */
static inline int64_t open_stamp(struct open_board *board)
{
	return atomic_fetch_add(&board->clock_ns, 1) + 1;
}

/* The main() of a process: open_chaos worker BOARD_FD SEED VOLUME ... */
int open_worker(int argc, char **argv);

/* A stay that has ended, and harmed nobody. */
bool open_is_whole(
    const struct open_plan *plan, const struct open_board *board, uint32_t id);

/* Judges print each violation, and add it to the verdict. */
void open_judge(const struct open_plan *plan, const struct open_board *board,
    uint32_t volume, struct open_verdict *verdict);
void open_combine_judge(const struct open_plan *plan,
    const struct open_board *board, struct open_verdict *verdict);
/* With replay: a process has ended. */
void open_replay_release(struct open_board *board, uint32_t process);
void open_replay_judge(const struct open_plan *plan,
    const struct open_board *board, struct open_verdict *verdict);
void open_print_board(const struct open_plan *plan,
    const struct open_board *board, uint32_t volume);

#endif
