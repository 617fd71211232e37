/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows over libfabric's provider tcp, in turns with rivals that bring the same
 * tuples over TCP.
 */
#include "bench.h"
#include "contest.h"

static const struct column columns[] = {
	{ "measure", "measure", 10, 0, false },
	{ "tuple_size", "tuple[B]", 8, 0, false },
	{ "segment_size", "segment[B]", 10, 0, false },
	{ "value", "result", 8, 3, false },
	{ "unit", "unit", 4, 0, false },
	{ "baseline_value", "limit", 8, 3, false },
	{ "ratio", "ratio", 7, 3, false },
	{ "baseline", "limit is", 11, 0, false },
	{ "min", "min", 8, 3, true },
	{ "max", "max", 8, 3, true },
	{ "preemptions", "preempted", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

static const struct contest contest = {
	.name = "tcp",
	.columns = columns,
	.measures = {
		[MEASURE_SEGMENTS] = { "GB/s", JOB_FLOW, API_CLAIM, 64,
		    { RIVAL_FABRIC, RIVAL_IPERF3 }, 2 },
		[MEASURE_BATCHES] = { "GB/s", JOB_FLOW, API_BATCH, 64,
		    { RIVAL_SEND, RIVAL_ZEROMQ }, 2 },
		[MEASURE_TRIPS] = { "us", JOB_ECHO_FLOW, API_PUSH, 64,
		    { RIVAL_PINGPONG }, 1 },
	},
};

int bench_tcp(int argc, char **argv)
{
	static struct rivals_options options;

	tcp_options_parse(argc, argv, &options);
	return contest_run(&contest, &options);
}
