/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aggregate 'SELECT keys, aggregates FROM file.csv GROUP BY keys' runs the
 * query over a CSV file with several processes of several threads each. The
 * first process reads the file, starts this program again for each of the
 * others, and prints the results that they send.
 */
#include <dfi/dfi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "../../common/children.h"
#include "../../common/complain.h"
#include "../../common/output.h"
#include "columns.h"
#include "machines.h"
#include "options.h"
#include "output.h"
#include "plan.h"
#include "query.h"
#include "worker.h"

/* How long another machine may give no sign of life. */
#define LEASE_MS 10000

/* ---- The first process -----------------------------------------------------
 */

struct leader {
	struct job job;
	struct rows rows;
	struct dictionary dictionaries[MAX_KEYS];
	struct children children;
	struct results results;
};

static int start_children(struct children *children,
    const struct options *options, char **argv, const char *registry,
    const char *name, int fd)
{
	char number[64], address[512], flow[512], title[32];
	char *extra[] = { number, flow, registry ? address : NULL, NULL };
	uint32_t i;

	snprintf(address, sizeof(address), "--registry=%s",
	    registry ? registry : "");
	snprintf(flow, sizeof(flow), "--flow=%s", name);
	for (i = options->first; i < options->first + options->n_local; i++) {
		snprintf(number, sizeof(number), "--process=%u", (unsigned)i);
		snprintf(title, sizeof(title), "process %u", (unsigned)i);
		if (children_spawn(children, title, argv, extra, fd))
			return -1;
	}
	return 0;
}

/* Give all processes their rows, those on other machines first. */
static int start(struct leader *leader, const struct options *options,
    char **argv, const char *registry)
{
	const struct job *job = &leader->job;

	if (options->n_local < job->n_processes &&
	    machines_send(job, options->n_local, options->text))
		return -1;
	return start_children(&leader->children, options, argv, registry,
	    job->flow, leader->rows.fd);
}

/* Collect all results with a context of the first process. */
static int gather(struct leader *leader, const struct options *options,
    char **argv, const char *registry)
{
	struct job *job = &leader->job;
	struct dfi_target *target = NULL;
	char reason[1024] = "";
	int ret, ended;

	if (job_create(job) || job_open(job, &target))
		return -1;
	ret = start(leader, options, argv, registry);
	if (!ret) {
		ret = job_take(
		    job, target, &leader->children, &leader->results);
		if (ret)
			snprintf(reason, sizeof(reason), "%s", dfi_errmsg());
	}
	/* After a failure, give the failed processes time to say why. */
	ended = children_end(&leader->children, ret ? 500 : -1);
	/* Nobody else says it if a process of another machine has died. */
	if (ret && (!ended || options->run) && reason[0])
		complain("results: %s", reason);
	dfi_target_close(target);
	return ret ? ret : ended;
}

static int open_context(
    const struct options *options, const char *registry, struct dfi **dfi)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	attr.registry = registry;
	attr.open_timeout_ms = JOB_TIMEOUT_MS;
	if (options->run) {
		attr.open_timeout_ms = options->timeout_s * 1000;
		attr.lease_ttl_ms = LEASE_MS;
	}
	return dfi_open(&attr, dfi) < 0 ? complain("%s", dfi_errmsg()) : 0;
}

static int connect_and_gather(
    struct leader *leader, const struct options *options, char **argv)
{
	const char *address = options->registry;
	struct dfi_registry *registry = NULL;
	int ret;

	if (!options->run) {
		if (dfi_registry_start(NULL, &registry) < 0)
			return complain("%s", dfi_errmsg());
		address = dfi_registry_address(registry);
	}
	ret = open_context(options, address, &leader->job.dfi);
	if (!ret) {
		ret = gather(leader, options, argv, address);
		dfi_close(leader->job.dfi);
	}
	if (registry)
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
	leader.job.flow = options->run ? options->run : flow;
	leader.job.plan = &plan;
	ret = columns_load(
	    query, options->types, &leader.rows, leader.dictionaries);
	if (!ret)
		ret = plan_make(&plan, query, &leader.rows);
	if (!ret) {
		leader.job.n_rows = leader.rows.header->n_rows;
		ret = connect_and_gather(&leader, options, argv);
	}
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

/* On the first machine, the rows are in memory that all its processes share. */
static int take_rows(struct job *job, const struct options *options,
    struct query *query, struct rows *rows)
{
	static char text[MAX_TEXT + 1];

	if (options->first == 0) {
		if (rows_map(rows, CHILD_FD))
			return -1;
		job->n_rows = rows->header->n_rows;
		return 0;
	}
	if (machines_take(job, (uint32_t)options->process, text, rows))
		return -1;
	return query_parse(text, query);
}

static int follow(
    const struct options *options, struct query *query, struct job job)
{
	static struct plan plan;
	struct rows rows;

	job.plan = &plan;
	job.flow = options->flow;
	if (open_context(options, options->registry, &job.dfi))
		return -1;
	if (take_rows(&job, options, query, &rows) ||
	    plan_make(&plan, query, &rows))
		return -1;
	job_work(&job, (uint32_t)options->process);
	dfi_close(job.dfi);
	rows_unmap(&rows);
	return 0;
}

/* Another machine's part: its processes say what goes wrong. */
static int share(const struct options *options, char **argv)
{
	struct children children = { .list = NULL };
	int ret;

	ret = start_children(
	    &children, options, argv, options->registry, options->run, -1);
	if (children_end(&children, ret ? 0 : -1))
		ret = -1;
	return ret;
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
	options_parse(argc, argv, &options);
	job.n_processes = options.n_processes;
	job.n_threads = options.n_threads;
	job.fan_in = options.fan_in;
	if (options.text && query_parse(options.text, &query))
		return EX_USAGE;
	if (options.process >= 0)
		ret = follow(&options, &query, job);
	else if (options.first > 0)
		ret = share(&options, argv);
	else
		ret = lead(&options, &query, job, argv);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
