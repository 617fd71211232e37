/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring several sides in turns: A B A B, so that whatever else happens on
 * the machine hits all of them alike.
 */
#ifndef DFI_BENCH_COMPARE_H
#define DFI_BENCH_COMPARE_H

#include <jansson.h>

#include "options.h"
#include "runner.h"
#include "session.h"

/* One of the things compared. */
struct side {
	struct plan plan;
	struct raw_geometry asked; /* of its flows; 0: the library's choice */
	double values[STATS_MAX_VALUES]; /* one a round */
	uint32_t n_values;
	uint64_t preempted;                       /* in all counted rounds */
	uint64_t segments, requests, completions; /* in them, too */
	/*
	 * In the last round: bytes written by sources; tuples of targets, but
	 * bytes of a combiner flow's.
	 */
	uint64_t copied, received;
	double source_ns[STATS_MAX_VALUES]; /* processor time for a tuple */
	uint32_t queue_pairs, notify;       /* as in struct tally; datagrams,
					       too */
	char device[64];
	bool verified;           /* every round was right, checks included */
	struct histogram *trips; /* of all rounds, if not NULL */
	double ticks_per_ns;     /* of the last round */
};

struct comparison {
	struct runner *runner;
	struct session *session; /* NULL: no side uses flows */
	const struct common_options *options;
	struct side *sides;
	uint32_t n_sides;
	const char *smaller; /* advice where memory is short: what to choose */
	/* What a round is worth. */
	double (*value)(const struct side *side, const struct board *board,
	    const struct outcome *outcome);
};

/* What a row says of how a flow's tuples travelled. */
void compare_report_travel(
    json_t *row, const struct session *session, const struct side *side);

/* Payload bytes that sources send a second, in 1e9. */
double value_bandwidth(const struct side *side, const struct board *board,
    const struct outcome *outcome);

/* Whether the rounds of a plan go through flows. */
bool compare_uses_flows(const struct plan *plan);

/* Sets the plan's volume: the sources together push so many bytes. */
void compare_set_volume(struct plan *plan, double bytes);

/*
 * Starts the runner of a comparison, unless a round of any side needs more
 * memory than there is. The size of the board's data area is set here.
 */
bool compare_start(struct comparison *comparison,
    const struct runner_attr *attr, struct runner *runner);

/* One round of one side; its value is added unless it is a warm-up. */
bool compare_round(struct comparison *comparison, struct side *side,
    bool counts, struct outcome *outcome);

/* One round each, then repeat rounds in turns. */
bool compare_rounds(struct comparison *comparison);

/*
 * The same for bandwidths: the content is checked if asked for, and the volume
 * of a round is set first, from the options or from what the sides move in
 * options->seconds. The runner is started and stopped here.
 */
bool compare_bandwidths(
    struct comparison *comparison, const struct runner_attr *attr);

#endif
