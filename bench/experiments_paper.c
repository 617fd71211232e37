/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The experiments of the DFI paper with flows alone. Limits of claims leave
 * room for noise: they say whether a machine shows what the paper does, not how
 * fast it is.
 */
#include <stddef.h>

#include "experiments_impl.h"

#define SIZES "16,32,64,128,256,1K,4K"

/* Nodes with a modelled link each. */
#define LINKED(n)                                                     \
	{                                                             \
		n " nodes, modelled links",                           \
		    "shuffle --nodes " n " --api batch --wait block " \
		    "--link-bandwidth 50M --link-latency 20us "       \
		    "--tuple-size 64 --timeout 300",                  \
		    3, 2                                              \
	}

const struct experiment paper_experiments[] = {
	{
	    .id = "E1",
	    .name = "shuffle-bandwidth",
	    .title = "One server shuffles to eight targets",
	    .paper = "One thread stays below the network's limit with small "
		     "tuples. Two threads reach it from 128 B on, four with "
		     "all sizes.",
	    .here = "Tuple size; 1, 2 and 4 sources; 8 targets that one thread "
		    "polls. There is no network: the limit is the hand-written "
		    "program that partitions the same tuples, or a modelled "
		    "link of each node.",
	    .steps = {
		{ "1 source",
		    "shuffle --sources 1 --targets 8 --target-threads 1 "
		    "--api batch --tuple-size " SIZES,
		    14, 0 },
		{ "2 sources",
		    "shuffle --sources 2 --targets 8 --target-threads 1 "
		    "--api batch --tuple-size " SIZES,
		    16, 3 },
		{ "4 sources",
		    "shuffle --sources 4 --targets 8 --target-threads 1 "
		    "--api batch --tuple-size " SIZES,
		    18, 5 },
		{ "1 source, modelled link",
		    "shuffle --sources 1 --targets 8 --target-threads 1 "
		    "--api batch --wait block --link-bandwidth 200M "
		    "--tuple-size 16,128,1K --timeout 300",
		    6, 2 },
	    },
	    .claims = {
		{ "One source is slower with tuples of 16 B than with 1 KiB",
		    "value", "series=1_source tuple_size=16",
		    "series=1_source tuple_size=1024", 0, 0.95,
		    "Four pairs of rows within seconds of each other had 0.4 "
		    "to 0.5. Some virtual machines write lines that the other "
		    "processor has read at 30 GB/s, or at 4 to 8, from one "
		    "minute to the next (bench/README.md); if that changes "
		    "between two rows, the hand-written program's rows show "
		    "it as well." },
		{ "From 128 B on, one source has 0.8 of what it has with 1 KiB",
		    "value", "series=1_source tuple_size=128",
		    "series=1_source tuple_size=1024", 0.8, 0 },
		{ "It reaches 0.7 of the hand-written program with 1 KiB",
		    "ratio", "series=1_source tuple_size=1024", NULL, 0.7, 0 },
		{ "It fills a modelled link of 200 MiB/s with tuples of 128 B",
		    "ratio", "baseline=modelled_link tuple_size=128", NULL, 0.9,
		    0 },
	    },
	    .figure = {
		.x = "tuple_size", .x_title = "tuple size [B]",
		.y = "value", .y_title = "payload [GB/s]", .lines = "series",
		.rows = "wait=adaptive",
	    },
	},
	{
	    .id = "E2",
	    .name = "shuffle-latency",
	    .title = "A request and its reply over two latency flows",
	    .paper = "A flow adds little to the bare write of the network. It "
		     "adds more with larger tuples, which it copies, and with "
		     "more targets, which it chooses among.",
	    .here = "Tuple size; one target. The bare round trip is one cache "
		    "line in each direction, whatever the tuple's size. Once "
		    "over memory, and once over a modelled link of 2 us in each "
		    "direction.",
	    .steps = {
		{ "1 target",
		    "latency --iterations 10000 --timeout 300 --tuple-size "
		    "16,64,256,1K,4K,8K",
		    8, 2 },
		{ "1 target, link of 2 us",
		    "latency --link-latency 2us --iterations 5000 --timeout "
		    "300 --tuple-size 16,64,256,1K,4K,8K",
		    5, 2 },
	    },
	    .claims = {
		{ "A round trip of 16 B takes at most twice the bare one",
		    "ratio", "series=1_target tuple_size=16", NULL, 0, 2 },
		{ "A round trip of 64 B takes at most 2.5 times the bare one",
		    "ratio", "series=1_target tuple_size=64", NULL, 0, 2.5 },
		{ "Larger tuples add more", "value",
		    "series=1_target tuple_size=4096",
		    "series=1_target tuple_size=64", 1, 0 },
		{ "Over a link of 2 us a round trip of 64 B takes at most 1.1 "
		  "times the bare one",
		    "ratio", "series=1_target,_link_of_2_us tuple_size=64", NULL,
		    0, 1.1 },
	    },
	    .figure = {
		.x = "tuple_size", .x_title = "tuple size [B]",
		.y = "value", .y_title = "median round trip [ns]",
		.lines = "series", .log_y = true,
	    },
	},
	{
	    .id = "E3",
	    .name = "shuffle-scale-out",
	    .title = "All nodes shuffle to all nodes",
	    .paper = "The bandwidth of all nodes together grows in proportion "
		     "to their number, up to eight.",
	    .here = "N sources and N targets, a processor for each; beside one "
		    "source and one target. Nodes with a modelled link of 50 "
		    "MiB/s and 20 us each show the shape on any machine.",
	    .steps = {
		{ "2:2",
		    "shuffle --sources 2 --targets 2 --vs-one-to-one --api "
		    "claim,batch --tuple-size 64",
		    5, 4 },
		{ "4:4",
		    "shuffle --sources 4 --targets 4 --vs-one-to-one --api "
		    "claim,batch --tuple-size 64",
		    5, 8 },
		{ "8:8",
		    "shuffle --sources 8 --targets 8 --vs-one-to-one --api "
		    "claim,batch --tuple-size 64",
		    6, 16 },
		LINKED("1"),
		LINKED("2"),
		LINKED("4"),
		LINKED("8"),
	    },
	    .claims = {
		{ "Two pairs move 1.6 times as much as one", "ratio",
		    "sources=2 api=claim", NULL, 1.6, 0 },
		{ "Four pairs move 2.8 times as much as one", "ratio",
		    "sources=4 api=claim", NULL, 2.8, 0 },
		{ "Eight pairs move 5 times as much as one", "ratio",
		    "sources=8 api=claim", NULL, 5, 0 },
		{ "Over modelled links of 50 MiB/s eight nodes move 7 times as "
		  "much as one",
		    "value", "wait=block nodes=8", "wait=block nodes=1", 7, 0 },
	    },
	    .figure = {
		.x = "sources", .x_title = "sources, and as many targets",
		.y = "value", .y_title = "payload [GB/s]",
		.lines = "api", .rows = "wait=adaptive",
	    },
	    .more_figures = {
		{ .x = "nodes", .x_title = "nodes with links of 50 MiB/s",
		    .y = "value",
		    .y_title = "payload over links [GB/s]",
		    .lines = "api", .rows = "wait=block" },
	    },
	},
	{
	    .id = "E4",
	    .name = "replicate-naive",
	    .title = "One source replicates to eight targets, one by one",
	    .paper = "One thread fills the network's way out of its node with "
		     "tuples of 64 B and more. It is full sooner than in a "
		     "shuffle, because each tuple leaves eight times.",
	    .here = "Tuple size; 1 and 8 targets, which share the processors.",
	    .steps = {
		{ "naive",
		    "replicate --mode naive --targets 1,8 --api batch "
		    "--tuple-size " SIZES,
		    34, 2 },
		{ "naive, modelled link",
		    "replicate --mode naive --targets 8 --api batch --wait "
		    "block --link-bandwidth 100M --tuple-size 16,64,1K "
		    "--timeout 300",
		    6, 2 },
	    },
	    .claims = {
		{ "Tuples of 64 B have 0.75 of the bandwidth of 1 KiB", "value",
		    "wait=adaptive targets=8 tuple_size=64", "wait=adaptive targets=8 tuple_size=1024",
		    0.75, 0 },
		{ "Eight targets make the source slower than one", "value",
		    "wait=adaptive targets=8 tuple_size=1024", "wait=adaptive targets=1 tuple_size=1024", 0,
		    0.9 },
		{ "One source fills an eighth of a modelled link of 100 MiB/s "
		  "with tuples of 64 B",
		    "ratio", "wait=block tuple_size=64", NULL, 0.9, 0 },
	    },
	    .figure = {
		.x = "tuple_size", .x_title = "tuple size [B]",
		.y = "value", .y_title = "payload [GB/s]",
		.lines = "mode targets", .rows = "wait=adaptive",
	    },
	},
	{
	    .id = "E5",
	    .name = "replicate-multicast",
	    .title = "One source replicates to eight targets by multicast",
	    .paper = "All targets together get several times what the source "
		     "can send, as the network makes the copies. More source "
		     "threads do not help.",
	    .here = "Tuple size; 8 targets, which share the processors. In "
		    "memory a multicast is one ring that all targets read. "
		    "MPI_Bcast stands beside a flow with a processor for each "
		    "end.",
	    .steps = {
		{ "8 targets",
		    "replicate --mode naive,multicast --targets 8 --api claim "
		    "--tuple-size " SIZES,
		    24, 2 },
		{ "8 targets, modelled link",
		    "replicate --mode naive,multicast --targets 8 --api batch "
		    "--wait block --link-bandwidth 100M --tuple-size 16,64,1K "
		    "--timeout 300",
		    9, 2 },
		{ "beside MPI",
		    "peers --measure replicate --tuple-size 64,1K --timeout "
		    "300",
		    20, 2 },
	    },
	    .claims = {
		{ "Targets get at least as much as by naive replication",
		    "delivered", "wait=adaptive mode=multicast tuple_size=1024",
		    "wait=adaptive mode=naive tuple_size=1024", 1, 0 },
		{ "The same with tuples of 64 B", "delivered",
		    "wait=adaptive mode=multicast tuple_size=64", "wait=adaptive mode=naive tuple_size=64",
		    1, 0 },
		{ "A flow has the bandwidth of the faster MPI_Bcast", "ratio",
		    "measure=replicate tuple_size=1024 best_peer=yes", NULL, 1,
		    0 },
		{ "Over a modelled link of 100 MiB/s targets get 7 times as "
		  "much as by naive replication",
		    "delivered", "wait=block mode=multicast tuple_size=64",
		    "wait=block mode=naive tuple_size=64", 7, 0 },
	    },
	    .figure = {
		.x = "tuple_size", .x_title = "tuple size [B]",
		.y = "delivered", .y_title = "payload of all targets [GB/s]",
		.lines = "mode", .rows = "wait=adaptive",
	    },
	    .more_figures = {
		{ .x = "tuple_size", .x_title = "tuple size [B]; a link of 100 MiB/s",
		    .y = "delivered",
		    .y_title = "payload over links [GB/s]",
		    .lines = "mode", .rows = "wait=block" },
	    },
	},
	{
	    .id = "E6",
	    .name = "replicate-latency",
	    .title = "A request to all targets, and the replies of all",
	    .paper = "With one target naive replication is best. With more, a "
		     "multicast takes far less time, and wins.",
	    .here = "1 to 8 targets with a thread each. With more threads than "
		    "processors the scheduler is most of the time.",
	    .steps = {
		{ "64 B",
		    "replicate --latency --mode naive,multicast --targets "
		    "1,2,4,8 --iterations 4000",
		    14, 2 },
	    },
	    .claims = {
		{ "With one target naive is at most 1.1 times multicast",
		    "value", "mode=naive targets=1", "mode=multicast targets=1",
		    0, 1.1 },
		{ "With eight targets multicast is faster", "value",
		    "mode=multicast targets=8", "mode=naive targets=8", 0, 1,
		    "Nine threads on fewer processors wait for the scheduler, "
		    "not for tuples." },
	    },
	    .figure = {
		.x = "targets", .x_title = "targets",
		.y = "value", .y_title = "median time to all replies [ns]",
		.lines = "mode", .log_y = true,
	    },
	},
	{
	    .id = "E7",
	    .name = "combine-sum",
	    .title = "Eight nodes send tuples that one target sums",
	    .paper = "With two and with four threads a node, the network's way "
		     "into the target is the limit, whatever the tuple size.",
	    .here = "Tuple size; 1, 2 and 8 sources; 1000 groups. The target's "
		    "processor is the limit; combining at sources avoids it. "
		    "Ranks of MPI know that keys are small numbers, and add to "
		    "an array, before one MPI_Reduce.",
	    .steps = {
		{ "1 source",
		    "combine --sources 1 --groups 1000 --tuple-size "
		    "16,64,256,1K",
		    20, 2 },
		{ "2 sources",
		    "combine --sources 2 --groups 1000 --tuple-size "
		    "16,64,256,1K",
		    20, 2 },
		{ "8 sources",
		    "combine --sources 8 --groups 1000 --tuple-size "
		    "16,64,256,1K",
		    22, 2 },
		{ "beside MPI",
		    "peers --measure combine --tuple-size 16,64,1K --timeout "
		    "300",
		    20, 2 },
	    },
	    .claims = {
		{ "Eight sources move at most 1.3 times what two do", "value",
		    "sources=8 source_combining=off",
		    "sources=2 source_combining=off", 0, 1.3 },
		{ "Sources that combine send on at most a tenth of 16 B tuples",
		    "sent_share",
		    "sources=8 tuple_size=16 source_combining=on", NULL, 0,
		    0.1 },
		{ "They move at least twice as much of 16 B tuples",
		    "off_ratio", "sources=8 tuple_size=16 source_combining=on",
		    NULL, 2, 0 },
		{ "Two that combine have half of the bandwidth of ranks that add "
		  "to an array for MPI_Reduce",
		    "ratio", "measure=combine tuple_size=16 best_peer=yes",
		    NULL, 0.5, 0,
		    "Sources look up the key of each tuple in a hash table, "
		    "which takes as long as making the tuple; ranks add to an "
		    "element as they make it, and store no tuple." },
	    },
	    .figure = {
		.x = "tuple_size", .x_title = "tuple size [B]",
		.y = "value", .y_title = "payload [GB/s]",
		.lines = "series source_combining", .rows = "experiment=combine",
	    },
	},
	{
	    .id = "E8",
	    .name = "memory",
	    .title = "Memory of the rings of a node",
	    .paper = "With rings of 32 segments of 8 KiB a node needs 16 MiB "
		     "for 2 nodes of 4 threads, 64 MiB for 8 nodes of 4, and "
		     "785.5 MiB for 8 nodes of 14.",
	    .here = "The same flows, all from all, as the library plans them; "
		    "nothing is sent. The limit is the paper's, with rings of "
		    "the same size at both ends.",
	    .steps = {
		{ "as the paper",
		    "memory --nodes 2x4,8x4,8x14 --segment-size 8K --segments "
		    "32",
		    1, 0 },
	    },
	    .claims = {
		{ "At most 1.05 times the paper's memory for 8 nodes of 14",
		    "ratio", "nodes=8 threads=14", NULL, 0, 1.05 },
		{ "Twelve times as much as for 8 nodes of 4, as threads count "
		  "in their square",
		    "value", "nodes=8 threads=14", "nodes=8 threads=4", 11.5,
		    13 },
	    },
	},
	{
	    .id = "E9",
	    .name = "ring-depth",
	    .title = "Rings of half and of a quarter of the segments",
	    .paper = "Half of 32 segments of 8 KiB cost 2.7 % of the "
		     "bandwidth, a quarter 8 %.",
	    .here = "One source and one target; 32, 16 and 8 segments.",
	    .steps = {
		{ "32",
		    "shuffle --segments 32 --segment-size 8K --api claim,batch "
		    "--tuple-size 64,1K",
		    9, 2 },
		{ "16",
		    "shuffle --segments 16 --segment-size 8K --api claim,batch "
		    "--tuple-size 64,1K",
		    9, 2 },
		{ "8",
		    "shuffle --segments 8 --segment-size 8K --api claim,batch "
		    "--tuple-size 64,1K",
		    9, 2 },
	    },
	    .claims = {
		{ "Half of the segments keep 0.9 of the bandwidth", "value",
		    "series=16", "series=32", 0.9, 0 },
		{ "A quarter of the segments keeps 0.8 of the bandwidth",
		    "value", "series=8", "series=32", 0.8, 0 },
	    },
	    .figure = {
		.x = "segment_count", .x_title = "segments of 8 KiB",
		.y = "value", .y_title = "payload [GB/s]",
		.lines = "api tuple_size",
	    },
	},
};

const uint32_t n_paper_experiments = sizeof(paper_experiments) /
    sizeof(paper_experiments[0]);
