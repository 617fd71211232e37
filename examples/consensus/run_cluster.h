/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replicated store on one machine: a registry, replicas, and an observer that
 * asks these for their state, one process each. They always end with this
 * process, which opens no context of the library itself.
 */
#ifndef KV_RUN_CLUSTER_H
#define KV_RUN_CLUSTER_H

#include <stdbool.h>
#include <sys/types.h>
#include "../../common/children.h"
#include "message.h"

#define RUN_CLUSTER "kv-run"
#define RUN_MAX_ADDRESS 128
#define RUN_NO_CHILD UINT32_MAX

/* The report of a replica about itself. */
struct run_replica {
	bool answers;
	bool leads;
	uint64_t ballot;
	uint64_t messages; /* to other replicas, of the protocol */
	uint64_t segments; /* of flows, to replicas and clients */
	uint64_t chosen;   /* all slots up to this are chosen, as it knows */
	uint64_t applied;  /* slot up to which it has applied all */
	uint64_t snapshots_loaded;
	uint64_t by_flows; /* of the messages, by the flow to all */
};

struct run_observation {
	int leader; /* of those that say that they lead, with the highest
		       ballot; -1: none */
	struct run_replica replicas[KV_MAX_REPLICAS];
};

struct run_options {
	const char *protocol;
	bool flows; /* --wiring flows */
	uint32_t replicas;
	const char *log;     /* folder; NULL: none */
	uint32_t memory_mib; /* --memory */
	bool verbose;
};

struct run_page; /* what the processes share */

struct run_cluster {
	struct run_options options;
	struct run_page *page;
	struct children children;
	uint32_t registry, observer; /* children, by index */
	uint32_t replicas[KV_MAX_REPLICAS];
	char program[4096];               /* dfi-kv */
	char where[RUN_MAX_ADDRESS + 32]; /* for load_kv */
	uint32_t n_killed;                /* by run_cluster_kill() */
	uint32_t next;                    /* replica to be forked */
	bool bootstrap;
};

/* Start all, and wait until the store serves. 0, or -1 after a complaint. */
int run_cluster_start(
    struct run_cluster *cluster, const struct run_options *options);

/* End the remaining processes. 0, or -1 if a process ended badly. */
int run_cluster_end(struct run_cluster *cluster);

/*
 * Whether all processes run that were not killed here. 0, or -1 after a
 * complaint.
 */
int run_cluster_check(struct run_cluster *cluster);

/* Ask all replicas. 0, or -1 if the observer does not answer. */
int run_cluster_observe(
    struct run_cluster *cluster, struct run_observation *observation);

/* Send SIGKILL, and wait for the end. child: an index of children. */
void run_cluster_kill(struct run_cluster *cluster, uint32_t child);

/* SIGSTOP, and SIGCONT for one that was stopped. */
void run_cluster_stop(struct run_cluster *cluster, uint32_t child);
void run_cluster_continue(struct run_cluster *cluster, uint32_t child);

/* Start a replica that was killed again. */
int run_cluster_restart(struct run_cluster *cluster, uint32_t replica);

static inline pid_t run_cluster_pid(
    const struct run_cluster *cluster, uint32_t child)
{
	return cluster->children.list[child].pid;
}

#endif
