/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of the replicated store as processes, with faults: what the runner, its
 * clients and its replicas share. Clients are processes, too: they note what
 * they ask and are told in memory that they share with the runner, so that it
 * is there also of one that was killed.
 */
#ifndef DFI_TESTS_CONSENSUS_FAULTS_H
#define DFI_TESTS_CONSENSUS_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../linearizability/history.h"

#define FAULTS_CLIENTS 3
#define FAULTS_LANES 4
#define FAULTS_KEYS 12
#define FAULTS_MAX_OPS 200000 /* of a client */
#define FAULTS_MAX_REPLICAS 5

struct note {
	struct lin_op op; /* LIN_UNKNOWN until done */
	atomic_bool done;
};

struct client_notes {
	atomic_uint n; /* begun */
	atomic_uint n_ok;
	_Atomic uint64_t last_invoked; /* of those that succeeded, the latest
					  time of invocation */
	struct note notes[FAULTS_MAX_OPS];
};

struct board {
	atomic_bool stop;
	atomic_int leader; /* as client 0 sees it; -1: none */
	struct client_notes clients[FAULTS_CLIENTS];
};

enum fault {
	KILL_LEADER = 0,
	KILL_FOLLOWER,
	STOP_LEADER,
	STOP_FOLLOWER,
	KILL_ALL,
	KILL_REGISTRY, /* and then the leader */
	KILL_CLIENT,
	STOP_CLIENT,
	KILL_TWO_LEADERS,
	N_FAULTS,
};

struct plan {
	uint64_t seed;
	enum fault fault;
	unsigned n_replicas;
	bool log;    /* with --log */
	bool forget; /* what is killed begins without its log */
	bool index_reads;
	bool nopaxos;
	bool flows; /* with --wiring flows */
	bool drop;  /* with nopaxos: segments are lost */
	unsigned delay_ms, stop_ms;
};

struct result {
	double service_ms; /* from the fault until there is service again */
	unsigned n_before, n_after;
	size_t n_unknown;
	bool killed_leader, killed_replica;
	double pause_ms; /* 0: no replica has come back without its log */
};

/* A run that has ended. */
struct outcome {
	struct plan plan;
	struct result result;
	bool good;
};

/* What all runs use. */
struct setting {
	const char *bin;   /* folder of the programs */
	const char *where; /* folder for logs */
	char registry[64];
	bool verbose;
	bool flows;           /* all plans */
	unsigned election_ms; /* 0: the replica's default */
	unsigned open_ms;     /* a client's wait limit at first */
	unsigned think_ms;    /* of a lane, between commands; at least 1 */
};

struct cluster {
	const struct setting *setting;
	const struct plan *plan;
	char name[32];
	pid_t registry;
	pid_t replicas[FAULTS_MAX_REPLICAS]; /* 0: does not run */
};

/* faults_client.c: CLOCK_MONOTONIC */
uint64_t faults_now(void);

/* faults_cluster.c: what fails is said. */
bool registry_start(const struct setting *setting, pid_t *registry);
void process_end(pid_t *pid); /* kill -9, and wait */
bool replica_start(struct cluster *cluster, unsigned number, bool first);
void replica_forget(struct cluster *cluster, unsigned number);
void cluster_end(struct cluster *cluster);
/* Whether the replicas come to hold the same, in time; or to be members. */
bool cluster_agrees(struct cluster *cluster, unsigned timeout_ms);
bool cluster_is_whole(struct cluster *cluster, unsigned timeout_ms);

/*
 * Whether the four flows of a leader come to carry requests, accepts, votes and
 * replies, in time; and it has given up at least as many before.
 */
bool cluster_uses_flows(
    struct cluster *cluster, unsigned n_ended, unsigned timeout_ms);

/* faults_client.c: a client in a process of its own. */
pid_t client_start(
    const struct cluster *cluster, struct board *board, unsigned number);

/* faults_report.c */
extern const char *const fault_names[N_FAULTS];
void report_run(const struct outcome *outcome);
/* False: memory is short, or a run was bad. */
bool report_all(const struct outcome *outcomes, unsigned n);

/* faults_history.c: what the clients noted; false: no memory, or no file. */
bool history_gather(
    const struct board *board, struct lin_history *history, size_t *n_unknown);
bool history_save(const struct lin_history *history, const char *name);
/* Whether it is linearizable. */
bool history_check(
    const struct board *board, const struct plan *plan, size_t *n_unknown);

#endif
