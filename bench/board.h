/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board: memory that dfi-bench shares with its worker processes. It has the
 * plan of the round, the words that start and end the round, a seat for each
 * worker thread, and a data area for hand-written rings.
 *
 * A round: the parent writes the plan and raises `command`. Every thread
 * prepares and adds itself to `ready`. The parent raises `go`. Every thread
 * runs, cleans up and adds itself to `done`. Waits use futexes, so that nothing
 * disturbs the measured threads.
 */
#ifndef DFI_BENCH_BOARD_H
#define DFI_BENCH_BOARD_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <dfi/context.h>
#include "../common/stats.h"
#include "link.h"
#include "plan.h"

enum role {
	ROLE_SOURCE = 0,
	ROLE_TARGET,
};

#define SEAT_ERROR_SIZE 512

/* With modelled links: nodes, or targets without nodes. */
#define MAX_NODES 64

/* What a process had its devices do so far, and what it holds of them now. */
struct device_use {
	uint64_t requests, completions;
	uint32_t queue_pairs;
	uint32_t notify; /* as in struct tally */
	char device[64]; /* the first; "": none was needed */
};

/* One worker thread: its place, and the results of its last round. */
struct seat {
	alignas(2 * RAW_LINE) uint32_t role; /* enum role */
	uint32_t number;                     /* among the seats of its role */
	uint32_t process;
	uint32_t active; /* it takes part in this round */
	int32_t listed;  /* its processor in a list, set before the worker
			    starts; -1: there is no list */
	int32_t cpu;     /* the processor of this round; -1: any */
	int32_t status;  /* 0, or a negative errno value */
	char error[SEAT_ERROR_SIZE];
	uint64_t begin_ns, end_ns;
	uint64_t tuples;
	uint64_t sum;       /* of all words */
	uint64_t bad;       /* tuples out of order, misrouted or damaged */
	uint64_t preempted; /* how often the thread lost its processor */
	uint64_t seen_ns;   /* JOB_IDLE: how long it was watched, and */
	uint64_t used_ns;   /* the processor time of its thread */
	uint64_t spent_ns;  /* and of its process */
	uint64_t segments;  /* sent */
	uint64_t bulk;      /* tuples, beside an echo */
	uint64_t copied;    /* bytes written to send them */
	uint64_t cpu_ns;    /* processor time of the thread in the run */
	/* The counters of its process before and after the run. */
	struct device_use before, after;
};

struct board {
	_Atomic uint32_t command; /* number of the current round */
	_Atomic uint32_t go;
	_Atomic uint32_t ready; /* threads, in this round */
	_Atomic uint32_t done;
	_Atomic uint32_t stop;   /* no more rounds */
	_Atomic uint32_t cancel; /* a thread could not prepare: don't run */
	_Atomic uint32_t failed; /* a seat has an error in this round */
	uint32_t n_seats;
	uint32_t n_sources; /* seats; those of targets follow */
	int32_t parent;     /* process id */
	uint64_t size;      /* of the whole board */
	uint64_t data_offset;
	char registry[256]; /* address; empty: the library is not used */
	struct plan plan;
	struct histogram trips; /* JOB_ECHO_*: in ticks */
	struct link_word links[N_DIRECTIONS][MAX_NODES];
	double ticks_per_ns;
	double seconds; /* JOB_RIVAL: by its own clock; 0: it has none */
	struct seat seats[];
};

/*
 * Create a board, which is zero except for its sizes. NULL after printing an
 * error.
 */
struct board *board_create(
    uint32_t n_sources, uint32_t n_target_threads, uint64_t data_size, int *fd);

/* Map the parent's board. NULL with errno. */
struct board *board_attach(int fd);

void board_detach(struct board *board);

/* Replace the data area with fresh zeroed memory. 0 or a negative errno. */
int board_clear_data(struct board *board);

static inline char *board_data(struct board *board)
{
	return (char *)board + board->data_offset;
}

/* Add 1 or set a word, and wake its waiters. */
void board_add(_Atomic uint32_t *word);
void board_set(_Atomic uint32_t *word, uint32_t value);

/* Wait until word >= value. false: deadline_ns (monotonic) has passed. */
bool board_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns);

#define NO_DEADLINE UINT64_MAX

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	    (uint64_t)now.tv_nsec;
}

#endif
