/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a history linearizable? Each key is a register of its own, so keys are
 * checked one by one (Herlihy and Wing: linearizability is local), each by the
 * search of Wing and Gong with the memory of Lowe ("Testing for
 * linearizability", 2017): a set of operations and a value that were reached
 * once are not tried again.
 */
#ifndef LINEARIZABILITY_CHECKER_H
#define LINEARIZABILITY_CHECKER_H

#include <stdbool.h>

#include "history.h"

struct lin_checker;

enum lin_answer {
	LIN_RIGHT,
	LIN_WRONG,
	LIN_UNDECIDED, /* the search became too large */
	LIN_NO_MEMORY,
};

/* Where a history is wrong: the last key that was looked at. */
struct lin_verdict {
	enum lin_answer answer;
	uint64_t key;
	size_t n_ops;        /* of the key */
	size_t n_explained;  /* the most of them that have an order */
	uint64_t value;      /* of the key behind these */
	struct lin_op stuck; /* it returned, and has no place behind them */
	bool noted;          /* the three above are of this key */
	uint64_t n_steps;    /* that the search took, over all keys */
};

/* Memory that checks use again. NULL: none. */
struct lin_checker *lin_checker_new(void);
void lin_checker_free(struct lin_checker *checker);

/* The keys have no value at the beginning. */
enum lin_answer lin_check(struct lin_checker *checker, const struct lin_op *ops,
    size_t n, struct lin_verdict *verdict);

#endif
