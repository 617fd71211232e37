/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board: memory that the processes of a run share with the judging process.
 * It survives them. Each endpoint's thread writes its own entry.
 */
#ifndef DFI_TESTS_CHAOS_BOARD_H
#define DFI_TESTS_CHAOS_BOARD_H

#include <stdatomic.h>

#include "plan.h"

enum end_state {
	END_IDLE,
	END_OPENING,
	END_OPEN,
	END_CLOSING,
	END_CLOSED,
	END_REFUSED, /* it could not be opened */
};

/* The most tuples of a target in an ordered flow whose order is recorded. */
#define MAX_ORDER (1u << 18)

struct end_board {
	_Atomic uint32_t state; /* enum end_state */
	int32_t ret;            /* the end of the stream: an error, or 0 */
	int32_t close_ret;
	uint32_t pid;
	int64_t acted_ns;    /* just before it acts as its plan says */
	bool cancelled;      /* a target that has cancelled so far */
	bool damaged;        /* a tuple was wrong */
	uint32_t refused_by; /* targets that returned -EPIPE, a bit for each */
	/* For each target of a source, each source of a target. */
	_Atomic uint64_t tuples[MAX_ENDS];
	_Atomic uint64_t flushed[MAX_ENDS];
	int64_t opening_ns, opened_ns, closing_ns, closed_ns;
	_Atomic int64_t entered_ns; /* its last call that may wait */
	int64_t failed_ns;
	char text[512]; /* of ret, and of a wrong tuple */
	/* The source of each tuple, and how many are recorded. */
	_Atomic uint32_t n_order;
	uint8_t order[MAX_ORDER];
};

struct process_board {
	uint32_t pid;
	_Atomic int64_t died_ns; /* it is about to kill itself */
	int32_t ret;    /* of dfi_open(), flow_create() or dfi_close() */
	char text[512]; /* of ret */
	bool met;       /* it was at the barrier, or was refused there */
	int32_t meet_ret;
	int64_t meeting_ns, met_ns;
	char meet_text[512];      /* of meet_ret */
	_Atomic int64_t ready_ns; /* since then the creator's flow exists */
	int64_t closed_ns[2];     /* since then a context is closed, or 0 */
};

struct board {
	struct end_board ends[MAX_ENDS];
	struct process_board processes[MAX_PROCESSES + 1];
};

#endif
