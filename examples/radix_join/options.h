/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line. Node processes get the command line of the process that
 * starts them, and a few hidden options.
 */
#ifndef RADIX_JOIN_OPTIONS_H
#define RADIX_JOIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include "relation.h"

enum key_type {
	KEY_AUTO,
	KEY_INTEGER,
	KEY_STRING,
};

/* Which tuples travel. */
enum strategy {
	STRATEGY_REPARTITION, /* both relations, to the owners of partitions */
	STRATEGY_REPLICATE,   /* the inner one, to all workers */
	STRATEGY_AUTO,        /* as the sizes say: see is_replicated() */
};

/* A column of one of the two tables, as "inner:name" says. */
struct column_name {
	enum relation relation;
	char *name;
};

struct options {
	uint32_t nodes, threads; /* of all machines; of each node */
	enum strategy strategy;
	uint32_t radix_bits; /* 0: chosen by the size of the inner relation */
	bool fixed_bits;     /* by the command line: there are partitions */
	bool baseline;       /* join without flows instead */
	bool verify, json;
	int pin;       /* -1: if there are enough processors */
	bool loopback; /* a worker's own tuples travel, too */

	/* The nodes of this machine, and how it meets the others. */
	uint32_t first_node, local_nodes;
	const char *registry; /* NULL: of the environment, if there is a run */
	const char *run;      /* NULL: made up */
	uint32_t timeout_ms;  /* to wait for other machines' processes */

	/* Synthetic input. */
	uint64_t n_tuples[N_RELATIONS];
	double selectivity, zipf;
	uint64_t seed;

	/* Input from files, if csv[INNER] is set. */
	const char *csv[N_RELATIONS];
	const char *key[N_RELATIONS];
	enum key_type key_type;
	struct column_name sum; /* name NULL: no sum */
	const char *output;     /* NULL: no joined rows */
	struct column_name *columns;
	uint32_t n_columns; /* 0: all */

	/* A node process: which one, of which run. */
	bool is_node, progress;
	uint32_t node;
	int image_fd; /* -1: synthetic input */
};

#define MAX_RADIX_BITS 16
#define MAX_RUN_NAME 63
#define NO_LIMIT_MS (UINT32_MAX / 2) /* 24 days */

/* Ends the process with status 2 if the command line is wrong. */
void options_parse(struct options *options, int argc, char **argv);
void options_free(struct options *options);

static inline uint32_t options_workers(const struct options *options)
{
	return options->nodes * options->threads;
}

/* Whether there are nodes of other machines. */
static inline bool options_across(const struct options *options)
{
	return options->first_node > 0 || options->local_nodes < options->nodes;
}

/*
 * How long a process waits for others, in ms. On one machine there is no limit:
 * a leader ends all when one ends.
 */
static inline uint32_t options_wait_limit(const struct options *options)
{
	return options_across(options) ? options->timeout_ms : NO_LIMIT_MS;
}

/* Whether to bind each worker of this machine to a processor. */
bool options_pin(const struct options *options);

#endif
