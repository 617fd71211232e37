/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aggregate 'SELECT keys, aggregates FROM file.csv GROUP BY keys': the query
 * over the rows of a CSV file, by several processes with several threads each.
 * The first process starts the others, which are this program with options
 * that say which one it is, and prints what they send.
 */
#include <argp.h>
#include <dfi/dfi.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "../../common/complain.h"
#include "columns.h"
#include "query.h"
#include "worker.h"

#define MAX_PROCESSES 64
#define MAX_THREADS 64

extern char **environ;

struct options {
	const char *text; /* of the query */
	const char *types;
	uint32_t n_processes, n_threads, fan_in;
	/* Of a process that was started. */
	const char *registry, *flow;
	int64_t process; /* -1: the first, which prints */
};

enum key {
	KEY_TYPES = 256,
	KEY_PROCESS,
	KEY_REGISTRY,
	KEY_FLOW,
	KEY_FAN_IN,
};

static uint32_t parse_count(const struct argp_state *state, const char *name,
    const char *text, uint32_t most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || value < 1 || value > most)
		argp_error(state, "--%s %s: from 1 to %u", name, text, most);
	return (uint32_t)value;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'p':
		options->n_processes = parse_count(
		    state, "processes", arg, MAX_PROCESSES);
		return 0;
	case 't':
		options->n_threads = parse_count(
		    state, "threads", arg, MAX_THREADS);
		return 0;
	case KEY_TYPES:
		options->types = arg;
		return 0;
	case KEY_FAN_IN:
		options->fan_in = parse_count(
		    state, "fan-in", arg, MAX_PROCESSES * MAX_THREADS);
		if (options->fan_in < 2)
			argp_error(state, "--fan-in %s: at least 2", arg);
		return 0;
	case KEY_PROCESS:
		options->process = strtol(arg, NULL, 10);
		return 0;
	case KEY_REGISTRY:
		options->registry = arg;
		return 0;
	case KEY_FLOW:
		options->flow = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (options->text)
			argp_error(state, "one query, in quotes");
		options->text = arg;
		return 0;
	case ARGP_KEY_END:
		if (!options->text)
			argp_error(state, "no query is given");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void parse(int argc, char **argv, struct options *options)
{
	static const struct argp_option table[] = {
		{ "processes", 'p', "N", 0, "(default 2)", 0 },
		{ "threads", 't', "N", 0,
		    "of each process that push rows (default 2)", 0 },
		{ "fan-in", KEY_FAN_IN, "N", 0,
		    "have combiners between threads that push rows and those "
		    "that give results, each with so many inputs at most",
		    0 },
		{ "types", KEY_TYPES, "LIST", 0,
		    "NAME=integer, NAME=real or NAME=text, with commas "
		    "(default: as the values look)",
		    0 },
		{ "process", KEY_PROCESS, "N", OPTION_HIDDEN, NULL, 0 },
		{ "registry", KEY_REGISTRY, "ADDRESS", OPTION_HIDDEN, NULL, 0 },
		{ "flow", KEY_FLOW, "NAME", OPTION_HIDDEN, NULL, 0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_option,
		.args_doc = "QUERY",
		.doc = "Print the result of 'SELECT columns, aggregates FROM "
		       "file.csv GROUP BY columns' as CSV, in no particular "
		       "order. Aggregates are COUNT(*), SUM, MIN, MAX and AVG.",
	};

	*options =
	    (struct options){ .n_processes = 2, .n_threads = 2, .process = -1 };
	argp_parse(&argp, argc, argv, 0, NULL, options);
}

/* ---- Processes -------------------------------------------------------------
 */

struct children {
	pid_t pids[MAX_PROCESSES];
	uint32_t n;
};

static int start_child(struct children *children, char **argv,
    const struct job *job, const char *registry)
{
	char process[64], address[512], flow[512];
	char *args[64 + 4];
	uint32_t n = 0;
	int err;

	snprintf(process, sizeof(process), "--process=%u", children->n);
	snprintf(address, sizeof(address), "--registry=%s", registry);
	snprintf(flow, sizeof(flow), "--flow=%s", job->flow);
	for (; argv[n] && n < 64; n++)
		args[n] = argv[n];
	args[n++] = process;
	args[n++] = address;
	args[n++] = flow;
	args[n] = NULL;
	err = posix_spawn(&children->pids[children->n], "/proc/self/exe", NULL,
	    NULL, args, environ);
	if (err)
		return complain("cannot start a process: %s", strerror(err));
	children->n++;
	return 0;
}

/* After a failure nobody waits for those that wait for each other. */
static int end_children(struct children *children, int ret)
{
	uint32_t i;
	int status;

	for (i = 0; ret && i < children->n; i++)
		kill(children->pids[i], SIGKILL);
	for (i = 0; i < children->n; i++) {
		if (waitpid(children->pids[i], &status, 0) < 0)
			ret = complain("waiting for process %u failed", i);
		else if (status && !ret)
			ret = complain("process %u failed", i);
	}
	return ret;
}

static int lead(struct job *job, char **argv)
{
	struct children children = { .n = 0 };
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	char flow[64];
	int ret;

	snprintf(flow, sizeof(flow), "aggregate.%d", (int)getpid());
	job->flow = flow;
	if (dfi_registry_start(NULL, &registry) < 0)
		return complain("%s", dfi_errmsg());
	attr.registry = dfi_registry_address(registry);
	ret = dfi_open(&attr, &job->dfi);
	if (ret < 0)
		complain("%s", dfi_errmsg());
	else
		ret = job_create(job);
	while (!ret && children.n < job->n_processes)
		ret = start_child(&children, argv, job, attr.registry);
	if (!ret)
		ret = job_print(job);
	ret = end_children(&children, ret);
	if (job->dfi)
		dfi_close(job->dfi);
	dfi_registry_stop(registry);
	return ret;
}

static int follow(struct job *job, const struct options *options)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	int ret;

	attr.registry = options->registry;
	job->flow = options->flow;
	if (dfi_open(&attr, &job->dfi) < 0)
		return complain("%s", dfi_errmsg());
	ret = job_work(job, (uint32_t)options->process);
	dfi_close(job->dfi);
	return ret;
}

int main(int argc, char **argv)
{
	static struct relation relation;
	static struct query query;
	struct options options;
	struct job job = { .query = &query, .relation = &relation };
	int ret;

	parse(argc, argv, &options);
	job.n_processes = options.n_processes;
	job.n_threads = options.n_threads;
	job.fan_in = options.fan_in;
	if (query_parse(options.text, &query))
		return EX_USAGE;
	ret = relation_load(&query, options.types, &relation);
	if (!ret)
		ret = options.process < 0 ? lead(&job, argv)
					  : follow(&job, &options);
	relation_unload(&relation);
	if (!ret && fflush(stdout))
		ret = complain("standard output: %s", strerror(errno));
	return ret ? 1 : 0;
}
