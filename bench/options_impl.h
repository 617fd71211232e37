/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parsers of the subcommands; only options*.c use it. */
#ifndef DFI_BENCH_OPTIONS_IMPL_H
#define DFI_BENCH_OPTIONS_IMPL_H

#include <argp.h>
#include <dfi/dfi.h>
#include "options.h"

enum key {
	KEY_ALL_SIZES = 'a',
	KEY_DURATION = 'D',
	KEY_REPEAT = 256,
	KEY_SECONDS,
	KEY_BYTES,
	KEY_PIN,
	KEY_NO_PIN,
	KEY_TIMEOUT,
	KEY_VERIFY,
	KEY_JSON,
	KEY_CSV,
	KEY_WIDE,
	KEY_PROCS,
	KEY_WAIT,
	KEY_TUPLE_SIZE,
	KEY_SEGMENT_SIZE,
	KEY_SEGMENTS,
	KEY_REGISTRY,
	KEY_TRANSPORT,
	KEY_ROLE,
	KEY_SWEEP,
	KEY_SOURCES,
	KEY_TARGETS,
	KEY_TARGET_THREADS,
	KEY_API,
	KEY_ROUTING,
	KEY_BATCH,
	KEY_NO_BASELINE,
	KEY_ONE_TO_ONE,
	KEY_RAW_GEOMETRY,
	KEY_RAW_COPIES,
	KEY_ITERATIONS,
	KEY_ONE_CORE,
	KEY_CLIENTS,
	KEY_MODE,
	KEY_LATENCY,
	KEY_GROUPS,
	KEY_COMBINING,
	KEY_FAN_IN,
	KEY_HOW,
	KEY_NODES,
	KEY_ALL,
	KEY_OUT,
	KEY_AGAIN,
	KEY_HISTOGRAM,
	KEY_RATE,
	KEY_PAIRS,
	KEY_MEASURE,
	KEY_OF,
	KEY_COUNTS,
	KEY_PEER,
	KEY_THINK,
	KEY_JOINS,
	KEY_LINK_BANDWIDTH,
	KEY_SLOW_SOURCE,
	KEY_SLOW_TARGET,
	KEY_STRAGGLER,
	KEY_WINDOW,
	KEY_LINK_LATENCY,
	KEY_BULK,
	KEY_BIDIRECTIONAL,
	KEY_VS_RING,
	KEY_CREDIT_INTERVAL,
	KEY_APART,
};

/* The parser of common options, as a child of a subcommand's parser. */
extern const struct argp_child common_children[];

/* Like argp_parse(); an unknown option ends the program. */
void parse_options(
    const struct argp *argp, int argc, char **argv, void *options);

struct common_options common_defaults(void);

/* The sizes to use if none were given. */
void default_tuple_sizes(
    struct common_options *options, const uint32_t *sizes, uint32_t n);

/* Refuse roles in an experiment that has none. */
void refuse_role(
    const struct argp_state *state, const struct common_options *common);

/*
 * Refuse a choice of transport in an experiment without flows. why: what it
 * uses instead.
 */
void refuse_transport(const struct argp_state *state,
    const struct common_options *common, const char *why);

#define HOW_OPTION(names, doc)                   \
	{                                        \
		"how", KEY_HOW, names, 0, doc, 0 \
	}

/* "100M": bytes a second of a modelled link. */
uint64_t parse_link_bandwidth(const struct argp_state *state, const char *text);

/*
 * Refuse a link where tuples are not pushed in batches, or where there are more
 * nodes than links.
 */
void check_link(const struct argp_state *state, const uint32_t *apis,
    uint32_t n_apis, uint32_t n_ends);

#define LINK_OPTION                                                           \
	{                                                                     \
		"link-bandwidth", KEY_LINK_BANDWIDTH, "BYTES", 0,             \
		    "Let each node send, and receive, so many bytes a "       \
		    "second, as 100M, over a modelled link. Only with --api " \
		    "batch; compares with the link instead of a ring",        \
		    0                                                         \
	}

#define LINK_LATENCY_OPTION                                                   \
	{                                                                     \
		"link-latency", KEY_LINK_LATENCY, "TIME", 0,                  \
		    "Let what crosses a modelled link arrive so much later, " \
		    "as 20us",                                                \
		    0                                                         \
	}

/* "20us": nanoseconds of a modelled link, at most a second. */
uint64_t parse_link_latency(const struct argp_state *state, const char *text);

/* The seconds of an option's text. Ends the process if it is no time. */
double parse_seconds(
    const struct argp_state *state, const char *option, const char *text);

/* The common part of the subcommands' parsers. */
error_t parse_rest(
    int key, struct argp_state *state, struct common_options *common);

#endif
