/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of dfi-kv-run. */
#ifndef KV_RUN_OPTIONS_H
#define KV_RUN_OPTIONS_H

#include "load_options.h"
#include "run_failover.h"

#define RUN_MAX_PROTOCOLS 2

struct run_arguments {
	struct load_options load;
	const char *protocols[RUN_MAX_PROTOCOLS];
	uint32_t n_protocols;
	struct run_options store;
	struct run_failover fault;
	/* Which of the options were given. */
	bool has_workload, has_seconds, has_after, has_restart, has_stop;
};

/* Parse the command line; errors end the program. */
extern const struct argp run_argp;

/* The defaults. */
void run_arguments_init(struct run_arguments *arguments);

#endif
