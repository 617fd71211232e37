/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of all targets that scale measures. One thread of it does what
 * the sources' process orders, one order after another, through memory that
 * both share. Functions print an error where they find it, and then return
 * false.
 */
#ifndef DFI_BENCH_SCALE_TARGETS_H
#define DFI_BENCH_SCALE_TARGETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "../common/children.h"
#include "options.h"
#include "plan.h"

#define SCALE_TUPLE 64 /* bytes */
#define SCALE_MAX 4096 /* flows, targets, or sources */

enum order {
	ORDER_OPEN = 0, /* a context, and all targets */
	ORDER_POLL,     /* find nothing n_polls times */
	ORDER_RECEIVE,  /* until `stop` */
	ORDER_CLOSE,
	ORDER_END, /* the process */
};

struct scale_board {
	_Atomic uint32_t ordered; /* numbers of orders */
	_Atomic uint32_t done;
	uint32_t order; /* enum order */
	bool succeeded; /* the last one */

	/* What the sources' process says before it orders. */
	char registry[256];
	int32_t cpu;        /* the thread's; -1: any */
	uint32_t n_flows;   /* with names */
	uint32_t n_targets; /* of each flow */
	uint32_t n_sources; /* of each flow */
	uint64_t n_polls;

	/* What it is told. */
	uint64_t open_ns;    /* to open all targets */
	double poll_ns;      /* of a poll that finds nothing: the mean */
	int32_t files;       /* open descriptors, opened since ORDER_OPEN */
	uint64_t sum;        /* of the words that arrived */
	uint64_t bad_tuples; /* while they are checked */

	char names[SCALE_MAX][PLAN_NAME_SIZE];

	_Alignas(128) _Atomic uint64_t heard; /* tuples */
	_Alignas(128) _Atomic bool stop;
	_Atomic bool failed;
	_Atomic bool checks; /* the order and the words of each tuple */
};

/*
 * Start the process, before this one has a context. NULL after a complaint.
 * scale_targets_end() also after NULL.
 */
struct scale_board *scale_targets_start(struct children *children);
void scale_targets_end(struct scale_board *board, struct children *children);

/* Order something, and not wait for it. */
void scale_order(struct scale_board *board, enum order order);

/* Wait until that is done. false: it failed, took too long, or nobody lives. */
bool scale_wait(
    struct scale_board *board, struct children *children, uint64_t timeout_ns);

/* How many descriptors this process has open; -1: they cannot be counted. */
int scale_files(void);

/*
 * Run the only thread that calls this on a processor, or, with -1, on all that
 * it had at first.
 */
bool scale_pin(int32_t cpu);

#endif
