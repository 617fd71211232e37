/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of the store that is killed while a load runs: when, how long no
 * request ended, and what the clients saw around it.
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
	RUN_REGISTRY,
};

struct run_failover {
	enum run_victim victim;
	uint64_t after_ns;   /* of the measured time */
	uint64_t restart_ns; /* until it is started again; 0: never */
	bool live;           /* print rows as they come */
	struct run_cluster *cluster;
	uint32_t clients;

	/* What has happened. */
	bool killed, restarted;
	int replica;                  /* that was killed, or -1 */
	double killed_s, restarted_s; /* in the measured time */
	int leader_before, leader_after;
	uint32_t shown; /* rows of 100 ms that are done with */
	bool told_kill, told_restart;
	double bar; /* requests of a mark in the rows */
};

/*
 * To be called as often as the load tells of its progress: kills, starts again,
 * prints. 0, or -1 after a complaint.
 */
int run_failover_step(
    struct run_failover *failover, const struct load_progress *progress);

/* What a result says about it. */
struct run_gap {
	double before, after; /* requests a second, without the gap */
	double ms;            /* longest time without an end of a request */
	double begin_s;       /* of that, in the measured time */
};
void run_failover_gap(const struct run_failover *failover,
    const struct load_result *result, struct run_gap *gap);

void run_failover_print(
    const struct run_failover *failover, const struct load_result *result);
json_t *run_failover_json(
    const struct run_failover *failover, const struct load_result *result);

/* Throughput in steps of 100 ms, and closer around the fault. 0, or -1. */
int run_failover_plot(const char *file, const struct run_failover *failover,
    const struct load_result *result);

#endif
