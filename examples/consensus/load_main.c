/* SPDX-License-Identifier: Apache-2.0 */
/* A load generator's command line: see load_main.h. */
#include "load_main.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../../common/complain.h"
#include "../../common/output.h"
#include "../../common/usage.h"
#include "load_options.h"
#include "load_report.h"

enum {
	KEY_STORE = LOAD_KEY_OWN,
	KEY_AT,
};

static const struct argp_option descriptions[] = {
	{ NULL, 0, NULL, 0, "Store:", 1 },
	{ "store", KEY_STORE, "NAME", 0, "Kind of store (below)", 0 },
	{ "at", KEY_AT, "WHERE", 0, "Address of the store (below)", 0 },
	LOAD_OPTIONS_REQUESTS,
	{ "no-fill", LOAD_KEY_NO_FILL, NULL, 0,
	    "Do not write the records first: they exist already", 0 },
	{ NULL, 0, NULL, 0, "Costs:", 3 },
	{ "count", LOAD_KEY_COUNT, "ROLE=PID", 0,
	    "Also show what this process of the store costs for each request. "
	    "ROLE is any name; may be repeated",
	    0 },
	LOAD_OPTIONS_OUTPUT,
	{ NULL, 0, NULL, 0, NULL, 0 },
};

struct parsing {
	struct load_options load;
	const struct load_backend *const *stores;
};

static const struct load_backend *find(
    const struct parsing *parsing, const char *name, struct argp_state *state)
{
	const struct load_backend *const *store;
	char names[256] = "";

	for (store = parsing->stores; *store; store++) {
		if (strcmp((*store)->name, name) == 0)
			return *store;
		if (strlen(names) + strlen((*store)->name) + 2 < sizeof(names))
			strcat(strcat(names, " "), (*store)->name);
	}
	usage_error(state, "--store: '%s' is none of:%s", name, names);
	return NULL;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct parsing *parsing = state->input;
	struct load_plan *plan = &parsing->load.plan;

	switch (key) {
	case KEY_STORE:
		plan->backend = find(parsing, text, state);
		return 0;
	case KEY_AT:
		plan->where = text;
		return 0;
	case ARGP_KEY_ARG:
		usage_error(state, "'%s' is not an option", text);
		return 0;
	case ARGP_KEY_END:
		if (!plan->backend)
			plan->backend = *parsing->stores;
		if (!plan->where)
			plan->where = plan->backend->where;
		return 0;
	default:
		return load_options_parse(key, text, state, &parsing->load);
	}
}

/* The text of --help behind the options: where stores are. */
static char *more_help(int key, const char *text, void *input)
{
	const struct parsing *parsing = input;
	const struct load_backend *const *store;
	char *help = NULL;
	size_t size;
	FILE *out;

	if (key != ARGP_KEY_HELP_POST_DOC || !parsing)
		return (char *)text;
	out = open_memstream(&help, &size);
	if (!out)
		return NULL;
	fprintf(out, "Stores, and where they are by default:\n");
	for (store = parsing->stores; *store; store++)
		fprintf(out, "  %s: %s (%s)\n", (*store)->name, (*store)->where,
		    (*store)->where_help);
	fclose(out);
	return help;
}

/* Progress on a terminal. */
static int show_progress(void *arg, const struct load_progress *progress)
{
	uint64_t *shown = arg, second = progress->elapsed_ns / 500000000;

	if (second == *shown || progress->elapsed_ns == 0)
		return 0;
	*shown = second;
	fprintf(stderr, "\r  %.1f s, %ju requests, %.0f a second\033[K",
	    (double)progress->elapsed_ns / 1e9, (uintmax_t)progress->completed,
	    (double)progress->completed * 1e9 / (double)progress->elapsed_ns);
	return 0;
}

/* Run one load: print its line, and add its object to the results. */
static int run_point(
    struct load_options *options, uint32_t point, json_t *results)
{
	struct load_plan plan = load_options_point(options, point);
	bool terminal = isatty(STDERR_FILENO);
	struct load_result *result = calloc(1, sizeof(*result));
	uint64_t shown = 0;
	json_t *object;
	int ret;

	if (!result)
		return complain("no memory for results");
	plan.fill = plan.fill && point == 0;
	ret = load_run(&plan, terminal ? show_progress : NULL, &shown,
	    &options->counts, result);
	if (terminal)
		fprintf(stderr, "\r\033[K");
	if (ret == 0)
		ret = load_result_check(result, false);
	if (ret == 0 && !options->json) {
		load_report_line(plan.backend->name, &plan, result);
		load_report_costs(&options->counts, result);
		output_flush();
	}
	object = ret ? NULL
		     : load_report_json(
			   plan.backend->name, &plan, result, &options->counts);
	if (ret == 0 && json_array_append_new(results, object))
		ret = complain("no memory for results");
	load_result_free(result);
	free(result);
	return ret;
}

static int run_all(
    struct load_options *options, struct load_files *files, json_t *results)
{
	uint32_t point;

	if (!options->json)
		load_report_head();
	for (point = 0; point < load_options_points(options); point++)
		if (run_point(options, point, results))
			return -1;
	if (options->json) {
		json_dumpf(results, stdout, JSON_INDENT(2));
		printf("\n");
	}
	if (options->csv && load_report_csv(&files->csv, results))
		return -1;
	if (options->plot && load_report_plot(&files->plot, results))
		return -1;
	return 0;
}

int load_main(int argc, char **argv, const char *doc,
    const struct load_backend *const *stores)
{
	struct argp argp = { descriptions, parse, NULL, doc, NULL, more_help,
		NULL };
	static struct parsing parsing; /* large */
	static struct load_files files;
	json_t *results;
	int ret;

	output_open();
	load_options_init(&parsing.load);
	parsing.stores = stores;
	if (options_check(&argp, argv))
		return 64;
	argp_parse(&argp, argc, argv, 0, NULL, &parsing);
	if (load_files_open(&files, parsing.load.csv, parsing.load.plot))
		return EXIT_FAILURE;
	results = json_array();
	ret = results ? run_all(&parsing.load, &files, results) : -1;
	load_files_close(&files);
	json_decref(results);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
