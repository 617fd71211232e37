/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of several processes that run flows one after another, each with all of
 * their sources and targets, so that others can see whether anything grows.
 *
 * setups PROCESS PROCESSES SOURCES TARGETS FLOWS [HOLD...]
 *
 * Process 0 creates the flows; each process opens SOURCES and TARGETS of each,
 * pushes some tuples, and consumes to the end. HOLD is "targets:K",
 * while only the targets of flow K are open, "open:K", while all its endpoints
 * are, "after:K", when they are closed, or "end:0", when the context is: the
 * process says so on stdout, and goes on when a line comes on stdin. Takes the
 * registry from DFI_REGISTRY.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker.h"

#define MAX_ENDS 16
#define TUPLES 20

struct run {
	uint32_t process, n_processes, n_sources, n_targets, n_flows;
	char **holds;
	struct dfi *dfi;
	struct dfi_source *sources[MAX_ENDS];
	struct dfi_target *targets[MAX_ENDS];
};

static void check(int ret)
{
	if (ret < 0) {
		fprintf(stderr, "setups: %s\n", dfi_errmsg());
		exit(EXIT_FAILURE);
	}
}

static void hold(const struct run *run, const char *when, uint32_t number)
{
	char text[32];
	char **at;
	int c;

	snprintf(text, sizeof(text), "%s:%u", when, number);
	for (at = run->holds; *at && strcmp(*at, text) != 0; at++)
		;
	if (!*at)
		return;
	puts(text);
	fflush(stdout);
	do
		c = getchar();
	while (c != '\n' && c != EOF);
}

static void create(const struct run *run, const char *name)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &worker_schema;
	attr.n_sources = run->n_processes * run->n_sources;
	attr.n_targets = run->n_processes * run->n_targets;
	attr.segment_size = 1024;
	attr.segment_count = 8;
	check(dfi_flow_create(run->dfi, name, &attr));
}

static void open_all(struct run *run, const char *name, uint32_t k)
{
	uint32_t i;

	/* A source waits for all targets, a target for no endpoint. */
	for (i = 0; i < run->n_targets; i++)
		check(dfi_target_open(run->dfi, name,
		    run->process * run->n_targets + i, NULL, &run->targets[i]));
	hold(run, "targets", k);
	for (i = 0; i < run->n_sources; i++)
		check(dfi_source_open(run->dfi, name,
		    run->process * run->n_sources + i, NULL, &run->sources[i]));
}

/* The rings hold all of it, so no other thread is needed. */
static uint64_t move(struct run *run)
{
	struct worker_tuple tuple;
	const void *at;
	uint64_t n = 0;
	uint32_t i, k;
	int ret;

	for (i = 0; i < run->n_sources; i++) {
		for (k = 0; k < TUPLES; k++) {
			worker_make_tuple(i, k, &tuple);
			check(dfi_source_push(run->sources[i], &tuple));
		}
		check(dfi_source_close(run->sources[i]));
	}
	for (i = 0; i < run->n_targets; i++) {
		while ((ret = dfi_target_consume(run->targets[i], &at)) > 0)
			n++;
		check(ret);
		check(dfi_target_close(run->targets[i]));
	}
	return n;
}

static uint32_t number(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
	struct run run = { .holds = argv + 6 };
	uint64_t n_tuples = 0;
	char name[32];
	uint32_t k;

	if (argc < 6)
		return EXIT_FAILURE;
	run.process = number(argv[1]);
	run.n_processes = number(argv[2]);
	run.n_sources = number(argv[3]);
	run.n_targets = number(argv[4]);
	run.n_flows = number(argv[5]);
	if (run.n_sources > MAX_ENDS || run.n_targets > MAX_ENDS)
		return EXIT_FAILURE;
	check(dfi_open(NULL, &run.dfi));
	for (k = 1; k <= run.n_flows; k++) {
		snprintf(name, sizeof(name), "flow%u", k);
		if (run.process == 0)
			create(&run, name);
		open_all(&run, name, k);
		hold(&run, "open", k);
		n_tuples += move(&run);
		/* All sources have ended, so all have attached. */
		if (run.process == 0)
			check(dfi_flow_remove(run.dfi, name));
		hold(&run, "after", k);
	}
	check(dfi_close(run.dfi));
	hold(&run, "end", 0);
	printf("tuples:%lu\n", (unsigned long)n_tuples);
	return EXIT_SUCCESS;
}
