/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of the store, or a client, is killed or stopped while a load runs.
 * The result has the time, the longest gap without an end of a request, the
 * view of the clients around it, and the time that a stopped replica took to
 * catch up.
 */
#ifndef KV_RUN_FAILOVER_H
#define KV_RUN_FAILOVER_H

#include <jansson.h>
#include "load_group.h"
#include "run_cluster.h"

enum run_victim {
	RUN_NONE = 0,
	RUN_LEADER,
	RUN_FOLLOWER,
	RUN_REGISTRY, /* only killed */
	RUN_CLIENT,   /* the first one, only stopped */
};

struct run_failover {
	enum run_victim victim;
	bool stops;          /* and continued; otherwise it is killed */
	uint64_t after_ns;   /* of the measured time */
	uint64_t restart_ns; /* killed: until it is started again; 0: never */
	uint64_t stop_ns;    /* stopped: for so long */
	bool live;           /* print rows as they come */
	struct run_cluster *cluster;
	const struct load_plan *plan;

	/* The events; times are in the measured time. */
	bool struck; /* killed, or stopped */
	bool back;   /* started again, or continued */
	bool caught_up;
	bool by_snapshot; /* it caught up by a snapshot, not by the log alone */
	int replica;      /* that was struck, or -1 */
	double struck_s, back_s, caught_up_s;
	int leader_before, leader_after;
	uint64_t snapshots; /* that the replica had loaded before */
	uint64_t goal;      /* slot that it has to apply; 0: not yet known */
	uint32_t shown;     /* rows of 100 ms that are done with */
	bool printed_struck, printed_back, printed_caught_up;
	double bar; /* requests of a mark in the rows */
};

extern const char *const run_victims[]; /* their names */

/*
 * Call it as often as the load reports progress. It kills or stops, starts
 * again or continues, and prints. Returns 0, or -1 after a complaint.
 */
int run_failover_step(
    struct run_failover *failover, const struct load_progress *progress);

/* How long the process is away; 0: for ever. */
static inline uint64_t run_failover_away(const struct run_failover *failover)
{
	return failover->stops ? failover->stop_ns : failover->restart_ns;
}

/* The summary of a result. */
struct run_gap {
	/*
	 * Requests a second: before; while the process was stopped; and after
	 * the gap, or after the process went on.
	 */
	double before, during, after;
	double ms;      /* longest time without an end of a request */
	double begin_s; /* of that, in the measured time */
};
void run_failover_gap(const struct run_failover *failover,
    const struct load_result *result, struct run_gap *gap);

void run_failover_print(
    const struct run_failover *failover, const struct load_result *result);
json_t *run_failover_json(
    const struct run_failover *failover, const struct load_result *result);

/*
 * Print throughput in steps of 100 ms, and closer around the fault. 0, or -1.
 */
struct result_file;
int run_failover_plot(struct result_file *file,
    const struct run_failover *failover, const struct load_result *result);

#define RUN_ROW_NS UINT64_C(100000000)
#define RUN_ROW_SLOTS (RUN_ROW_NS / LOAD_SLOT_NS)

#endif
