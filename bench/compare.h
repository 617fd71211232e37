/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures several sides in turns: A B A B, so that other activity on the
 * machine affects all sides alike.
 */
#ifndef DFI_BENCH_COMPARE_H
#define DFI_BENCH_COMPARE_H

#include <jansson.h>

#include "options.h"
#include "runner.h"
#include "session.h"

/* One of the sides compared. */
struct side {
	struct plan plan;
	struct raw_geometry asked; /* of its flows; 0: the library chooses */
	double values[STATS_MAX_VALUES]; /* one for each round */
	uint32_t n_values;
	uint64_t preempted;                       /* in all counted rounds */
	double seconds;                           /* of them, */
	uint64_t tuples, bulk;                    /* and what came in them */
	uint64_t segments, requests, completions; /* in these rounds as well */
	/*
	 * In the last round: the bytes that sources wrote, and the tuples (for
	 * a combiner flow, the bytes) that targets received.
	 */
	uint64_t copied, received;
	/* Processor time of sources, and of targets, for a tuple. */
	double source_ns[STATS_MAX_VALUES], target_ns[STATS_MAX_VALUES];
	uint32_t queue_pairs,
	    notify; /* as in struct tally; datagrams as well */
	char device[64];
	bool verified;           /* every round was right, including checks */
	struct histogram *trips; /* of all rounds, if not NULL */
	double ticks_per_ns;     /* of the last round */
};

struct comparison {
	struct runner *runner;
	struct session *session; /* NULL: no side uses flows */
	const struct common_options *options;
	struct side *sides;
	uint32_t n_sides;
	const char *smaller; /* advice if memory is short: what to reduce */
	/* The value of a round. */
	double (*value)(const struct side *side, const struct board *board,
	    const struct outcome *outcome);
};

/* Add to a row how a flow's tuples travelled. */
void compare_report_travel(
    json_t *row, const struct session *session, const struct side *side);

/* Add the processor time of both ends for a tuple. */
void compare_report_cpu(json_t *row, const struct side *side);

/* Payload that sources send, in 1e9 bytes a second. */
double value_bandwidth(const struct side *side, const struct board *board,
    const struct outcome *outcome);

/* Add the modelled links of a side as its baseline. */
void compare_report_link(json_t *row, const struct side *side);

/* Whether the rounds of a plan use flows. */
bool compare_uses_flows(const struct plan *plan);

/* Sets the plan's volume: the bytes that the sources push together. */
void compare_set_volume(struct plan *plan, double bytes);

/*
 * Starts the runner of a comparison, unless a round of some side needs more
 * memory than there is. Sets the size of the board's data area.
 */
bool compare_start(struct comparison *comparison,
    const struct runner_attr *attr, struct runner *runner);

/* One round of a side; counts: its value is added, as it is no warm-up. */
bool compare_round(struct comparison *comparison, struct side *side,
    bool counts, struct outcome *outcome);

/* One warm-up round of each side, then repeat rounds in turns. */
bool compare_rounds(struct comparison *comparison);

/*
 * The same for bandwidths. It checks the content if asked to. It first sets the
 * volume of a round, from the options or from what the sides move in
 * options->seconds. It starts and stops the runner.
 */
bool compare_bandwidths(
    struct comparison *comparison, const struct runner_attr *attr);

#endif
