/* SPDX-License-Identifier: Apache-2.0 */
/* What an actor of a process is, for runs without and with replay. */
#ifndef DFI_TESTS_CHAOS_OPEN_WORKER_H
#define DFI_TESTS_CHAOS_OPEN_WORKER_H

#include <pthread.h>

#include "open_plan.h"

#define MAX_RUN 16 /* tuples in a batch, or by a cursor */

/* What a target knows of the holder of a source's seat. */
struct holder {
	uint64_t incarnation; /* by events; 0: nobody */
	uint32_t stay;        /* id + 1, by the last tuple */
	uint64_t first;       /* by events: the number of its first tuple */
	bool lost;            /* with replay: the last holder, by events */
	uint64_t watermark;   /* with which it began to count */
};

struct replay_target;

struct actor {
	uint32_t number, id;
	struct stay_plan what;
	struct stay_board *at;
	pthread_t thread;
	struct dfi_source *source;
	struct dfi_target *target;
	uint32_t n_moved, flushed;
	uint32_t shift; /* to the next seat after -ENXIO */
	uint32_t rest;  /* seat + 1 of the rest of a batch; 0: none */
	char *tuples;   /* MAX_RUN of them */
	uint32_t next_n[OPEN_ALL_STAYS]; /* of each source's stay */
	/* With routing by keys: the same of each group, and what it owns. */
	uint32_t next_of[OPEN_ALL_STAYS][OPEN_GROUPS];
	bool owns[OPEN_PARTITIONS];
	uint64_t position; /* in an ordered flow, at the last tuple */
	struct holder of[OPEN_SEATS];
	struct replay_target *replay; /* with replay: what is not stored yet */
	uint32_t n_sources;           /* seats */
	uint64_t watermark;           /* by events */
	uint32_t mark, marked_n;      /* a source's last, and tuples before */
	int64_t gives_up_ns;          /* in a combiner flow; 0: not yet */
};

/* Count tuples that were moved, and pause as planned. */
void open_count_moved(struct actor *actor, uint32_t n);
/* Act as planned, if it is time: whether the stay is over. */
bool open_acts(struct actor *actor);
void open_note(struct actor *actor, enum open_harm harm, const char *text);
void open_note_wrong(struct actor *actor, const char *text); /* harmed */
/* After -EAGAIN. */
void open_wait_for(int fd);
void open_sleep_us(uint32_t us);
/* After -ENOMSG, without replay. */
void open_take_event(struct actor *actor);

/* ---- Combiner flows (open_combine.c) -------------------------------------
 */

/* Push all tuples of the stay in windows: 0, or an error. */
int open_combine_push(struct actor *actor, const struct open_plan *plan,
    struct open_board *board);

/* Note all results: 0 at the end, or an error. */
int open_combine_consume(struct actor *actor, const struct open_plan *plan,
    struct open_board *board);

/* ---- With replay (open_replay.c) ------------------------------------------
 */

/* A seat whose input has not been acknowledged whole, or DFI_ANY_SEAT. */
uint32_t open_replay_seat(const struct open_plan *plan,
    const struct open_board *board, uint32_t from);

/*
 * Read the input of a seat from where its last holder may have left something,
 * and push it: 0, or an error. *whole: to its end.
 */
int open_replay_push(
    struct actor *actor, const struct open_plan *plan, bool *whole);

size_t open_replay_target_size(void);

/* Consume, and store effects before they are acknowledged: 0 at the end. */
int open_replay_consume(struct actor *actor, const struct open_plan *plan,
    struct open_board *board);

#endif
