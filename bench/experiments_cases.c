/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The experiments of the DFI paper beside MPI, and with applications: E10 and
 * on.
 */
#include <stddef.h>

#include "experiments_impl.h"

/* Tables of E13 with a node that is `times` as slow; 1: with none. */
#define STRAGGLER(series, bytes, times)                                      \
	{                                                                    \
		series,                                                      \
		    "peers --measure shuffle --tuple-size 16 "               \
		    "--straggler " times " --bytes " bytes " --timeout 300", \
		    7, 2                                                     \
	}

/* Why two nodes of two threads each suffer more than two ranks. */
#define SLOW_NODE                                                             \
	"With two processors both ends of a node share one, a rank of MPI "   \
	"has one to itself. A slow end computes instead of waiting, until "   \
	"the kernel takes its processor: 606 times in a row's rounds, where " \
	"it was 111 times without a slow node. Where the machine wrote more " \
	"slowly, at 5 GB/s, a flow kept 0.77 to 0.92 of its bandwidth, and "  \
	"1.4 to 2.6 times as much of it as MPI."

/* Why NOPaxos is slower where no process has a processor to itself. */
#define ALL_SHARE                                                              \
	"All replicas and clients share the processors, so the limit is what " \
	"a request costs all of them. With one outstanding request NOPaxos "   \
	"took 25 us of the leader where Multi-Paxos took 39, but 20 of each "  \
	"follower instead of 11, and 130 of the client, which gets the "       \
	"answers of all, instead of 51: in all 235 us instead of 135."

/* The join of E14 beside one by puts of MPI. */
#define JOIN_BESIDE_MPI(library, windows, name)                               \
	{                                                                     \
		.series = "beside " name,                                     \
		.command = "--nodes 2 --threads 1 --inner 4M "                \
			   "--outer 4M",                                      \
		.seconds = 15, .cpus = 2,                                     \
		.join_baseline = "4194304 4194304" windows, .baseline = name, \
		.mpi = library                                                \
	}

const struct experiment case_experiments[] = {
	{
	    .id = "E10",
	    .name = "tuple-by-tuple",
	    .title = "One thread sends a table tuple by tuple",
	    .paper = "MPI_Send for each tuple takes long with small tuples. A "
		     "flow takes little time already with small ones, because "
		     "it batches.",
	    .here = "Tuple size; push and cursor, two processes; beside them "
		    "Send and Recv of Open MPI and MPICH, where installed. The "
		    "time for a table is its bytes by the bandwidth.",
	    .steps = {
		{ "1:1",
		    "shuffle --procs 2 --api push,cursor --tuple-size "
		    "8,16,32,64,256,1K,4K",
		    30, 2 },
		{ "beside MPI",
		    "peers --measure tuples --peer openmpi-send,mpich-send "
		    "--tuple-size 16,64,256,1K,4K --timeout 300",
		    60, 2 },
	    },
	    .claims = {
		{ "Tuples of 16 B have half of the bandwidth of 1 KiB", "value",
		    "api=push tuple_size=16", "api=push tuple_size=1024", 0.5,
		    0,
		    "A push of 16 B takes 25 instructions and one of 64 B 46 "
		    "(checks.instructions), which limit small tuples; writing "
		    "the ring limits large ones. Here that is faster than the "
		    "paper's network, which pushes of 16 B would fill." },
		{ "Tuples of 64 B have 0.7 of the bandwidth of 1 KiB", "value",
		    "api=push tuple_size=64", "api=push tuple_size=1024", 0.7,
		    0 },
		{ "Tuples of 16 B have 20 times the bandwidth of MPI_Send",
		    "ratio", "tuple_size=16 measure=tuples best_peer=yes", NULL,
		    20, 0 },
		{ "MPI_Send gets nearer as tuples grow: the ratio with 4 KiB is "
		  "at most half of that with 16 B",
		    "ratio", "tuple_size=4096 measure=tuples best_peer=yes",
		    "tuple_size=16 measure=tuples best_peer=yes", 0, 0.5 },
	    },
	    .figure = {
		.x = "tuple_size", .x_title = "tuple size [B]",
		.y = "value", .y_title = "payload [GB/s]", .lines = "api",
		.rows = "experiment=shuffle",
	    },
	    .more_figures = { BESIDE_PEERS },
	},
	{
	    .id = "E11",
	    .name = "threads",
	    .title = "More threads send tuple by tuple",
	    .paper = "A flow gets faster with more threads. MPI with several "
		     "threads in a process gets slower, as they share a lock; "
		     "MPI with several processes gets faster.",
	    .here = "N sources with a target each, a processor for each, push "
		    "only; beside one source and one target. Beside them MPI_Send "
		    "of each tuple, by threads of two processes or by a process "
		    "for each end.",
	    .steps = {
		{ "2 threads",
		    "shuffle --pairs 2 --procs 2 --vs-one-to-one "
		    "--api push --tuple-size 16,64,1K",
		    7, 4 },
		{ "4 threads",
		    "shuffle --pairs 4 --procs 2 --vs-one-to-one "
		    "--api push --tuple-size 16,64,1K",
		    7, 8 },
		{ "8 threads",
		    "shuffle --pairs 8 --procs 2 --vs-one-to-one "
		    "--api push --tuple-size 16,64,1K",
		    8, 16 },
		{ "beside MPI",
		    "peers --measure threads --tuple-size 16,64,1K --timeout "
		    "300",
		    60, 2 },
	    },
	    .claims = {
		{ "Two threads push 1.5 times as much as one", "ratio",
		    "experiment=shuffle sources=2 tuple_size=16", NULL, 1.5, 0 },
		{ "Four threads push 2.5 times as much as one", "ratio",
		    "experiment=shuffle sources=4 tuple_size=16", NULL, 2.5, 0 },
		{ "Eight threads push 4.5 times as much as one", "ratio",
		    "experiment=shuffle sources=8 tuple_size=16", NULL, 4.5, 0 },
		{ "A push has 8 times the bandwidth of Open MPI whose threads "
		  "share a process",
		    "ratio",
		    "measure=threads baseline=openmpi-threads tuple_size=16",
		    NULL, 8, 0 },
	    },
	    .figure = {
		.x = "sources", .x_title = "threads that push",
		.y = "value", .y_title = "payload [GB/s]",
		.lines = "tuple_size", .rows = "experiment=shuffle",
	    },
	},
	{
	    .id = "E12",
	    .name = "all-to-all",
	    .title = "Two nodes shuffle a table by key while they scan it",
	    .paper = "MPI_Alltoall on batches of eight tuples is very slow "
		     "with small tuples, and gets near to a flow as they "
		     "grow.",
	    .here = "Tuple size; two sources and two targets by the hash of "
		    "the key. The limit is a hand-written program that hashes "
		    "the same tuples. Beside them two ranks of each MPI that is "
		    "installed: Alltoall whenever a block has eight tuples, and "
		    "Alltoallv of partitioned batches of 1 MiB.",
	    .steps = {
		{ "2:2",
		    "shuffle --sources 2 --targets 2 --api push,batch "
		    "--tuple-size 16,64,256,1K,4K",
		    22, 2 },
		{ "beside MPI",
		    "peers --measure shuffle --tuple-size 16,64,1K --timeout "
		    "300",
		    50, 2 },
	    },
	    .claims = {
		{ "Batches of 16 B have 0.3 of the bandwidth of 1 KiB", "value",
		    "api=batch tuple_size=16", "api=batch tuple_size=1024", 0.3,
		    0,
		    "Each tuple is hashed and copied on its own, so that "
		    "instructions limit small tuples, and memory large ones. "
		    "The hand-written program, which does the same, keeps less "
		    "of its bandwidth with 16 B." },
		{ "They have half of what the hand-written program has",
		    "ratio", "api=batch tuple_size=16", NULL, 0.5, 0 },
		{ "They have 1.2 times that of the fastest collective call",
		    "ratio", "measure=shuffle tuple_size=16 best_peer=yes",
		    NULL, 1.2, 0 },
		{ "Open MPI's Alltoall of eight tuples gets nearer as tuples "
		  "grow: the ratio with 1 KiB is at most 0.7 of that with "
		  "16 B",
		    "ratio",
		    "baseline=openmpi-alltoall measure=shuffle tuple_size=1024",
		    "baseline=openmpi-alltoall measure=shuffle tuple_size=16",
		    0, 0.7 },
	    },
	    .figure = {
		.x = "tuple_size", .x_title = "tuple size [B]",
		.y = "value", .y_title = "payload [GB/s]", .lines = "api",
		.rows = "experiment=shuffle",
	    },
	    .more_figures = { BESIDE_PEERS },
	},
	{
	    .id = "E13",
	    .name = "straggler",
	    .title = "One node is slower than the others",
	    .paper = "MPI_Alltoall waits for the slowest node. A flow suffers "
		     "less, as the others' tuples arrive meanwhile.",
	    .here = "Tables of 4 and of 64 MiB, half of them at each of two "
		    "nodes, which have a processor each; tuples of 16 B. The "
		    "slow node computes 2 or 4 times as long for all that it "
		    "does, at both ends and in calls of the library. Beside a "
		    "flow two ranks of each MPI that is installed, with "
		    "Alltoallv of partitioned batches.",
	    .steps = {
		STRAGGLER("4 MiB, all alike", "4M", "1"),
		STRAGGLER("4 MiB, 2 times", "4M", "2"),
		STRAGGLER("64 MiB, all alike", "64M", "1"),
		STRAGGLER("64 MiB, 2 times", "64M", "2"),
		STRAGGLER("64 MiB, 4 times", "64M", "4"),
	    },
	    .claims = {
		{ "With a node at half of its speed a flow keeps 0.45 of its "
		  "bandwidth",
		    "value", "straggler=2 table_bytes=67108864",
		    "straggler=1 table_bytes=67108864", 0.45, 0, SLOW_NODE },
		{ "A slow node brings it no nearer to Open MPI: the ratio is at "
		  "least 0.9 of that without one",
		    "ratio",
		    "straggler=2 baseline=openmpi-alltoallv "
		    "table_bytes=67108864",
		    "straggler=1 baseline=openmpi-alltoallv "
		    "table_bytes=67108864",
		    0.9, 0, SLOW_NODE },
		{ "The same with MPICH", "ratio",
		    "straggler=2 baseline=mpich-alltoallv table_bytes=67108864",
		    "straggler=1 baseline=mpich-alltoallv table_bytes=67108864",
		    0.9, 0, SLOW_NODE },
	    },
	    .figure = {
		.x = "straggler", .x_title = "times as long, at the slow node",
		.y = "value", .y_title = "payload [GB/s]", .lines = "baseline",
		.rows = "table_bytes=67108864",
	    },
	},
	{
	    .id = "E14",
	    .name = "join-radix",
	    .title = "A radix join of two relations of the same size",
	    .paper = "The join over flows is fastest, as it has no pass for a "
		     "histogram and no barrier.",
	    .here = "4 Mi x 4 Mi tuples of 16 B, two processes with a thread "
		    "each; beside two threads that share memory, and beside a "
		    "join by MPI_Put and histograms, by the same kernels. Its "
		    "windows are opened when the histograms are known, or are "
		    "ready before the time begins.",
	    .steps = {
		{
		    .series = "over flows",
		    .command = "--nodes 2 --threads 1 --inner 4M --outer 4M",
		    .seconds = 10,
		    .cpus = 2,
		    .join_baseline = "--nodes 2 --threads 1 --inner 4M "
				     "--outer 4M --baseline local",
		    .baseline = "local",
		},
		JOIN_BESIDE_MPI("openmpi", "", "openmpi"),
		JOIN_BESIDE_MPI("openmpi", " ready", "openmpi-ready"),
		JOIN_BESIDE_MPI("mpich", "", "mpich"),
		JOIN_BESIDE_MPI("mpich", " ready", "mpich-ready"),
	    },
	    .claims = {
		{ "At most 1.1 times the time of threads that share memory",
		    "ratio", "baseline=local", NULL, 0, 1.1,
		    "Tuples that change hands are copied into a ring and out "
		    "of it, all of which is in partitioning; threads that "
		    "share memory write them to their place." },
		{ "Half of the time of the join by Open MPI", "ratio",
		    "baseline=openmpi", NULL, 0, 0.5 },
		{ "At most its time with windows that were ready", "ratio",
		    "baseline=openmpi-ready", NULL, 0, 1 },
		{ "Half of the time of the join by MPICH", "ratio",
		    "baseline=mpich", NULL, 0, 0.5 },
	    },
	},
	{
	    .id = "E15",
	    .name = "join-replicate",
	    .title = "A join with a small inner relation",
	    .paper = "With an inner relation of a thousandth, a join that "
		     "replicates it takes 20 % less time than one that "
		     "partitions both.",
	    .here = "16 Ki x 16 Mi tuples of 16 B, two processes with a thread "
		    "each.",
	    .steps = {
		{
		    .series = "replicate",
		    .command = "--nodes 2 --threads 1 --inner 16K --outer 16M "
			       "--strategy replicate",
		    .seconds = 14,
		    .cpus = 2,
		    .join_baseline = "--nodes 2 --threads 1 --inner 16K "
				     "--outer 16M --strategy repartition",
		    .baseline = "repartition",
		},
	    },
	    .claims = {
		{ "At most 0.85 of the time of repartitioning", "ratio",
		    "experiment=join", NULL, 0, 0.85 },
	    },
	},
	{
	    .id = "E16",
	    .name = "replicated-store",
	    .title = "A replicated store of keys and values",
	    .paper = "Multi-Paxos and NOPaxos over flows beat DARE. They are "
		     "equal up to 700,000 requests a second, where the leader "
		     "of Multi-Paxos is full; NOPaxos takes twice as many.",
	    .here = "Five replicas, processes of this machine, and six clients; "
		    "95 % reads of 64 B. Each client keeps 1 to 128 requests "
		    "outstanding. With one it does as a client of DARE does, "
		    "which that row stands for; it is not DARE. "
		    "bench/consensus_experiment/run puts etcd and Redis beside "
		    "it.",
	    .steps = {
		{
		    .series = "five replicas",
		    .command = "--protocol paxos,nopaxos --replicas 5 "
			       "--clients 6 --workload 95/5 --outstanding "
			       "1,8,32,128 --records 2000",
		    .seconds = 40,
		    .store = true,
		},
	    },
	    .claims = {
		{ "With 32 outstanding requests of each client Multi-Paxos "
		  "serves twice as many as with one",
		    "value", "store=paxos outstanding=32",
		    "store=paxos outstanding=1", 2, 0 },
		{ "NOPaxos does so, too", "value",
		    "store=nopaxos outstanding=32",
		    "store=nopaxos outstanding=1", 2, 0 },
		{ "With one, NOPaxos takes 0.7 to 1.3 times the time of "
		  "Multi-Paxos",
		    "p50_us", "store=nopaxos outstanding=1",
		    "store=paxos outstanding=1", 0.7, 1.3, ALL_SHARE },
		{ "With 128, NOPaxos serves 1.5 times as many as Multi-Paxos",
		    "value", "store=nopaxos outstanding=128",
		    "store=paxos outstanding=128", 1.5, 0, ALL_SHARE },
	    },
	    .figure = {
		.x = "outstanding",
		.x_title = "outstanding requests of each of 6 clients",
		.y = "value", .y_title = "requests a second",
		.lines = "store",
	    },
	    .more_figures = {
		{ .x = "outstanding",
		    .x_title = "outstanding requests of each of 6 clients",
		    .y = "p95_us", .y_title = "95th percentile [us]",
		    .lines = "store", .log_y = true },
	    },
	},
};

const uint32_t n_case_experiments = sizeof(case_experiments) /
    sizeof(case_experiments[0]);
