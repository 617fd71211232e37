/* SPDX-License-Identifier: Apache-2.0 */
/* Experiments of ours with loads that ends share unevenly, or have together. */
#include <stddef.h>

#include "experiments_impl.h"

/* Round trips of which several are on their way. */
#define WINDOW(n)                                                \
	{                                                        \
		"window " n,                                     \
		    "latency --window " n " --iterations 20000 " \
		    "--timeout 300",                             \
		    2, 2                                         \
	}

/* A target that reads `times` as slowly as the other one. */
#define SLOW_TARGET(series, times)                                        \
	{                                                                 \
		series,                                                   \
		    "shuffle --targets 2 --api batch --tuple-size 16,64 " \
		    "--slow-target " times,                               \
		    3, 2                                                  \
	}

const struct experiment load_experiments[] = {
	{
	    .id = "B15",
	    .name = "window",
	    .title = "Requests that do not wait for the reply before",
	    .here = "1 to 16 requests of 64 B on their way together, over two "
		    "latency flows; one source and one target.",
	    .steps = {
		WINDOW("1"),
		WINDOW("4"),
		WINDOW("16"),
	    },
	    .claims = {
		{ "With four requests on their way there are 1.5 times as many "
		  "replies a second",
		    "message_rate", "window=4", "window=1", 1.5, 0 },
	    },
	    .figure = {
		.x = "window", .x_title = "requests on their way",
		.y = "message_rate", .y_title = "replies [M/s]",
		.lines = "experiment",
	    },
	    .more_figures = {
		{ .x = "window", .x_title = "requests on their way",
		    .y = "value", .y_title = "median round trip [ns]",
		    .lines = "experiment" },
	    },
	},
	{
	    .id = "B16",
	    .name = "both-ways",
	    .title = "Two processes send to each other",
	    .here = "Two pairs between two processes, both in one direction, "
		    "or one in each; a thread for each end, beside the "
		    "hand-written ring in the same arrangement.",
	    .steps = {
		{ "one way",
		    "shuffle --pairs 2 --procs 2 --api push,claim --tuple-size "
		    "16,64",
		    8, 2 },
		{ "both ways",
		    "shuffle --bidirectional --api push,claim --tuple-size "
		    "16,64",
		    8, 2 },
	    },
	    .claims = {
		{ "Both ways move 0.9 of what one way moves", "value",
		    "bidirectional=true", "bidirectional=false", 0.9, 0 },
	    },
	    .figure = {
		.x = "tuple_size", .x_title = "tuple size [B]",
		.y = "value", .y_title = "payload [GB/s]",
		.lines = "series api",
	    },
	},
	{
	    .id = "B17",
	    .name = "slow-consumer",
	    .title = "One of two targets reads more slowly",
	    .here = "One source, which sends as much to each; the slow target "
		    "takes 1 to 8 times as long to read a tuple. Nothing is "
		    "lost, so its ring fills, and the source waits for it.",
	    .steps = {
		SLOW_TARGET("both alike", "1"),
		SLOW_TARGET("2 times", "2"),
		SLOW_TARGET("4 times", "4"),
		SLOW_TARGET("8 times", "8"),
	    },
	    .claims = {
		{ "The flow keeps at least a quarter of its bandwidth with a "
		  "target of a quarter of the speed",
		    "value", "slow_target=4", "slow_target=1", 0.25, 0 },
	    },
	    .figure = {
		.x = "slow_target", .x_title = "times as long, at the target",
		.y = "value", .y_title = "payload [GB/s]",
		.lines = "tuple_size",
	    },
	},
	{
	    .id = "B18",
	    .name = "bulk-beside-latency",
	    .title = "Round trips beside bulk data",
	    .here = "Round trips of 16 and 64 B over two latency flows, while "
		    "the client pushes as much as it can through a third flow "
		    "to the same server; a thread at each end, which looks for "
		    "a reply, or a request, after each KiB, or segment. The "
		    "limit is the same round trip without bulk data.",
	    .steps = {
		{ "bulk",
		    "latency --bulk --procs 2 --iterations 20000 --timeout 300 "
		    "--tuple-size 16,64",
		    4, 2 },
	    },
	    .claims = {
		{ "A round trip of 64 B takes at most 20 us", "value",
		    "tuple_size=64", NULL, 0, 20000 },
	    },
	},
};

const uint32_t n_load_experiments = sizeof(load_experiments) /
    sizeof(load_experiments[0]);
