/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a history linearizable? Each key is a separate register, so keys are
 * checked one by one (Herlihy and Wing: linearizability is local). The check is
 * the search of Wing and Gong with the memory of Lowe ("Testing for
 * linearizability", 2017): it tries each set of operations with a value only
 * once.
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

/* Where a history is wrong: the last key that was checked. */
struct lin_verdict {
	enum lin_answer answer;
	uint64_t key;
	size_t n_ops;        /* of the key */
	size_t n_explained;  /* the most of them that can be ordered */
	uint64_t value;      /* of the key after these */
	struct lin_op stuck; /* it returned, but can't be ordered after these */
	bool noted;          /* the three fields above are of this key */
	uint64_t n_steps;    /* steps of the search, over all keys */
};

/* Memory that several checks reuse. NULL: no memory. */
struct lin_checker *lin_checker_new(void);
void lin_checker_free(struct lin_checker *checker);

/* The keys have no value at first. */
enum lin_answer lin_check(struct lin_checker *checker, const struct lin_op *ops,
    size_t n, struct lin_verdict *verdict);

#endif
