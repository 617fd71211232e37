/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that all load programs share: which requests, how many, for how
 * long, and how results are printed.
 */
#ifndef KV_LOAD_OPTIONS_H
#define KV_LOAD_OPTIONS_H

#include <argp.h>
#include "load_group.h"

#define LOAD_MAX_POINTS 64
#define LOAD_MAX_CLIENTS 64

struct load_options {
	struct load_plan plan; /* except mix, outstanding and rate */
	const struct load_mix *mixes[LOAD_MAX_POINTS];
	uint32_t n_mixes;
	uint32_t outstanding[LOAD_MAX_POINTS];
	uint32_t n_outstanding;
	double rates[LOAD_MAX_POINTS];
	uint32_t n_rates; /* 0: closed loop */
	int distribution; /* enum load_distribution for all mixes; -1: each
			   * mix has its own */
	struct load_counts counts;
	bool json;
	const char *csv, *plot;
};

/* Keys of the options; a program's own are from LOAD_KEY_OWN on. */
enum {
	LOAD_KEY_WORKLOAD = 256,
	LOAD_KEY_DISTRIBUTION,
	LOAD_KEY_THETA,
	LOAD_KEY_RECORDS,
	LOAD_KEY_VALUE_SIZE,
	LOAD_KEY_CLIENTS,
	LOAD_KEY_OUTSTANDING,
	LOAD_KEY_RATE,
	LOAD_KEY_SECONDS,
	LOAD_KEY_WARM_UP,
	LOAD_KEY_SEED,
	LOAD_KEY_NO_FILL,
	LOAD_KEY_COUNT,
	LOAD_KEY_JSON,
	LOAD_KEY_CSV,
	LOAD_KEY_PLOT,
	LOAD_KEY_OWN = 400,
};

/* Entries of a program's list of options. */
#define LOAD_OPTIONS_REQUESTS                                                  \
	{ NULL, 0, NULL, 0, "Requests:", 2 },                                  \
	    { "workload", LOAD_KEY_WORKLOAD, "LIST", 0,                        \
		    "Of " LOAD_MIXES                                           \
		    " (default a). YCSB's A, B and C are 50 %, 95 % and 100 "  \
		    "% reads with a Zipf distribution; 95/5 is 95 % reads, "   \
		    "uniform",                                                 \
		    0 },                                                       \
	    { "distribution", LOAD_KEY_DISTRIBUTION, "NAME", 0,                \
		    "Keys of all workloads: uniform or zipf (default: as the " \
		    "workload)",                                               \
		    0 },                                                       \
	    { "theta", LOAD_KEY_THETA, "X", 0,                                 \
		    "Skew of zipf, 0 to 0.9999 (default 0.99, as "             \
		    "YCSB)",                                                   \
		    0 },                                                       \
	    { "records", LOAD_KEY_RECORDS, "N", 0,                             \
		    "Keys, written before the load (default 10000)", 0 },      \
	    { "value-size", LOAD_KEY_VALUE_SIZE, "BYTES", 0,                   \
		    "Size of each value, 1 to 4096 (default 64)", 0 },         \
	    { "clients", LOAD_KEY_CLIENTS, "N", 0,                             \
		    "Processes that make requests, 1 to 64 (default 6)", 0 },  \
	    { "outstanding", LOAD_KEY_OUTSTANDING, "LIST", 0,                  \
		    "Requests that each client keeps outstanding, or has at "  \
		    "most with --rate, 1 to 256 (default 32)",                 \
		    0 },                                                       \
	    { "rate", LOAD_KEY_RATE, "LIST", 0,                                \
		    "Requests a second that all clients together begin, "      \
		    "whether or not earlier ones have ended. Latencies count " \
		    "from the time when a request is due",                     \
		    0 },                                                       \
	    { "seconds", LOAD_KEY_SECONDS, "X", 0,                             \
		    "Seconds to measure for each line, up to 3600 (default "   \
		    "5)",                                                      \
		    0 },                                                       \
	    { "warm-up", LOAD_KEY_WARM_UP, "X", 0,                             \
		    "Seconds of load before measuring (default 1)", 0 },       \
	{                                                                      \
		"seed", LOAD_KEY_SEED, "N", 0,                                 \
		    "Seed of the random keys (default 1)", 0                   \
	}

#define LOAD_OPTIONS_OUTPUT                                                 \
	{ NULL, 0, NULL, 0, "Output:", 4 },                                 \
	    { "json", LOAD_KEY_JSON, NULL, 0, "Print one JSON object", 0 }, \
	    { "csv", LOAD_KEY_CSV, "FILE", 0,                               \
		    "Write a line for each load to this file", 0 },         \
	{                                                                   \
		"plot", LOAD_KEY_PLOT, "FILE", 0,                           \
		    "Draw the result with gnuplot, as an SVG file", 0       \
	}

void load_options_init(struct load_options *options);

/* For a parser of argp. ARGP_ERR_UNKNOWN: no option of these. */
int load_options_parse(int key, char *text, struct argp_state *state,
    struct load_options *options);

/* The number of loads that these options name, and the plan of one, from 0. */
uint32_t load_options_points(const struct load_options *options);
struct load_plan load_options_point(
    const struct load_options *options, uint32_t point);

#endif
