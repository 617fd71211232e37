/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Experiments of ours about what a flow could reach: hand-written rings that do
 * the same work, and the choices of the library, one beside the other.
 */
#include <stddef.h>

#include "experiments_impl.h"

/* The hand-written ring, whose reader gives back n of 32 segments at a time. */
#define CREDITS(n)                                                      \
	{                                                               \
		"raw, " n " of 32",                                     \
		    "raw --segment-size 8K --segments 32 --tuple-size " \
		    "64 --procs 2 --credit-interval " n,                \
		    2, 2                                                \
	}

/* Tuples of 64 B to a target that waits in a way, and round trips of them. */
#define TUPLES(way, options)                                         \
	{                                                            \
		"tuples, " way,                                      \
		    "shuffle --procs 2 --api claim --tuple-size 64 " \
		    "--timeout 300" options,                         \
		    2, 2                                             \
	}
#define TRIPS(way, options)                                            \
	{                                                              \
		"trips, " way,                                         \
		    "latency --procs 2 --tuple-size 64 --timeout 300 " \
		    "--iterations 5000" options,                       \
		    3, 2                                               \
	}

/* The same over RDMA, where DFI_VERBS_NOTIFY says how targets learn of them. */
#define TUPLES_OVER_VERBS(notify, way)                                         \
	{                                                                      \
		.series = "RDMA tuples, " way,                                 \
		.command = "shuffle --procs 2 --api claim --tuple-size "       \
			   "64 --timeout 300 --transport verbs",               \
		.seconds = 3, .cpus = 2, .setting = "DFI_VERBS_NOTIFY=" notify \
	}
#define TRIPS_OVER_VERBS(notify, way)                                          \
	{                                                                      \
		.series = "RDMA trips, " way,                                  \
		.command = "latency --procs 2 --tuple-size 64 --timeout "      \
			   "300 --iterations 2000 --transport verbs",          \
		.seconds = 4, .cpus = 2, .setting = "DFI_VERBS_NOTIFY=" notify \
	}

/* The rings of all threads of nodes that all send to all. */
#define RINGS(size)                                          \
	{                                                    \
		size " segments",                            \
		    "memory --nodes 2x4,4x4,8x4,16x4,32x4 "  \
		    "--segment-size " size " --segments 32", \
		    1, 0                                     \
	}

const struct experiment limits_experiments[] = {
	{
	    .id = "B19",
	    .name = "trips-of-tuples",
	    .title = "Round trips beside hand-written ones of the same tuples",
	    .here = "Tuple size; two processes. The hand-written trip carries "
		    "the tuple, too, behind a sequence number in the same "
		    "layout: 48 B share its cache line, 64 B take a second "
		    "one. It builds the tuple in place, a flow copies it.",
	    .steps = {
		{ "two processes",
		    "latency --vs-ring --procs 2 --iterations 50000 --timeout "
		    "300 --tuple-size 16,48,64,256,1K",
		    12, 2 },
	    },
	    .claims = {
		{ "A round trip of 64 B takes at most 1.15 times the "
		  "hand-written one",
		    "ratio", "tuple_size=64", NULL, 0, 1.15,
		    "A flow copies the tuple into its ring, the hand-written "
		    "trip builds it there. The clock steps 10 ns." },
		{ "One of 48 B, in one line, does so, too", "ratio",
		    "tuple_size=48", NULL, 0, 1.15 },
	    },
	    .figure = {
		.x = "tuple_size", .x_title = "tuple size [B]",
		.y = "value", .y_title = "median round trip [ns]",
		.lines = "experiment",
	    },
	},
	{
	    .id = "B20",
	    .name = "copies",
	    .title = "Push and cursor beside a ring that copies as they do",
	    .here = "Tuple size; two processes. The hand-written ring also "
		    "makes each tuple outside of it, and copies it in.",
	    .steps = {
		{ "push",
		    "shuffle --procs 2 --api push --raw-copies --tuple-size "
		    "16,64,256,1K",
		    12, 2 },
		{ "cursor",
		    "shuffle --procs 2 --api cursor --raw-copies --tuple-size "
		    "16,64,256,1K",
		    12, 2 },
	    },
	    .claims = {
		{ "Push of 64 B has 0.85 of the ring's bandwidth", "ratio",
		    "api=push tuple_size=64", NULL, 0.85, 0,
		    "Its stores into the ring wait for lines that the reader's "
		    "processor has; the ring's copies are larger." },
		{ "Push of 256 B, too", "ratio", "api=push tuple_size=256",
		    NULL, 0.85, 0 },
		{ "Push of 1 KiB, too", "ratio", "api=push tuple_size=1024",
		    NULL, 0.85, 0 },
		{ "Cursors of 16 B, too", "ratio", "api=cursor tuple_size=16",
		    NULL, 0.85, 0 },
	    },
	    .figure = {
		.x = "tuple_size", .x_title = "tuple size [B]",
		.y = "ratio", .y_title = "of the ring that copies",
		.lines = "api",
	    },
	},
	{
	    .id = "B21",
	    .name = "credit-interval",
	    .title = "How many segments a target gives back at a time",
	    .here = "A flow's target gives back a quarter of its ring at a "
		    "time. The hand-written ring is measured with 1 to all of "
		    "32 segments of 8 KiB at a time, and a flow with the same "
		    "segments; 64 B, two processes.",
	    .steps = {
		CREDITS("1"),
		CREDITS("2"),
		CREDITS("4"),
		CREDITS("8"),
		CREDITS("16"),
		CREDITS("32"),
		{ "flow, 8 of 32",
		    "shuffle --segment-size 8K --segments 32 --procs 2 --api "
		    "claim --tuple-size 64",
		    2, 2 },
	    },
	    .claims = {
		{ "A quarter at a time has 0.95 of the bandwidth of one segment "
		  "at a time",
		    "value", "credit_interval=8", "credit_interval=1", 0.95,
		    0 },
	    },
	    .figure = {
		.x = "credit_interval",
		.x_title = "segments of 32 that are given back at a time",
		.y = "value", .y_title = "payload [GB/s]",
		.lines = "experiment",
	    },
	},
	{
	    .id = "B22",
	    .name = "notification",
	    .title = "How targets learn of tuples",
	    .here = "One source and one target, two processes; 64 B. In memory "
		    "a target looks at footers, and sleeps on a word (block), "
		    "or in poll() on its descriptor or that of a group. Over "
		    "RDMA it looks at footers, bare or with a checksum, or "
		    "takes completions. Spinning and adaptive waits are in "
		    "B3.",
	    .steps = {
		TUPLES("footers", ""),
		TUPLES("block", " --wait block"),
		TUPLES("descriptor", " --how fd"),
		TUPLES("group", " --how group"),
		TRIPS("footers", ""),
		TRIPS("block", " --wait block"),
		TRIPS("descriptor", " --how fd"),
		TUPLES_OVER_VERBS("footer", "footers"),
		TUPLES_OVER_VERBS("checksum", "checksums"),
		TUPLES_OVER_VERBS("imm", "completions"),
		TRIPS_OVER_VERBS("footer", "footers"),
		TRIPS_OVER_VERBS("checksum", "checksums"),
		TRIPS_OVER_VERBS("imm", "completions"),
	    },
	    .claims = {
		{ "A target that sleeps on its descriptor has 0.8 of the "
		  "bandwidth of one that looks at footers",
		    "value", "series=tuples,_descriptor",
		    "series=tuples,_footers", 0.8, 0,
		    "A target that has emptied its rings sleeps, and the "
		    "source's next segment wakes it by a system call. Sleeping "
		    "on a word (block) and in a group costs as much." },
		{ "A round trip whose ends sleep on descriptors takes at most "
		  "50 us",
		    "value", "series=trips,_descriptor", NULL, 0, 50000,
		    "Both ends sleep and are woken by the kernel twice." },
		{ "Over RDMA a round trip by footers takes less time than one "
		  "by completions",
		    "value", "series=RDMA_trips,_footers",
		    "series=RDMA_trips,_completions", 0, 1 },
	    },
	},
	{
	    .id = "B23",
	    .name = "queue-pairs",
	    .title = "More queue pairs between two processes",
	    .here = "1 to 64 flows over RDMA whose sources share a queue pair, "
		    "or have one each, and one source with 1 to 64 targets; "
		    "one thread at each end, 64 B.",
	    .steps = {
		{ "flows",
		    "scale --of flows --counts 1,4,16,64 --transport verbs "
		    "--iterations 200 --timeout 300",
		    20, 2 },
		{ "flows apart",
		    "scale --of flows --counts 1,4,16,64 --transport verbs "
		    "--apart --iterations 200 --timeout 300",
		    20, 2 },
		{ "targets",
		    "scale --of targets --counts 1,4,16,64 --transport verbs "
		    "--iterations 200 --timeout 300",
		    20, 2 },
	    },
	    .claims = {
		{ "64 flows have the queue pairs of one", "connections",
		    "series=flows count=64", "series=flows count=1", 0, 1 },
		{ "64 targets of one source have those of one",
		    "connections", "series=targets count=64",
		    "series=targets count=1", 0, 1 },
		{ "64 flows move half of what one moves", "value",
		    "series=flows count=64", "series=flows count=1", 0.5, 0 },
		{ "They move 0.8 of what they move with a queue pair each",
		    "value", "series=flows count=64",
		    "series=flows_apart count=64", 0.8, 0 },
	    },
	    .figure = {
		.x = "count", .x_title = "flows, or targets of one source",
		.y = "value", .y_title = "payload [GB/s]",
		.lines = "series device",
	    },
	    .more_figures = {
		{ .x = "count", .x_title = "flows, or targets of one source",
		    .y = "connections", .y_title = "queue pairs",
		    .lines = "series device" },
	    },
	},
	{
	    .id = "B24",
	    .name = "memory-per-endpoint",
	    .title = "Memory of an endpoint by its peers",
	    .here = "2 to 32 nodes of 4 threads that all send to all; rings of "
		    "32 segments of 2 to 32 KiB, as the library plans them. An "
		    "endpoint is a source and a target. B2 shows what "
		    "bandwidth the sizes have.",
	    .steps = {
		RINGS("2K"),
		RINGS("8K"),
		RINGS("32K"),
	    },
	    .claims = {
		{ "With 16 times as many peers an endpoint needs 16 times the "
		  "memory",
		    "endpoint_mib", "nodes=32 segment_size=8192",
		    "nodes=2 segment_size=8192", 15, 16.5 },
		{ "With a quarter of the segment's size it needs at most 0.3 "
		  "of it",
		    "endpoint_mib", "nodes=32 segment_size=2048",
		    "nodes=32 segment_size=8192", 0, 0.3 },
	    },
	    .figure = {
		.x = "endpoints", .x_title = "endpoints of all nodes",
		.y = "endpoint_mib", .y_title = "memory of an endpoint [MiB]",
		.lines = "segment_size", .log_y = true,
	    },
	},
};

const uint32_t n_limits_experiments = sizeof(limits_experiments) /
    sizeof(limits_experiments[0]);
