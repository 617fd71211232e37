/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of the replicated store as processes, with faults: shared by the runner,
 * its clients and its replicas. Clients are processes as well. They record
 * their requests and answers in memory shared with the runner, so that the
 * records of a killed client survive.
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
	atomic_uint n; /* begun ones */
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
	KILL_REGISTRY, /* and the leader after it */
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
	bool forget; /* a killed replica restarts without its log */
	bool index_reads;
	bool nopaxos;
	bool flows; /* with --wiring flows */
	bool drop;  /* with nopaxos: segments are lost */
	unsigned delay_ms, stop_ms;
};

struct result {
	double service_ms; /* from the fault until service resumes */
	unsigned n_before, n_after;
	size_t n_unknown;
	bool killed_leader, killed_replica;
	double pause_ms; /* 0: no replica came back without its log */
};

/* A run that has ended. */
struct outcome {
	struct plan plan;
	struct result result;
	bool good;
};

/* The settings of all runs. */
struct setting {
	const char *bin;   /* folder of the programs */
	const char *where; /* folder for logs */
	char registry[256];
	bool verbose;
	bool flows;           /* for all plans */
	unsigned election_ms; /* 0: the replica's default */
	unsigned open_ms;     /* a client's first wait limit */
	unsigned think_ms;    /* a lane's pause between commands; at least 1 */
};

struct cluster {
	const struct setting *setting;
	const struct plan *plan;
	char name[32];
	pid_t registry;
	pid_t replicas[FAULTS_MAX_REPLICAS]; /* 0: not running */
};

/* faults_client.c: CLOCK_MONOTONIC */
uint64_t faults_now(void);

/* faults_cluster.c: these print their errors. */
bool registry_start(const struct setting *setting, pid_t *registry);
void process_end(pid_t *pid); /* kill -9, and wait */
bool replica_start(struct cluster *cluster, unsigned number, bool first);
void replica_forget(struct cluster *cluster, unsigned number);
void cluster_end(struct cluster *cluster);
/*
 * Wait until the replicas hold the same, or are all members; false: too late.
 */
bool cluster_agrees(struct cluster *cluster, unsigned timeout_ms);
bool cluster_is_whole(struct cluster *cluster, unsigned timeout_ms);

/*
 * Wait until the leader's flows carry ACCEPT to so many followers, and votes.
 * False: too late.
 */
bool cluster_uses_flows(
    struct cluster *cluster, unsigned n_followers, unsigned timeout_ms);

/* faults_client.c: a client in a process of its own. */
pid_t client_start(
    const struct cluster *cluster, struct board *board, unsigned number);

/* faults_report.c */
extern const char *const fault_names[N_FAULTS];
void report_run(const struct outcome *outcome);
/* False: no memory, or a run was bad. */
bool report_all(const struct outcome *outcomes, unsigned n);

/*
 * faults_history.c: the records of the clients. False: no memory, or no file.
 */
bool history_gather(
    const struct board *board, struct lin_history *history, size_t *n_unknown);
bool history_save(const struct lin_history *history, const char *name);
/* Whether that history is linearizable. */
bool history_check(
    const struct board *board, const struct plan *plan, size_t *n_unknown);

#endif
