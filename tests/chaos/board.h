/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board: memory that the processes of a run share with the one that judges
 * it, and that survives them. Each endpoint's place is written by its own
 * thread.
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

/* Of an ordered flow, the tuples of a target whose order is noted. */
#define MAX_ORDER (1u << 18)

struct end_board {
	_Atomic uint32_t state; /* enum end_state */
	int32_t ret;            /* how the stream ended: an error, or 0 */
	int32_t close_ret;
	uint32_t pid;
	int64_t acted_ns;    /* just before it does what its plan says */
	bool cancelled;      /* so far it is a target that has */
	bool damaged;        /* a tuple was not what it should be */
	uint32_t refused_by; /* targets that told -EPIPE, a bit each */
	/* For each target of a source, each source of a target. */
	_Atomic uint64_t tuples[MAX_ENDS];
	_Atomic uint64_t flushed[MAX_ENDS];
	int64_t opening_ns, opened_ns, closing_ns, closed_ns;
	_Atomic int64_t entered_ns; /* the last call that may wait */
	int64_t failed_ns;
	char text[512]; /* of ret, and what is damaged */
	/* From which source each tuple came, and how many were noted. */
	_Atomic uint32_t n_order;
	uint8_t order[MAX_ORDER];
};

struct process_board {
	uint32_t pid;
	_Atomic int64_t died_ns; /* about to, by its own hand */
	int32_t ret;    /* of dfi_open(), flow_create() or dfi_close() */
	char text[512]; /* of ret */
	bool met;       /* it was at the barrier, or is refused there */
	int32_t meet_ret;
	int64_t meeting_ns, met_ns;
	char meet_text[512];      /* of meet_ret */
	_Atomic int64_t ready_ns; /* the creator's flow is there since then */
};

struct board {
	struct end_board ends[MAX_ENDS];
	struct process_board processes[MAX_PROCESSES + 1];
};

#endif
