/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aggregate 'SELECT keys, aggregates FROM file.csv GROUP BY keys' runs the
 * query over a CSV file with several processes of several threads each. The
 * first process reads the file, starts this program again for each of the
 * others, and prints the results that they send.
 */
#include <argp.h>
#include <dfi/dfi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "../../common/children.h"
#include "../../common/complain.h"
#include "../../common/output.h"
#include "../../common/usage.h"
#include "columns.h"
#include "output.h"
#include "plan.h"
#include "query.h"
#include "worker.h"

#define MAX_PROCESSES 64
#define MAX_THREADS 64

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

static const struct argp_option table[] = {
	{ "processes", 'p', "N", 0, "Processes, 1 to 64 (default 2)", 0 },
	{ "threads", 't', "N", 0,
	    "Threads of each process that push rows, 1 to 64 (default 2)", 0 },
	{ "fan-in", KEY_FAN_IN, "N", 0,
	    "Put combiners between the threads that push rows and those that "
	    "give results. Each has at most N inputs, 2 to 4096 (default: no "
	    "combiners)",
	    0 },
	{ "types", KEY_TYPES, "LIST", 0,
	    "Types of columns: NAME=integer, NAME=real or NAME=text, several "
	    "with commas (default: as the values look)",
	    0 },
	{ "process", KEY_PROCESS, "N", OPTION_HIDDEN, NULL, 0 },
	{ "registry", KEY_REGISTRY, "ADDRESS", OPTION_HIDDEN, NULL, 0 },
	{ "flow", KEY_FLOW, "NAME", OPTION_HIDDEN, NULL, 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'p':
		options->n_processes = (uint32_t)option_number(
		    state, "processes", arg, 1, MAX_PROCESSES);
		return 0;
	case 't':
		options->n_threads = (uint32_t)option_number(
		    state, "threads", arg, 1, MAX_THREADS);
		return 0;
	case KEY_TYPES:
		options->types = arg;
		return 0;
	case KEY_FAN_IN:
		options->fan_in = (uint32_t)option_number(
		    state, "fan-in", arg, 2, MAX_PROCESSES * MAX_THREADS);
		return 0;
	case KEY_PROCESS:
		options->process = (uint32_t)option_number(
		    state, "process", arg, 0, MAX_PROCESSES - 1);
		return 0;
	case KEY_REGISTRY:
		options->registry = arg;
		return 0;
	case KEY_FLOW:
		options->flow = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (options->text)
			usage_error(
			    state, "more than one query: put quotes around it");
		options->text = arg;
		return 0;
	case ARGP_KEY_END:
		if (!options->text)
			usage_error(state, "no query is given");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void parse(int argc, char **argv, struct options *options)
{
	static const struct argp argp = {
		.options = table,
		.parser = parse_option,
		.args_doc = "QUERY",
		.doc = "Print the result of 'SELECT columns, aggregates FROM "
		       "file.csv GROUP BY columns' as CSV, in no particular "
		       "order. Aggregates are COUNT(*), COUNT, SUM, MIN, MAX "
		       "and AVG. The file may be a pipe, such as /dev/stdin.",
	};

	*options =
	    (struct options){ .n_processes = 2, .n_threads = 2, .process = -1 };
	if (options_check(&argp, argv))
		exit(EX_USAGE);
	argp_parse(&argp, argc, argv, 0, NULL, options);
}

/* ---- The first process -----------------------------------------------------
 */

struct leader {
	struct job job;
	struct rows rows;
	struct dictionary dictionaries[MAX_KEYS];
	struct children children;
	struct results results;
};

static int start_children(
    struct leader *leader, char **argv, const char *registry)
{
	char number[64], address[512], flow[512], name[32];
	char *extra[] = { number, address, flow, NULL };
	uint32_t i;

	snprintf(address, sizeof(address), "--registry=%s", registry);
	snprintf(flow, sizeof(flow), "--flow=%s", leader->job.flow);
	for (i = 0; i < leader->job.n_processes; i++) {
		snprintf(number, sizeof(number), "--process=%u", i);
		snprintf(name, sizeof(name), "process %u", i);
		if (children_spawn(
			&leader->children, name, argv, extra, leader->rows.fd))
			return -1;
	}
	return 0;
}

/* Collect all results with a context of the first process. */
static int gather(struct leader *leader, char **argv, const char *registry)
{
	struct job *job = &leader->job;
	struct dfi_target *target = NULL;
	char reason[1024] = "";
	int ret, ended;

	if (job_create(job) || job_open(job, &target))
		return -1;
	ret = start_children(leader, argv, registry);
	if (!ret) {
		ret = job_take(
		    job, target, &leader->children, &leader->results);
		if (ret)
			snprintf(reason, sizeof(reason), "%s", dfi_errmsg());
	}
	/* After a failure, give the failed processes time to say why. */
	ended = children_end(&leader->children, ret ? 500 : -1);
	if (ret && !ended && reason[0])
		complain("results: %s", reason);
	dfi_target_close(target);
	return ret ? ret : ended;
}

static int connect_and_gather(struct leader *leader, char **argv)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	int ret;

	if (dfi_registry_start(NULL, &registry) < 0)
		return complain("%s", dfi_errmsg());
	attr.registry = dfi_registry_address(registry);
	attr.open_timeout_ms = JOB_TIMEOUT_MS;
	ret = dfi_open(&attr, &leader->job.dfi);
	if (ret < 0) {
		complain("%s", dfi_errmsg());
	} else {
		ret = gather(leader, argv, attr.registry);
		dfi_close(leader->job.dfi);
	}
	dfi_registry_stop(registry);
	return ret;
}

static int lead(const struct options *options, const struct query *query,
    struct job job, char **argv)
{
	static struct plan plan;
	struct leader leader = { .job = job };
	char flow[64];
	uint32_t i;
	int ret;

	snprintf(flow, sizeof(flow), "aggregate.%d", (int)getpid());
	leader.job.flow = flow;
	leader.job.plan = &plan;
	ret = columns_load(
	    query, options->types, &leader.rows, leader.dictionaries);
	if (!ret)
		ret = plan_make(&plan, query, &leader.rows);
	if (!ret)
		ret = connect_and_gather(&leader, argv);
	if (!ret)
		ret = output(&plan, &leader.results, leader.dictionaries);
	results_free(&leader.results);
	rows_unmap(&leader.rows);
	for (i = 0; i < MAX_KEYS; i++)
		dictionary_free(&leader.dictionaries[i]);
	return ret;
}

/* ---- The others ------------------------------------------------------------
 */

static int follow(
    const struct options *options, const struct query *query, struct job job)
{
	static struct plan plan;
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct rows rows;

	if (rows_map(&rows, CHILD_FD) || plan_make(&plan, query, &rows))
		return -1;
	attr.registry = options->registry;
	attr.open_timeout_ms = JOB_TIMEOUT_MS;
	job.plan = &plan;
	job.flow = options->flow;
	if (dfi_open(&attr, &job.dfi) < 0)
		return complain("%s", dfi_errmsg());
	job_work(&job, (uint32_t)options->process);
	dfi_close(job.dfi);
	rows_unmap(&rows);
	return 0;
}

int main(int argc, char **argv)
{
	static struct query query;
	struct options options;
	struct job job = { .dfi = NULL };
	int ret;

	output_open();
	child_enter();
	/* Report a limit on file sizes as an error, not as a signal. */
	signal(SIGXFSZ, SIG_IGN);
	parse(argc, argv, &options);
	job.n_processes = options.n_processes;
	job.n_threads = options.n_threads;
	job.fan_in = options.fan_in;
	if (query_parse(options.text, &query))
		return EX_USAGE;
	ret = options.process < 0 ? lead(&options, &query, job, argv)
				  : follow(&options, &query, job);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
