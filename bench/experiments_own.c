/* SPDX-License-Identifier: Apache-2.0 */
/* The experiments that are not the paper's. */
#include <stddef.h>

#include "experiments_impl.h"

/* Pairs in two processes, and a join of nodes, for scaling. */
#define PAIRS(series, n, cpus)                                         \
	{                                                              \
		series,                                                \
		    "shuffle --pairs " n " --procs 2 --vs-one-to-one " \
		    "--api push,claim --tuple-size 16,64",             \
		    9, cpus                                            \
	}
#define JOIN(n, n_cpus)                                                  \
	{                                                                \
		.series = "join of " n " nodes",                         \
		.command = "--nodes " n " --threads 1 --inner 8M "       \
			   "--outer 8M",                                 \
		.seconds = 15, .cpus = n_cpus,                           \
		.join_baseline = "--nodes " n " --threads 1 --inner 8M " \
				 "--outer 8M --baseline local",          \
		.baseline = "local"                                      \
	}

/* Why what costs no more instructions takes more time. */
#define STATES                                                                \
	"A segment takes the instructions of a closed flow's and a few more " \
	"(checks.instructions). From run to run on one day batches had 0.94 " \
	"to 1.03 of a closed flow's bandwidth, and copies 0.89 to 1.00: how " \
	"stores and loads meet in the two processors' caches differs with "   \
	"where rings lie in memory, which this machine has no counters to "   \
	"show."

/* Why a pair may stand still while a target joins, leaves or dies. */
#define NEWCOMER                                                           \
	"The process that starts or ends, the registry and the helper "    \
	"threads of all members need a processor, and the pair has both. " \
	"Where nothing happens, its longest gap is 0.05 to 1 ms."

const struct experiment own_experiments[] = {
	{
	    .id = "B1",
	    .name = "ways-in",
	    .title = "The four ways to send, one to one",
	    .here = "Tuple size; push, cursor, batch and claim, one process, "
		    "beside the hand-written ring of the same segments.",
	    .steps = {
		{ "1:1", "shuffle --tuple-size 16,64,256,1K,8K", 42, 2 },
	    },
	    .claims = {
		{ "Claims of 64 B reach 0.8 of the hand-written ring", "ratio",
		    "api=claim tuple_size=64", NULL, 0.8, 0 },
		{ "Claims of 16 B reach 0.7 of the hand-written ring", "ratio",
		    "api=claim tuple_size=16", NULL, 0.7, 0 },
		{ "Push of 64 B reaches half of the hand-written ring", "ratio",
		    "api=push tuple_size=64", NULL, 0.5, 0 },
	    },
	    .figure = BANDWIDTH_BY_SIZE("api"),
	},
	{
	    .id = "B2",
	    .name = "segment-size",
	    .title = "Segments of different sizes in rings of 1 MiB",
	    .here = "Segments of 2 to 128 KiB; one source and one target.",
	    .steps = {
		{ "2 KiB",
		    "shuffle --segment-size 2K --segments 512 --api claim,push "
		    "--tuple-size 64",
		    5, 2 },
		{ "8 KiB",
		    "shuffle --segment-size 8K --segments 128 --api claim,push "
		    "--tuple-size 64",
		    5, 2 },
		{ "32 KiB",
		    "shuffle --segment-size 32K --segments 32 --api claim,push "
		    "--tuple-size 64",
		    5, 2 },
		{ "128 KiB",
		    "shuffle --segment-size 128K --segments 8 --api claim,push "
		    "--tuple-size 64",
		    5, 2 },
	    },
	    .claims = {
		{ "Segments of 2 KiB have 0.8 of the bandwidth of 32 KiB",
		    "value", "segment_size=2048", "segment_size=32768", 0.8,
		    0,
		    "A segment costs both ends some 370 and 220 instructions "
		    "(checks.instructions) and the way of its footer between "
		    "the processors, together 20 to 25 ns in one run. 32 "
		    "tuples of 64 B take 65 ns." },
	    },
	    .figure = {
		.x = "segment_size", .x_title = "segment size [B]",
		.y = "value", .y_title = "payload [GB/s]", .lines = "api",
	    },
	},
	{
	    .id = "B3",
	    .name = "waiting",
	    .title = "How ends wait: spinning, adaptive, blocking",
	    .here = "One source and one target, two processes.",
	    .steps = {
		{ "bandwidth, spin",
		    "shuffle --procs 2 --wait spin --api claim --tuple-size 64",
		    3, 2 },
		{ "bandwidth, adaptive",
		    "shuffle --procs 2 --wait adaptive --api claim "
		    "--tuple-size 64",
		    3, 2 },
		{ "bandwidth, block",
		    "shuffle --procs 2 --wait block --api claim --tuple-size "
		    "64",
		    3, 2 },
		{ "latency, spin",
		    "latency --procs 2 --wait spin --iterations 50000", 3, 2 },
		{ "latency, adaptive",
		    "latency --procs 2 --wait adaptive --iterations 50000", 3,
		    2 },
		{ "latency, block",
		    "latency --procs 2 --wait block --iterations 5000", 4, 2 },
	    },
	    .claims = {
		{ "Adaptive waits keep 0.9 of the bandwidth of spinning",
		    "value", "experiment=shuffle wait=adaptive",
		    "experiment=shuffle wait=spin", 0.9, 0 },
		{ "An adaptive round trip takes 1.2 times one that spins",
		    "value", "experiment=latency wait=adaptive",
		    "experiment=latency wait=spin", 0, 1.2 },
	    },
	},
	{
	    .id = "B4",
	    .name = "set-up",
	    .title = "Time to set up and remove a flow",
	    .here = "One after another in one process; 64 B.",
	    .steps = {
		{ "default", "setup --iterations 1000", 4, 0 },
	    },
	    .claims = {
		{ "99 of 100 flows take at most 1000 us in all", "p99",
		    "step=all", NULL, 0, 1000,
		    "Most steps ask the registry's thread, and a flow takes "
		    "35 changes between threads in all. Where another "
		    "program has the processor, one of them waits for the end "
		    "of its time slice, some milliseconds: the median is a "
		    "quarter of the limit." },
	    },
	},
	{
	    .id = "B5",
	    .name = "idle",
	    .title = "Processor time of a target that waits",
	    .here = "No tuple arrives for two seconds.",
	    .steps = {
		{ "blocking call", "idle --seconds 2 --repeat 1", 4, 0 },
		{ "poll()", "idle --how fd --seconds 2 --repeat 1", 4, 0 },
	    },
	    .claims = {
		{ "At most 1 % of a processor", "value", "how=consume", NULL, 0,
		    1 },
	    },
	},
	{
	    .id = "B6",
	    .name = "sequencer",
	    .title = "Numbers that threads take of a sequencer",
	    .here = "1 to 8 threads, beside a bare fetch-and-add.",
	    .steps = {
		{ "one by one",
		    "sequencer --clients 1,2,4,8 --iterations 1000000", 6, 0 },
	    },
	    .claims = {
		{ "One thread reaches half of the bare word's rate", "ratio",
		    "clients=1", NULL, 0.5, 0 },
	    },
	    .figure = {
		.x = "clients", .x_title = "threads",
		.y = "value", .y_title = "numbers [M/s]", .lines = "series",
	    },
	},
	{
	    .id = "B7",
	    .name = "oversubscribed",
	    .title = "More threads than processors",
	    .here = "16 sources and 16 targets on the processors that there "
		    "are, beside one source and one target.",
	    .steps = {
		{ "16:16",
		    "shuffle --sources 16 --targets 16 --vs-one-to-one --api "
		    "claim,batch --tuple-size 64",
		    10, 0 },
	    },
	    .claims = {
		{ "All together move half of what one pair moves", "ratio",
		    "api=claim", NULL, 0.5, 0,
		    "On two processors 32 threads take turns. A fifth of the "
		    "time goes to the kernel, which switches between them, and "
		    "each finds its tuples in the other processor's cache." },
		{ "Batches, which are partitioned, move half of what one pair "
		  "moves that need not be",
		    "ratio", "api=batch", NULL, 0.5, 0,
		    "One source alone, with 16 targets, is half as fast as with "
		    "one target: it hashes each tuple and copies it to one of "
		    "16 rings, which takes twice the time of reading it." },
	    },
	},
	{
	    .id = "B8",
	    .name = "many-targets",
	    .title = "One source sends to many targets",
	    .here = "4 to 256 targets, which one thread polls; batches of 16 "
		    "and 64 B by the hash of the key.",
	    .steps = {
		{ "4 targets",
		    "shuffle --targets 4 --target-threads 1 --api batch "
		    "--tuple-size 16,64",
		    5, 2 },
		{ "16 targets",
		    "shuffle --targets 16 --target-threads 1 --api batch "
		    "--tuple-size 16,64",
		    5, 2 },
		{ "64 targets",
		    "shuffle --targets 64 --target-threads 1 --api batch "
		    "--tuple-size 16,64",
		    6, 2 },
		{ "256 targets",
		    "shuffle --targets 256 --target-threads 1 --api batch "
		    "--tuple-size 16,64",
		    8, 2 },
	    },
	    .claims = {
		{ "256 targets keep 0.7 of the rate of 4, with 16 B", "value",
		    "targets=256 tuple_size=16", "targets=4 tuple_size=16", 0.7,
		    0,
		    "A batch is scattered over all rings, 32 MiB with 256 "
		    "targets, and goes once round their memory, which a "
		    "second-level cache does not hold (docs/decisions/0041)." },
	    },
	    .figure = {
		.x = "targets", .x_title = "targets",
		.y = "value", .y_title = "payload [GB/s]",
		.lines = "tuple_size",
	    },
	},
	{
	    .id = "B9",
	    .name = "request-rate",
	    .title = "Round trips at a fixed rate of requests",
	    .here = "10,000 to 1,000,000 requests a second of 64 B, which are "
		    "due at fixed times; one source and one target.",
	    .steps = {
		{ "10 k/s", "latency --rate 10000 --iterations 2000", 6, 2 },
		{ "100 k/s", "latency --rate 100000 --iterations 20000", 6, 2 },
		{ "500 k/s", "latency --rate 500000 --iterations 50000", 5, 2 },
		{ "1 M/s", "latency --rate 1000000 --iterations 100000", 5, 2 },
	    },
	    .claims = {
		{ "99 of 100 requests are answered within 5 us at 100,000 a "
		  "second",
		    "p99", "rate=100000", NULL, 0, 5000,
		    "One time slice that another program takes delays all "
		    "requests that are due meanwhile." },
		{ "At 1,000,000 a second half of them are answered within 1 us",
		    "value", "rate=1000000", NULL, 0, 1000 },
	    },
	    .figure = {
		.x = "rate", .x_title = "requests a second",
		.y = "p99", .y_title = "99th percentile [ns]",
		.lines = "experiment", .log_y = true,
	    },
	},
	{
	    .id = "B10",
	    .name = "over-tcp",
	    .title = "Flows over TCP beside other ways over TCP",
	    .here = "Two processes over the loopback interface; segments, "
		    "batches of 64 B tuples, and round trips. Ways that are not "
		    "installed have no row.",
	    .steps = {
		{ "TCP", "tcp", 30, 2 },
	    },
	    .claims = {
		{ "Segments of 64 KiB reach 0.7 of a bare loop of libfabric's "
		  "writes",
		    "ratio",
		    "measure=segments segment_size=65536 baseline=fi_write",
		    NULL, 0.7, 0 },
		{ "Batches are faster than one send() for each tuple", "ratio",
		    "measure=batches baseline=send", NULL, 1, 0 },
	    },
	},
	{
	    .id = "B11",
	    .name = "scale",
	    .title = "Growing numbers of sources, targets and flows",
	    .here = "1 to 1024 sources of one target, 1 to 256 targets of one "
		    "source, 1 to 64 flows of one source and one target, and "
		    "1 to 4096 declared sources, of which one attaches. One "
		    "process sends and one polls; 64 B. Flows also over "
		    "libfabric's TCP, with their connections.",
	    .steps = {
		{ "sources", "scale --of sources", 20, 2 },
		{ "targets", "scale --of targets", 10, 2 },
		{ "flows", "scale --of flows", 8, 2 },
		{ "declared", "scale --of declared", 8, 2 },
		{ "flows over TCP", "scale --of flows --transport ofi", 10, 2 },
	    },
	    .claims = {
		{ "An empty poll of 1024 sources takes at most 1500 ns",
		    "poll_ns", "of=sources count=1024", NULL, 0, 1500 },
		{ "One of 1024 sources is heard within 3 us", "heard_us",
		    "of=sources count=1024", NULL, 0, 3 },
		{ "64 flows move half of what one moves", "value",
		    "series=flows count=64", "series=flows count=1", 0.5, 0 },
		{ "64 flows over TCP have the connections of one",
		    "connections", "series=flows_over_TCP count=64",
		    "series=flows_over_TCP count=1", 0, 1 },
	    },
	    .figure = {
		.x = "count", .x_title = "endpoints or flows",
		.y = "value", .y_title = "payload [GB/s]", .lines = "series",
	    },
	    .more_figures = {
		{ .x = "count", .x_title = "endpoints or flows",
		    .y = "poll_ns", .y_title = "empty poll [ns]",
		    .lines = "series", .log_y = true },
		{ .x = "count", .x_title = "endpoints or flows",
		    .y = "heard_us", .y_title = "until one tuple is heard [us]",
		    .lines = "series", .log_y = true },
		{ .x = "count", .x_title = "endpoints or flows",
		    .y = "open_us", .y_title = "to open an endpoint [us]",
		    .lines = "series", .log_y = true },
		{ .x = "count", .x_title = "endpoints or flows",
		    .y = "memory_mib", .y_title = "memory of rings [MiB]",
		    .lines = "series", .log_y = true },
		{ .x = "count", .x_title = "endpoints or flows",
		    .y = "descriptors", .y_title = "descriptors",
		    .lines = "series" },
		{ .x = "count", .x_title = "flows",
		    .y = "connections", .y_title = "connections",
		    .lines = "series", .rows = "asked_transport=ofi" },
	    },
	},
	{
	    .id = "B12",
	    .name = "peers",
	    .title = "Flows beside other ways through memory",
	    .here = "Two processes; tuples of 16 B one by one and in batches "
		    "that both ends fill and read, and round trips of 64 B. "
		    "Peers that are not installed have no row.",
	    .steps = {
		{ "memory", "peers --timeout 300", 60, 2 },
	    },
	    .claims = {
		{ "Tuple by tuple a flow has 8 times the bandwidth of the best "
		  "peer",
		    "ratio", "measure=tuples best_peer=yes", NULL, 8, 0 },
		{ "It has 40 times that of Open MPI's Send and Recv", "ratio",
		    "measure=tuples baseline=openmpi-send", NULL, 40, 0 },
		{ "In batches it has 1.5 times that of the best peer", "ratio",
		    "measure=batches best_peer=yes", NULL, 1.5, 0,
		    "A flow's tuples are built in the ring, as those of raw. "
		    "Some virtual machines write lines that the other "
		    "processor has read at 30 to 40 GB/s, or at 4 to 8, from "
		    "one minute to the next. Puts copy what was built in the "
		    "source's own cache, at 15 to 30 in both states. In a "
		    "profile filling the ring takes 0.95 of the time of "
		    "filling and copying for a put, reading takes the same, "
		    "and the library 1 % (bench/README.md)." },
		{ "Its round trip takes at most 1.2 times that of puts by Open "
		  "MPI",
		    "ratio", "measure=trips baseline=openmpi-put", NULL, 0,
		    1.2 },
	    },
	},
	{
	    .id = "B13",
	    .name = "scaling",
	    .title = "What more processors bring",
	    .here = "1 to 16 pairs of a source and a target, N sources to N "
		    "targets by the hash of the key, nodes that are processes "
		    "with both, and joins, as far as there is a processor for "
		    "each thread; eight nodes anywhere. Each stands beside one "
		    "source and one target, joins beside as many threads that "
		    "share memory.",
	    .steps = {
		PAIRS("1 pair", "1", 2),
		PAIRS("2 pairs", "2", 4),
		PAIRS("4 pairs", "4", 8),
		PAIRS("8 pairs", "8", 16),
		PAIRS("16 pairs", "16", 32),
		{ "4:4",
		    "shuffle --sources 4 --targets 4 --vs-one-to-one --api "
		    "claim,batch --tuple-size 64",
		    5, 8 },
		{ "8:8",
		    "shuffle --sources 8 --targets 8 --vs-one-to-one --api "
		    "claim,batch --tuple-size 64",
		    5, 16 },
		{ "2 nodes",
		    "shuffle --nodes 2 --vs-one-to-one --api claim,batch "
		    "--tuple-size 64",
		    5, 2 },
		{ "8 nodes",
		    "shuffle --nodes 8 --vs-one-to-one --api claim,batch "
		    "--tuple-size 64 --timeout 300",
		    8, 2 },
		JOIN("2", 2),
		JOIN("4", 4),
		JOIN("8", 8),
		JOIN("16", 16),
	    },
	    .claims = {
		{ "Two pairs move 1.6 times as much as one", "ratio",
		    "series=2_pairs api=claim tuple_size=64", NULL, 1.6, 0 },
		{ "Eight pairs move 5 times as much as one", "ratio",
		    "series=8_pairs api=claim tuple_size=64", NULL, 5, 0 },
		{ "Eight nodes that are processes move half of one pair, on "
		  "whatever processors there are",
		    "ratio", "series=8_nodes api=claim", NULL, 0.5, 0 },
		{ "A join of eight nodes takes 0.4 of the time of two", "value",
		    "experiment=join nodes=8", "experiment=join nodes=2", 0,
		    0.4 },
	    },
	    .figure = {
		.x = "sources", .x_title = "pairs",
		.y = "value", .y_title = "payload [GB/s]",
		.lines = "api tuple_size", .rows = "paired=true",
	    },
	    .more_figures = {
		{ .x = "nodes", .x_title = "nodes, a process each",
		    .y = "value", .y_title = "payload [GB/s]", .lines = "api",
		    .rows = "paired=false" },
		{ .x = "nodes", .x_title = "nodes with a thread each",
		    .y = "value", .y_title = "time of a join [s]",
		    .lines = "strategy", .rows = "experiment=join" },
	    },
	},
	{
	    .id = "B14",
	    .name = "open-flows",
	    .title = "What open membership costs",
	    .here = "Open flows beside closed flows of the same shape, while "
		    "nobody comes or goes: tuples one by one to any target and "
		    "by key, batches, claims, copies to two targets, and round "
		    "trips; one source, and targets of one thread. Then how "
		    "long a pair stands still while another target joins, "
		    "leaves or dies, beside the longest gap of as long a time "
		    "in which nothing happens, and how long partitions take "
		    "to move under load.",
	    .steps = {
		{ "steady", "open --repeat 15", 40, 2 },
		{ "pauses", "pauses", 6, 2 },
	    },
	    .claims = {
		{ "Claims have 0.97 of a closed flow's bandwidth", "ratio",
		    "measure=claim", NULL, 0.97, 0, NULL },
		{ "Pushes by key have 0.9 of it", "ratio", "measure=keyed",
		    NULL, 0.9, 0,
		    "They look up the lane of their partition, and tell the "
		    "source's helper thread that they use it: 8 instructions "
		    "and two stores more a tuple." },
		{ "Batches have 0.97 of it", "ratio", "measure=batch", NULL,
		    0.97, 0, STATES },
		{ "Copies to two targets have 0.97 of it", "ratio",
		    "measure=replicate", NULL, 0.97, 0, STATES },
		{ "A round trip takes at most 1.03 times a closed flow's",
		    "ratio", "measure=trips", NULL, 0, 1.03, NULL },
		{ "A pair stands still for at most 1000 us while another "
		  "target joins",
		    "value", "event=join", NULL, 0, 1000, NEWCOMER },
		{ "For at most 1000 us while one leaves", "value", "event=leave", NULL, 0, 1000,
		    NEWCOMER },
		{ "For at most 1000 us while one dies", "value", "event=death", NULL, 0, 1000,
		    NEWCOMER },
		{ "128 of 256 partitions move within 10 ms behind the drain "
		  "of their owner",
		    "value", "event=hand-over", NULL, 0, 10,
		    "Tables and releases are keys of the registry: some round "
		    "trips, in which all members' threads need a processor." },
	    },
	    .figure = {
		.x = "targets", .x_title = "targets",
		.y = "ratio", .y_title = "open, of a closed flow",
		.lines = "measure", .rows = "experiment=open",
	    },
	},
};

const uint32_t n_own_experiments = sizeof(own_experiments) /
    sizeof(own_experiments[0]);
