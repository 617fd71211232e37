/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <argp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "../../common/usage.h"

enum key {
	KEY_TYPES = 256,
	KEY_PROCESS,
	KEY_REGISTRY,
	KEY_FLOW,
	KEY_FAN_IN,
	KEY_RUN,
	KEY_LOCAL,
	KEY_FIRST,
	KEY_TIMEOUT,
};

static const struct argp_option table[] = {
	{ "processes", 'p', "N", 0,
	    "Processes of all machines, 1 to 64 (default 2)", 1 },
	{ "threads", 't', "N", 0,
	    "Threads of each process that push rows, 1 to 64 (default 2)", 1 },
	{ "fan-in", KEY_FAN_IN, "N", 0,
	    "Put combiners between the threads that push rows and those that "
	    "give results. Each has at most N inputs, 2 to 4096 (default: no "
	    "combiners)",
	    1 },
	{ "types", KEY_TYPES, "LIST", 0,
	    "Types of columns: NAME=integer, NAME=real or NAME=text, several "
	    "with commas (default: as the values look)",
	    1 },
	{ NULL, 0, NULL, 0, "Several machines:", 2 },
	{ "run", KEY_RUN, "NAME", 0,
	    "Meet the other machines in the registry under this name", 2 },
	{ "local-processes", KEY_LOCAL, "L", 0,
	    "Processes on this machine (default: all, or 1 with "
	    "--first-process)",
	    2 },
	{ "first-process", KEY_FIRST, "K", 0,
	    "Join a run as another machine, with the processes K to K+L-1. The "
	    "first machine, which lacks this option, has the query and the "
	    "file",
	    2 },
	{ "registry", KEY_REGISTRY, "ADDRESS", 0,
	    "Address of the registry of --run (default DFI_REGISTRY)", 2 },
	{ "timeout", KEY_TIMEOUT, "S", 0,
	    "Seconds to wait for the processes of other machines, 1 to 3600 "
	    "(default 60)",
	    2 },
	{ "process", KEY_PROCESS, "N", OPTION_HIDDEN, NULL, 2 },
	{ "flow", KEY_FLOW, "NAME", OPTION_HIDDEN, NULL, 2 },
	{ 0 },
};

struct parsing {
	struct options *options;
	bool says_query; /* an option of the first machine */
};

static uint32_t number(struct argp_state *state, const char *option,
    const char *text, uint32_t min, uint32_t max)
{
	return (uint32_t)option_number(state, option, text, min, max);
}

/* Options that only the first machine has. */
static bool parse_query(
    int key, char *arg, struct argp_state *state, struct options *options)
{
	switch (key) {
	case 'p':
		options->n_processes = number(
		    state, "processes", arg, 1, MAX_PROCESSES);
		return true;
	case 't':
		options->n_threads = number(
		    state, "threads", arg, 1, MAX_THREADS);
		return true;
	case KEY_TYPES:
		options->types = arg;
		return true;
	case KEY_FAN_IN:
		options->fan_in = number(
		    state, "fan-in", arg, 2, MAX_PROCESSES * MAX_THREADS);
		return true;
	case ARGP_KEY_ARG:
		if (options->text)
			usage_error(
			    state, "more than one query: put quotes around it");
		options->text = arg;
		return true;
	default:
		return false;
	}
}

static const char *run_name(struct argp_state *state, const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._:-";

	if (!*text || strlen(text) > MAX_RUN_NAME ||
	    text[strspn(text, letters)])
		usage_error(state,
		    "--run: '%s' is no name of 1 to %d of the characters "
		    "A-Z a-z 0-9 . _ : -",
		    text, MAX_RUN_NAME);
	return text;
}

static bool parse_machines(
    int key, char *arg, struct argp_state *state, struct options *options)
{
	switch (key) {
	case KEY_RUN:
		options->run = run_name(state, arg);
		return true;
	case KEY_LOCAL:
		options->n_local = number(
		    state, "local-processes", arg, 1, MAX_PROCESSES);
		return true;
	case KEY_FIRST:
		options->first = number(
		    state, "first-process", arg, 1, MAX_PROCESSES - 1);
		return true;
	case KEY_REGISTRY:
		options->registry = arg;
		return true;
	case KEY_TIMEOUT:
		options->timeout_s = number(state, "timeout", arg, 1, 3600);
		return true;
	default:
		return false;
	}
}

static void check_machines(
    struct argp_state *state, const struct parsing *parsing)
{
	struct options *options = parsing->options;

	if (options->first > 0 && parsing->says_query)
		usage_error(state,
		    "--first-process: the query, and how it is run, is said on "
		    "the first machine only; here say --run, "
		    "--local-processes, --registry or --timeout");
	if (options->n_local == 0)
		options->n_local = options->first > 0 ? 1
						      : options->n_processes;
	if (options->first == 0 && options->n_local > options->n_processes)
		usage_error(state,
		    "--local-processes %u is more than --processes %u, which "
		    "counts those of all machines",
		    (unsigned)options->n_local, (unsigned)options->n_processes);
	if (options->run)
		return;
	if (options->first > 0 || options->n_local < options->n_processes)
		usage_error(state,
		    "processes on several machines need a name to meet under: "
		    "--run");
	if (options->registry && options->process < 0)
		usage_error(state,
		    "--registry is for several machines: say --run as well");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct parsing *parsing = state->input;
	struct options *options = parsing->options;

	if (parse_query(key, arg, state, options)) {
		parsing->says_query = true;
		return 0;
	}
	if (parse_machines(key, arg, state, options))
		return 0;
	switch (key) {
	case KEY_PROCESS:
		options->process = number(
		    state, "process", arg, 0, MAX_PROCESSES - 1);
		return 0;
	case KEY_FLOW:
		options->flow = arg;
		return 0;
	case ARGP_KEY_END:
		check_machines(state, parsing);
		if (!options->text && options->first == 0)
			usage_error(state, "no query is given");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void options_parse(int argc, char **argv, struct options *options)
{
	struct parsing parsing = { .options = options };
	static const struct argp argp = {
		.options = table,
		.parser = parse_option,
		.args_doc = "QUERY\n--run NAME --first-process K",
		.doc = "Print the result of 'SELECT columns, aggregates FROM "
		       "file.csv GROUP BY columns' as CSV, in no particular "
		       "order. Aggregates are COUNT(*), COUNT, SUM, MIN, MAX "
		       "and AVG. The file may be a pipe, such as /dev/stdin. "
		       "Several machines meet in a registry under the name of "
		       "a run.",
	};

	*options = (struct options){
		.n_processes = 2,
		.n_threads = 2,
		.timeout_s = 60,
		.process = -1,
	};
	if (options_check(&argp, argv))
		exit(EX_USAGE);
	argp_parse(&argp, argc, argv, 0, NULL, &parsing);
}
