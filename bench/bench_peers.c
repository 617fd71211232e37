/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows between processes of one host, in turns with other ways to bring the
 * same tuples through memory.
 */
#include "bench.h"
#include "contest.h"

static const struct column columns[] = {
	{ "measure", "measure", 8, 0, false },
	{ "tuple_size", "tuple[B]", 8, 0, false },
	{ "value", "result", 9, 3, false },
	{ "baseline_value", "peer", 9, 3, false },
	{ "unit", "unit", 4, 0, false },
	{ "ratio", "ratio", 9, 3, false },
	{ "baseline", "peer is", 16, 0, false },
	{ "best_peer", "best", 4, 0, false },
	{ "min", "min", 9, 3, true },
	{ "max", "max", 9, 3, true },
	{ "rival_version", "version", 30, 0, true },
	{ "preemptions", "preempted", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

#define MESSAGES                                                         \
	RIVAL_OPENMPI_SEND, RIVAL_OPENMPI_PUT, RIVAL_MPICH_SEND,         \
	    RIVAL_MPICH_PUT, RIVAL_UCX_TAG, RIVAL_UCX_PUT, RIVAL_UCX_AM, \
	    RIVAL_FABRIC_SHM, RIVAL_PIPE, RIVAL_UNIX, RIVAL_ZEROMQ_IPC,  \
	    RIVAL_NNG

static const struct contest contest = {
	.name = "peers",
	.columns = columns,
	.measures = {
		[MEASURE_TUPLES] = { "GB/s", JOB_FLOW, API_PUSH, 16,
		    { RIVAL_RAW, MESSAGES }, 13 },
		[MEASURE_BATCHES] = { "GB/s", JOB_FLOW, API_CLAIM, 16,
		    { RIVAL_MEMCPY, RIVAL_RAW, MESSAGES }, 14 },
		[MEASURE_TRIPS] = { "ns", JOB_ECHO_FLOW, API_PUSH, 64,
		    { RIVAL_RAW, MESSAGES }, 13 },
		[MEASURE_SHUFFLE] = { "GB/s", JOB_FLOW, API_BATCH, 16,
		    { RIVAL_RAW, RIVAL_OPENMPI_ALLTOALLV,
			RIVAL_MPICH_ALLTOALLV, RIVAL_OPENMPI_ALLTOALL,
			RIVAL_MPICH_ALLTOALL },
		    5 },
		[MEASURE_REPLICATE] = { "GB/s", JOB_FLOW, API_CLAIM, 16,
		    { RIVAL_RAW, RIVAL_OPENMPI_BCAST, RIVAL_MPICH_BCAST }, 3 },
		[MEASURE_COMBINE] = { "GB/s", JOB_COMBINE, API_CLAIM, 16,
		    { RIVAL_OPENMPI_REDUCE, RIVAL_MPICH_REDUCE }, 2 },
		[MEASURE_THREADS] = { "GB/s", JOB_FLOW, API_PUSH, 16,
		    { RIVAL_RAW, RIVAL_OPENMPI_THREADS, RIVAL_MPICH_THREADS,
			RIVAL_OPENMPI_PROCESSES, RIVAL_MPICH_PROCESSES },
		    5 },
	},
};

int bench_peers(int argc, char **argv)
{
	static struct rivals_options options;

	peers_options_parse(argc, argv, &options);
	return contest_run(&contest, &options);
}
