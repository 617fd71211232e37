/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of the threads of one round: pure data, which reaches the worker
 * processes through shared memory.
 */
#ifndef DFI_BENCH_PLAN_H
#define DFI_BENCH_PLAN_H

#include <stdint.h>
#include <dfi/push.h>
#include "raw.h"

enum job_kind {
	JOB_FLOW = 0,  /* tuples from sources to targets through a flow */
	JOB_RAW,       /* the same through hand-written rings */
	JOB_COPY,      /* one thread copies memory */
	JOB_ECHO_FLOW, /* request and response through two flows */
	JOB_ECHO_RAW,  /* the same through bare cache lines */
	JOB_IDLE,      /* a target waits for a source that sends nothing */
	JOB_SEQUENCER, /* sources take numbers from a sequencer */
	JOB_FETCH_ADD, /* the same from a bare word */
	JOB_COMBINE,   /* sums by key, through a combiner flow */
	JOB_FOLD,      /* the same by a loop over memory */
	JOB_RIVAL,     /* tuples, or round trips, without flows */
	N_JOBS,
};

/* How tuples enter and leave a flow. */
enum api {
	API_PUSH = 0, /* dfi_source_push, dfi_target_consume */
	API_CURSOR,   /* the cursors of both sides */
	API_BATCH,    /* dfi_source_push_batch, dfi_target_consume_batch */
	API_CLAIM,    /* claim and commit, dfi_target_consume_batch */
	N_APIS,
};

/* The cache lines of JOB_ECHO_RAW. */
enum echo {
	ECHO_TWO_LINES = 0, /* one for each direction */
	ECHO_ONE_LINE,      /* one for both */
	ECHO_YIELD,         /* two; the waiting end yields its processor */
	ECHO_RING,          /* a ring for each direction, with the tuples */
};

/* Who does JOB_RIVAL: rival.h. */
enum rival_kind {
	RIVAL_FABRIC = 0,
	RIVAL_IPERF3,
	RIVAL_SEND,
	RIVAL_ZEROMQ,
	RIVAL_PINGPONG,
	RIVAL_MEMCPY, /* from here on in memory */
	RIVAL_RAW,    /* hand-written rings, or cache lines */
	RIVAL_OPENMPI_SEND,
	RIVAL_OPENMPI_PUT,
	RIVAL_MPICH_SEND,
	RIVAL_MPICH_PUT,
	RIVAL_UCX_TAG,
	RIVAL_UCX_PUT,
	RIVAL_UCX_AM,
	RIVAL_FABRIC_SHM,
	RIVAL_PIPE,
	RIVAL_UNIX,
	RIVAL_ZEROMQ_IPC,
	RIVAL_NNG,
	RIVAL_OPENMPI_ALLTOALL,
	RIVAL_OPENMPI_ALLTOALLV,
	RIVAL_MPICH_ALLTOALL,
	RIVAL_MPICH_ALLTOALLV,
	RIVAL_OPENMPI_BCAST,
	RIVAL_OPENMPI_REDUCE,
	RIVAL_OPENMPI_THREADS,
	RIVAL_OPENMPI_PROCESSES,
	RIVAL_MPICH_BCAST,
	RIVAL_MPICH_REDUCE,
	RIVAL_MPICH_THREADS,
	RIVAL_MPICH_PROCESSES,
	N_RIVALS,
};

/* How the target of JOB_IDLE waits. */
enum how {
	HOW_CONSUME = 0, /* in dfi_target_consume(), by plan.wait */
	HOW_FD,          /* in poll(), on its descriptor */
	HOW_GROUP,       /* in poll(), on a group's descriptor */
	N_HOWS,
};

#define PLAN_NAME_SIZE 64

struct plan {
	uint32_t job; /* enum job_kind */
	uint32_t api;
	uint32_t echo;
	uint32_t routing; /* enum dfi_routing, for tuples pushed one by one */
	uint32_t wait;    /* enum dfi_wait */
	uint32_t n_sources;
	uint32_t n_targets;
	uint32_t n_target_threads; /* target t belongs to thread t mod this */
	uint32_t tuple_size;
	uint32_t batch;  /* tuples of a dfi_source_push_batch(), or numbers of a
			    dfi_sequencer_next() */
	uint32_t check;  /* verify the content of each tuple */
	uint32_t yields; /* raw rings: yield the processor while waiting */
	uint32_t copies; /* raw rings: make tuples outside and copy them in */
	uint32_t paired; /* source i sends to target i only */
	uint32_t is_open;     /* the membership of its flows; of one source */
	uint32_t replicates;  /* each tuple goes to all targets */
	uint32_t replication; /* enum dfi_replication, if it replicates */
	uint32_t ordered;     /* if it replicates */
	uint32_t datagrams;   /* segments go over RDMA, one for all */
	uint32_t combining;   /* enum dfi_source_combining, if it combines */
	uint32_t fan_in;      /* of the flow's tree; 0: none */
	uint32_t n_combiners; /* of the tree: threads after those of targets */
	uint32_t n_nodes;     /* ends of number i are on node i mod this; 0: all
				 sources on one, each target on its own */
	uint32_t slow_source; /* how many times as long the work of source 0 */
	uint32_t slow_target; /* and of target 0 takes; 0: they are not slow */
	uint64_t link_bandwidth; /* modelled, of each node, bytes/s; 0: none */
	uint64_t link_latency_ns;
	uint64_t n_groups; /* of sums by key; 0: one sum of all */
	uint64_t tuples; /* of each source; of an echo, round trips; or numbers
			    taken */
	uint64_t idle_ns;
	uint64_t
	    interval_ns; /* of an echo's requests; 0: one after the other */
	uint32_t window; /* an echo's requests on their way; 0: one */
	/* Of an echo: round trips that count as one value; 0: each does. */
	uint32_t trips_together;
	uint32_t bulk;  /* an echo has bulk data beside it */
	uint32_t how;   /* enum how */
	uint32_t rival; /* enum rival_kind */
	uint32_t trips; /* of a rival in memory: round trips, not tuples */
	uint32_t credit_interval;     /* segments that a raw ring's reader gives
					 back at a time; 0: a quarter */
	struct raw_geometry geometry; /* of raw rings; block size of a copy */
	char flow[PLAN_NAME_SIZE];    /* or the sequencer's name */
	char back[PLAN_NAME_SIZE];    /* the flow of the responses */
	char bulk_flow[PLAN_NAME_SIZE];
};

/* How many tuples the table has from which API_BATCH pushes repeatedly. */
uint64_t plan_table_tuples(const struct plan *plan);

/* Make a source's table; the caller frees it. NULL: no memory. */
char *plan_make_table(const struct plan *plan, uint32_t source);

/* The bytes of the tables of all sources of a round. */
uint64_t plan_tables_size(const struct plan *plan);

/*
 * A slot of ECHO_RING: a sequence number, and behind it the tuple, as a
 * latency flow has it: the first 48 B lie in the line of the number.
 */
#define ECHO_RING_FRONT 16

static inline size_t plan_echo_slot(const struct plan *plan)
{
	size_t size = ECHO_RING_FRONT + plan->tuple_size;
	size_t unit = size > RAW_LINE ? 2 * RAW_LINE : RAW_LINE;

	return (size + unit - 1) / unit * unit;
}

/* The bytes of the board's data area that a round uses. */
uint64_t plan_data_size(const struct plan *plan);

/*
 * The sum of all words of all tuples that a source sends; or, if the job sums
 * values, of these only.
 */
uint64_t plan_source_sum(const struct plan *plan, uint32_t source);

/* How many tuples in memory JOB_FOLD reads repeatedly. */
uint64_t plan_fold_tuples(const struct plan *plan);

/*
 * The sum of the second words of n tuples, beginning at a source's first word.
 */
uint64_t plan_value_sum(uint32_t tuple_size, uint64_t first_word, uint64_t n);

/*
 * The number of lanes that a source alternates between: its targets, or one
 * lane for the only one or for all of them.
 */
static inline uint32_t plan_lanes(const struct plan *plan)
{
	return plan->replicates || plan->paired ? 1 : plan->n_targets;
}

/* The target number that a source's calls take for a lane. */
static inline uint32_t plan_named_target(
    const struct plan *plan, uint32_t source, uint32_t lane)
{
	return plan->replicates ? DFI_ALL_TARGETS
	    : plan->paired      ? source
				: lane;
}

/* The number of targets that get a tuple. */
static inline uint32_t plan_copies(const struct plan *plan)
{
	return plan->replicates ? plan->n_targets : 1;
}

/* The offset of the ring of a source and a lane in the data area. */
static inline size_t plan_ring_offset(
    const struct plan *plan, uint32_t source, uint32_t lane)
{
	return raw_ring_size(&plan->geometry, plan_copies(plan)) *
	    ((size_t)lane * plan->n_sources + source);
}

/* The bytes of all rings of a round. */
static inline size_t plan_rings_size(const struct plan *plan)
{
	return plan_ring_offset(plan, 0, plan_lanes(plan));
}

#endif
