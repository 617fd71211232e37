/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. */
#ifndef AGGREGATE_OPTIONS_H
#define AGGREGATE_OPTIONS_H

#include <stdint.h>

#define MAX_PROCESSES 64
#define MAX_THREADS 64
#define MAX_RUN_NAME 64

struct options {
	const char *text; /* of the query; NULL: another machine says it */
	const char *types;
	uint32_t n_processes, n_threads, fan_in;
	/* Several machines. */
	const char *run;
	const char *registry;    /* NULL: as the environment says */
	uint32_t n_local, first; /* processes of this machine */
	uint32_t timeout_s;
	/* Of a process that was started. */
	const char *flow;
	int64_t process; /* -1: the one that the user has started */
};

/* Exits on a wrong command line, or after --help. */
void options_parse(int argc, char **argv, struct options *options);

#endif
