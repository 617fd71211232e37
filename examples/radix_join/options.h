/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line. Node processes are started with the same one, and a few
 * hidden options behind it.
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

/* A column of one of the two tables, as "inner:name" says. */
struct column_name {
	enum relation relation;
	char *name;
};

struct options {
	uint32_t nodes, threads;
	uint32_t radix_bits; /* 0: chosen by the size of the inner relation */
	bool baseline;       /* join without flows instead */
	bool verify, json, pin;
	bool loopback;        /* a worker's own tuples travel, too */
	const char *registry; /* NULL: one in this process */

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
	const char *run;
	int image_fd; /* -1: synthetic input */
};

/* Ends the process with status 2 if the command line is wrong. */
void options_parse(struct options *options, int argc, char **argv);
void options_free(struct options *options);

static inline uint32_t options_workers(const struct options *options)
{
	return options->nodes * options->threads;
}

#endif
