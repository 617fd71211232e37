/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-bench: the table of subcommands. README.md and the bench_*.c files
 * describe the measurements.
 */
#include <dfi/dfi.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "../common/complain.h"
#include "../common/nearest.h"
#include "../common/output.h"
#include "bench.h"
#include "pauses.h"
#include "worker.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help; /* NULL: not for users */
} commands[] = {
	{ "raw", bench_raw, "the hand-written ring alone, beside memcpy" },
	{ "shuffle", bench_shuffle, "bandwidth of shuffle flows" },
	{ "replicate", bench_replicate,
	    "replicate flows: bandwidth, or time to all replies" },
	{ "combine", bench_combine, "sums by key through combiner flows" },
	{ "latency", bench_latency, "round trips over two latency flows" },
	{ "idle", bench_idle, "processor time of a waiting target" },
	{ "sequencer", bench_sequencer, "numbers taken of a sequencer" },
	{ "rpc", bench_rpc, "a service of open flows, and its clients" },
	{ "open", bench_open, "open flows beside closed ones" },
	{ "pauses", bench_pauses,
	    "pairs of open flows while others come and go" },
	{ "tcp", bench_tcp, "flows over TCP beside other ways over TCP" },
	{ "peers", bench_peers, "flows beside other ways through memory" },
	{ "setup", bench_setup, "time to set up and remove a flow" },
	{ "memory", bench_memory, "memory of the rings of a node, planned" },
	{ "scale", bench_scale, "what grows with the number of endpoints" },
	{ "list", bench_list, "experiments: what the paper shows, and ours" },
	{ "run", bench_run, "experiments by name, with files of results" },
	{ "report", bench_report, "a page of the results of run" },
	{ "compare", bench_compare, "whether results have become slower" },
	{ WORKER_COMMAND, worker_main, NULL },
	{ MEMBER_COMMAND, pauses_member, NULL },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char *nearest_command(const char *name)
{
	const char *names[N_COMMANDS + 1] = { NULL };
	size_t i, n = 0;

	for (i = 0; i < N_COMMANDS; i++)
		if (commands[i].help)
			names[n++] = commands[i].name;
	return nearest_name(name, names);
}

static void usage(FILE *to)
{
	size_t i;

	fputs("Usage: dfi-bench COMMAND [OPTION...]\n"
	      "Measure DFI flows beside hand-written baselines.\n\n",
	    to);
	for (i = 0; i < N_COMMANDS; i++)
		if (commands[i].help)
			fprintf(to, "  %-10s %s\n", commands[i].name,
			    commands[i].help);
	fputs("\nEach command has --help.\n", to);
}

int bench_command(int argc, char **argv)
{
	char name[64];
	size_t i;

	for (i = 0; i < N_COMMANDS; i++) {
		if (strcmp(argv[0], commands[i].name) != 0)
			continue;
		snprintf(name, sizeof(name), "dfi-bench %s", argv[0]);
		argv[0] = name;
		return commands[i].run(argc, argv);
	}
	complain("there is no command '%s': the nearest is %s (--help lists "
		 "all)",
	    argv[0], nearest_command(argv[0]));
	return EX_USAGE;
}

int main(int argc, char **argv)
{
	output_open();
	if (argc < 2) {
		usage(stderr);
		return EX_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0) {
		usage(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("dfi-bench %s\n", dfi_version());
		return 0;
	}
	return bench_command(argc - 1, argv + 1);
}
