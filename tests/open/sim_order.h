/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ordered flow in virtual time: rings to all targets, counters, and changes
 * of view (O1 to O6, J1). A run has either this or partitions.
 *
 *	sim_order.c         the plan, and the verdict: all deliver the same
 *	sim_order_source.c  numbers, segments and flushes
 *	sim_order_target.c  delivering, reports and decisions
 */
#ifndef TESTS_OPEN_SIM_ORDER_H
#define TESTS_OPEN_SIM_ORDER_H

#include "flows/open/ordered.h"

#define SIM_VIEWS 256
#define SIM_POSITIONS 256 /* of a view */

struct sim;
struct sim_end;
struct sim_ring;
struct sim_change;

/* What is known of a position that some target is done with. */
enum sim_fate {
	SIM_UNKNOWN = 0,
	SIM_DELIVERED,
	SIM_GAP,
};

struct sim_view {
	uint64_t counter; /* the next number */
	/* Of each position: who has sent it, and which of its segments; 0. */
	uint64_t sender[SIM_POSITIONS], segment[SIM_POSITIONS];
	uint8_t fate[SIM_POSITIONS];
};

struct sim_ordered_source {
	uint64_t view; /* whose numbers it takes; 0: none now */
	uint64_t end;  /* behind its last position */
	uint64_t number, flushed, n_sent;
	bool has_number, sends, breaks;
	uint32_t next_target;
	struct sim_ring *rings[4], *to[4]; /* of each target's seat */
};

struct sim_ordered_pair {
	struct sim_ring *ring; /* NULL: free */
	uint64_t source, stop, delivered, last;
	uint32_t seat;
	bool due; /* its key has to be put */
	bool lost, ended, awaits_mark, settled;
};
#define SIM_ORDERED_PAIRS 32

struct sim_ordered_target {
	struct ordered_target core;
	struct sim_ordered_pair pairs[SIM_ORDERED_PAIRS];
	uint64_t before[4];
	bool met[4], knows_before, is_out;
	uint32_t n_before;
	/* The last views of which it has done this, or wants to. */
	uint64_t wants_cut, cut, decided, made_report, reported;
	uint8_t *report;
	size_t report_size;
	bool got[SIM_POSITIONS]; /* of the view that it delivers */
};

/* sim_order.c */
void sim_order_plan(struct sim *sim);
void sim_order_begin_view(struct sim *sim, uint64_t view);
struct sim_view *sim_order_view(struct sim *sim, uint64_t view);
/* A target is done with the view that it delivers. */
void sim_order_compare(struct sim_end *end);
/* It is no member of the next one. */
void sim_order_compare_part(struct sim_end *end);
bool sim_order_is_drained(struct sim *sim);
void sim_order_judge(struct sim *sim);

/* sim_order_source.c */
void sim_order_source_event(struct sim_end *end, uint32_t target, bool joined);
void sim_order_source_pair(
    struct sim_end *end, const struct sim_change *change);
void sim_order_source_act(struct sim_end *end);

/* sim_order_target.c */
void sim_order_target_event(
    struct sim_end *end, uint32_t source, uint64_t incarnation, bool joined);
void sim_order_target_act(struct sim_end *end);
void sim_order_target_free(struct sim_end *end);
bool sim_order_target_is_drained(const struct sim_end *end);

#endif
