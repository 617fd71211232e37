/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command lines of the subcommands, with one struct of parameters for each.
 * On a wrong usage (64) and on --help, parsing ends the process, as argp does.
 */
#ifndef DFI_BENCH_OPTIONS_H
#define DFI_BENCH_OPTIONS_H

#include <dfi/flow.h>
#include "plan.h"
#include "report.h"
#include "run_step.h"
#include "runner.h"

#define MAX_TUPLE_SIZES 17

/* Which endpoints this invocation has; another invocation has the rest. */
enum bench_role {
	BENCH_BOTH = 0,
	BENCH_SOURCE,
	BENCH_TARGET,
};

/* How every experiment runs and reports. */
struct common_options {
	enum report_format format;
	uint32_t repeat;
	double seconds; /* of a round */
	uint64_t bytes; /* of a round; 0: from seconds */
	uint32_t timeout_s;
	bool verify;
	uint32_t procs;
	uint32_t wait; /* enum dfi_wait */
	struct placement placement;
	int32_t cpus[MAX_CPUS];       /* of the placement */
	struct raw_geometry geometry; /* 0: default */
	uint32_t tuple_sizes[MAX_TUPLE_SIZES];
	uint32_t n_tuple_sizes;
	const char *registry; /* NULL: embedded */
	uint32_t transport;   /* enum dfi_transport */
	uint32_t role;        /* enum bench_role */
};

/* Whether two threads of this invocation can only run on one processor. */
bool shares_processor(const struct common_options *options);

struct raw_options {
	struct common_options common;
	bool sweep;
	uint32_t credit_interval; /* segments; 0: a quarter of the ring */
};

struct shuffle_options {
	struct common_options common;
	uint32_t n_sources;
	uint32_t n_targets;
	uint32_t n_target_threads;
	uint32_t n_pairs;        /* sources and targets that are paired, or 0 */
	uint32_t n_nodes;        /* processes with sources and targets, or 0 */
	uint64_t link_bandwidth; /* of each node, bytes/s; 0: no link */
	uint64_t link_latency_ns;
	bool both_ways;       /* every other pair goes the other way */
	uint32_t slow_source; /* times as long, or 0 */
	uint32_t slow_target;
	uint32_t apis[N_APIS]; /* enum api */
	uint32_t n_apis;
	uint32_t routing; /* enum dfi_routing */
	uint32_t batch;
	bool no_baseline;
	bool one_to_one; /* it is the baseline */
	bool raw_copies; /* raw tuples are made outside and copied in */
	uint32_t how;    /* enum how */
	struct raw_geometry raw_geometry; /* 0: the flow's */
};

/* How a replicate flow sends tuples to all targets. */
enum replicate_mode {
	MODE_NAIVE = 0,
	MODE_MULTICAST,
	MODE_ORDERED, /* multicast, in the same order at all targets */
	N_MODES,
};

#define MAX_TARGET_COUNTS 8
#define REPLICATE_MAX_TARGETS 8

struct replicate_options {
	struct common_options common;
	uint32_t modes[N_MODES]; /* enum replicate_mode */
	uint32_t n_modes;
	uint64_t targets[MAX_TARGET_COUNTS]; /* a row for each */
	uint32_t n_target_counts;
	uint32_t apis[N_APIS]; /* enum api */
	uint32_t n_apis;
	uint32_t batch;
	bool no_baseline;
	bool raw_copies;         /* raw tuples are made outside and copied in */
	uint64_t link_bandwidth; /* of each node, bytes/s; 0: no link */
	uint64_t link_latency_ns;
	bool latency;
	uint64_t iterations;
	const char *histogram; /* of latency: the name of a file, or NULL */
};

#define MAX_GROUP_COUNTS 16
#define MAX_COMBININGS (DFI_COMBINING_ALWAYS + 1)
#define MAX_FAN_INS 4
#define COMBINE_MAX_GROUPS 100000000

struct combine_options {
	struct common_options common;
	uint32_t n_sources;
	uint64_t groups[MAX_GROUP_COUNTS]; /* a row for each; 0: no group_by */
	uint32_t n_group_counts;
	/* enum dfi_source_combining: a row for each */
	uint32_t combinings[MAX_COMBININGS];
	uint32_t n_combinings;
	uint64_t fan_ins[MAX_FAN_INS]; /* a row for each; 0: no tree */
	uint32_t n_fan_ins;
	bool no_baseline;
};

struct latency_options {
	struct common_options common;
	uint64_t iterations;
	uint64_t rate;   /* requests a second; 0: as fast as replies come */
	uint32_t window; /* requests on their way together; 0: one */
	uint64_t link_latency_ns;
	bool bulk;             /* another flow beside, in turns with none */
	bool vs_ring;          /* the baseline carries the tuples */
	uint32_t how;          /* enum how: HOW_CONSUME or HOW_FD */
	const char *histogram; /* the name of a file, or NULL */
	bool one_core;
};

struct idle_options {
	struct common_options common;
	uint32_t how; /* enum how */
};

#define MAX_CLIENT_COUNTS 16

struct sequencer_options {
	struct common_options common;
	uint64_t clients[MAX_CLIENT_COUNTS]; /* a row for each */
	uint32_t n_clients;
	uint32_t batch;
	uint64_t iterations;
};

/* A tuple of a request. */
#define RPC_MAX_TUPLE 4096

struct rpc_options {
	struct common_options common;
	uint64_t clients[MAX_CLIENT_COUNTS]; /* a row for each */
	uint32_t n_client_counts;
	uint64_t think_ns;
	uint32_t n_joins; /* in a round */
};

struct setup_options {
	struct common_options common;
	uint64_t iterations;
};

/* Nodes that all send to all, with a source and a target for each thread. */
struct node_count {
	uint32_t nodes, threads;
};

#define MAX_NODE_COUNTS 8

struct memory_options {
	struct common_options common;
	struct node_count counts[MAX_NODE_COUNTS]; /* a row for each */
	uint32_t n_counts;
};

/* What grows in scale. */
enum axis {
	AXIS_SOURCES = 0, /* of one target */
	AXIS_TARGETS,     /* of one source */
	AXIS_FLOWS,       /* of one source and one target */
	AXIS_DECLARED,    /* sources, of which one attaches */
	N_AXES,
};

#define MAX_COUNTS 8

struct scale_options {
	struct common_options common;
	uint32_t axis;               /* enum axis */
	bool apart;                  /* flows share no connection */
	uint64_t counts[MAX_COUNTS]; /* a row for each */
	uint32_t n_counts;
	uint64_t iterations;
};

const char *axis_name(uint32_t axis);

#define RUN_REPEAT 5

struct run_options {
	const char *out; /* a folder */
	bool all;
	bool again; /* finished experiments as well */
	const struct experiment **chosen;
	uint32_t n_chosen;
	struct rounds rounds;
};

/* What is measured beside rivals. */
enum measure {
	MEASURE_SEGMENTS = 0, /* bandwidth, tuples built in segments */
	MEASURE_BATCHES,      /* bandwidth, batches of tuples */
	MEASURE_TRIPS,        /* round trips */
	MEASURE_TUPLES,       /* from here on in memory: tuples one by one */
	MEASURE_SHUFFLE,      /* batches between two nodes, by key */
	MEASURE_REPLICATE,    /* one source, a target on each other processor */
	MEASURE_COMBINE,      /* sums by key of two sources */
	MEASURE_THREADS,      /* tuples one by one, of several pairs */
	N_MEASURES,
};

#define MAX_SEGMENT_SIZES 4

/* Of the commands with rivals. */
struct rivals_options {
	struct common_options common;
	uint32_t measures[N_MEASURES]; /* enum measure */
	uint32_t n_measures;
	uint32_t segment_sizes[MAX_SEGMENT_SIZES]; /* if none is asked for */
	uint32_t n_segment_sizes;
	uint32_t rivals[N_RIVALS]; /* enum rival_kind; none: all of them */
	uint32_t n_rivals;
	uint64_t iterations;
	uint32_t straggler; /* times as long for node 0; 1: nodes have a
			       processor each, but none is slow; 0: neither */
};

/* argv[0] is the subcommand. */
void raw_options_parse(int argc, char **argv, struct raw_options *options);
void shuffle_options_parse(
    int argc, char **argv, struct shuffle_options *options);
void replicate_options_parse(
    int argc, char **argv, struct replicate_options *options);
void combine_options_parse(
    int argc, char **argv, struct combine_options *options);
void latency_options_parse(
    int argc, char **argv, struct latency_options *options);
void idle_options_parse(int argc, char **argv, struct idle_options *options);
void sequencer_options_parse(
    int argc, char **argv, struct sequencer_options *options);
void rpc_options_parse(int argc, char **argv, struct rpc_options *options);
void setup_options_parse(int argc, char **argv, struct setup_options *options);
void memory_options_parse(
    int argc, char **argv, struct memory_options *options);
void scale_options_parse(int argc, char **argv, struct scale_options *options);
void run_options_parse(int argc, char **argv, struct run_options *options);
void tcp_options_parse(int argc, char **argv, struct rivals_options *options);
void peers_options_parse(int argc, char **argv, struct rivals_options *options);

#endif
