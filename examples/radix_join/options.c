/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the command line with argp and checks everything, so that the rest of
 * the program gets valid options.
 */
#include "options.h"
#include "../../common/usage.h"
#include "arguments.h"
#include "platform.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORKERS DFI_MAX_ENDPOINTS
#define MAX_TUPLES (UINT64_C(1) << 40)
#define MAX_TIMEOUT 3600 /* seconds */

/* Options without a letter. */
enum {
	KEY_NODES = 256,
	KEY_THREADS,
	KEY_INNER,
	KEY_OUTER,
	KEY_SELECTIVITY,
	KEY_ZIPF,
	KEY_SEED,
	KEY_INNER_CSV,
	KEY_INNER_KEY,
	KEY_OUTER_CSV,
	KEY_OUTER_KEY,
	KEY_KEY_TYPE,
	KEY_SUM,
	KEY_OUTPUT,
	KEY_COLUMNS,
	KEY_BASELINE,
	KEY_VERIFY,
	KEY_NO_VERIFY,
	KEY_JSON,
	KEY_PIN,
	KEY_NO_PIN,
	KEY_RUN,
	KEY_LOCAL_NODES,
	KEY_FIRST_NODE,
	KEY_REGISTRY,
	KEY_TIMEOUT,
	KEY_RADIX_BITS,
	KEY_LOOPBACK,
	KEY_STRATEGY,
	KEY_NODE,
	KEY_IMAGE_FD,
};

static const struct argp_option descriptions[] = {
	{ NULL, 0, NULL, 0, "Workers:", 1 },
	{ "nodes", KEY_NODES, "P", 0, "Processes on all machines (default 2)",
	    0 },
	{ "threads", KEY_THREADS, "T", 0,
	    "Worker threads of each process (default 1)", 0 },
	{ "pin", KEY_PIN, NULL, 0,
	    "Bind each worker to a processor (default if there are enough)",
	    0 },
	{ "no-pin", KEY_NO_PIN, NULL, 0, "Let the scheduler place workers", 0 },
	{ NULL, 0, NULL, 0, "Several machines:", 2 },
	{ "run", KEY_RUN, "NAME", 0,
	    "Meet the other machines in the registry under this name", 0 },
	{ "local-nodes", KEY_LOCAL_NODES, "L", 0,
	    "Processes on this machine (default: all, or 1 with --first-node)",
	    0 },
	{ "first-node", KEY_FIRST_NODE, "K", 0,
	    "Join a run as another machine, with the processes K to K+L-1. The "
	    "first machine, which lacks this option, says what to join",
	    0 },
	{ "registry", KEY_REGISTRY, "ADDRESS", 0,
	    "Address of the registry (default: one inside this process; with "
	    "--run that of DFI_REGISTRY)",
	    0 },
	{ "timeout", KEY_TIMEOUT, "S", 0,
	    "Seconds to wait for the processes of other machines, 1 to 3600 "
	    "(default 60)",
	    0 },
	{ NULL, 0, NULL, 0, "Synthetic input:", 3 },
	{ "inner", KEY_INNER, "N", 0,
	    "Tuples of the inner relation; K, M and G are powers of 1024 "
	    "(default 4M)",
	    0 },
	{ "outer", KEY_OUTER, "N", 0,
	    "Tuples of the outer relation (default 4M)", 0 },
	{ "selectivity", KEY_SELECTIVITY, "F", 0,
	    "Share of the outer tuples that match, 0 to 1 (default 1)", 0 },
	{ "zipf", KEY_ZIPF, "S", 0,
	    "Exponent of the Zipf distribution of outer keys (default 0: "
	    "uniform)",
	    0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of the random input (default 1)", 0 },
	{ NULL, 0, NULL, 0, "Input from files:", 4 },
	{ "inner-csv", KEY_INNER_CSV, "FILE", 0,
	    "CSV file of the inner relation, with a header", 0 },
	{ "inner-key", KEY_INNER_KEY, "COLUMN", 0, "Key column of that file",
	    0 },
	{ "outer-csv", KEY_OUTER_CSV, "FILE", 0,
	    "CSV file of the outer relation, with a header", 0 },
	{ "outer-key", KEY_OUTER_KEY, "COLUMN", 0, "Key column of that file",
	    0 },
	{ "key-type", KEY_KEY_TYPE, "TYPE", 0,
	    "Type of the keys: auto, integer or string (default auto)", 0 },
	{ "sum", KEY_SUM, "SIDE:COLUMN", 0,
	    "Sum this integer column of the joined rows. SIDE is inner or "
	    "outer",
	    0 },
	{ "output", KEY_OUTPUT, "FILE", 0,
	    "Write the joined rows to this CSV file, in no particular order. "
	    "If it is standard output, the report goes to standard error",
	    0 },
	{ "columns", KEY_COLUMNS, "LIST", 0,
	    "Columns of the output, as SIDE:COLUMN, several with commas "
	    "(default: all)",
	    0 },
	{ NULL, 0, NULL, 0, "Run and report:", 5 },
	{ "baseline", KEY_BASELINE, "KIND", 0,
	    "local: join in P times T threads of this process, without flows",
	    0 },
	{ "radix-bits", KEY_RADIX_BITS, "B", 0,
	    "Partition by B bits of the key, 1 to 16 (default: by the size of "
	    "the inner relation)",
	    0 },
	{ "strategy", KEY_STRATEGY, "NAME", 0,
	    "repartition: tuples of both relations go to the owners of their "
	    "keys. replicate: tuples of the inner relation go to all workers, "
	    "and no others travel. auto: replicate if 2 W I < (I + O) (W - 1) "
	    "/ W + I, for W workers, I inner and O outer tuples (default "
	    "repartition)",
	    0 },
	{ "loopback", KEY_LOOPBACK, NULL, 0,
	    "Also send a worker's own tuples through the flows", 0 },
	{ "verify", KEY_VERIFY, NULL, 0,
	    "Check the result (default: up to 256M rows)", 0 },
	{ "no-verify", KEY_NO_VERIFY, NULL, 0, "Do not check the result", 0 },
	{ "json", KEY_JSON, NULL, 0, "Print one JSON object", 0 },
	{ "node", KEY_NODE, "I", OPTION_HIDDEN, NULL, 0 },
	{ "image-fd", KEY_IMAGE_FD, "FD", OPTION_HIDDEN, NULL, 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

/* The options of the command line, and their defaults. */
struct parsing {
	struct options *options;
	int verify; /* -1: not said */
	bool has_synthetic;
	bool says_join; /* an option that says what to join, or how */
	bool says_strategy;
};

static enum key_type parse_key_type(struct argp_state *state, const char *text)
{
	if (strcmp(text, "integer") == 0)
		return KEY_INTEGER;
	if (strcmp(text, "string") == 0)
		return KEY_STRING;
	if (strcmp(text, "auto") != 0)
		usage_error(state,
		    "--key-type: '%s' is not auto, integer or string", text);
	return KEY_AUTO;
}

static enum strategy parse_strategy(struct argp_state *state, const char *text)
{
	if (strcmp(text, "replicate") == 0)
		return STRATEGY_REPLICATE;
	if (strcmp(text, "auto") == 0)
		return STRATEGY_AUTO;
	if (strcmp(text, "repartition") != 0)
		usage_error(state,
		    "--strategy: '%s' is not repartition, replicate or auto",
		    text);
	return STRATEGY_REPARTITION;
}

static bool parse_baseline(struct argp_state *state, const char *text)
{
	if (strcmp(text, "local") == 0)
		return true;
	if (strcmp(text, "none") != 0)
		usage_error(
		    state, "--baseline: '%s' is not local or none", text);
	return false;
}

/* Take an option of the input. Returns whether it is one. */
static bool parse_input(
    int key, char *text, struct argp_state *state, struct parsing *parsing)
{
	struct options *o = parsing->options;

	if (key >= KEY_INNER && key <= KEY_SEED)
		parsing->has_synthetic = true;
	switch (key) {
	case KEY_INNER:
		o->n_tuples[INNER] = argument_number(
		    state, "inner", text, 0, MAX_TUPLES);
		return true;
	case KEY_OUTER:
		o->n_tuples[OUTER] = argument_number(
		    state, "outer", text, 0, MAX_TUPLES);
		return true;
	case KEY_SELECTIVITY:
		o->selectivity = argument_real(state, "selectivity", text, 1);
		return true;
	case KEY_ZIPF:
		o->zipf = argument_real(state, "zipf", text, 10);
		return true;
	case KEY_SEED:
		o->seed = argument_number(state, "seed", text, 0, UINT64_MAX);
		return true;
	case KEY_INNER_CSV:
		o->csv[INNER] = text;
		return true;
	case KEY_INNER_KEY:
		o->key[INNER] = text;
		return true;
	case KEY_OUTER_CSV:
		o->csv[OUTER] = text;
		return true;
	case KEY_OUTER_KEY:
		o->key[OUTER] = text;
		return true;
	case KEY_KEY_TYPE:
		o->key_type = parse_key_type(state, text);
		return true;
	case KEY_SUM:
		free(o->sum.name);
		o->sum = argument_column(state, "sum", text);
		return true;
	case KEY_OUTPUT:
		o->output = text;
		return true;
	case KEY_COLUMNS:
		argument_columns(state, o, text);
		return true;
	default:
		return false;
	}
}

/* Take an option of the run. Returns whether it is one. */
static bool parse_run(
    int key, char *text, struct argp_state *state, struct parsing *parsing)
{
	struct options *o = parsing->options;

	switch (key) {
	case KEY_NODES:
		o->nodes = (uint32_t)argument_number(
		    state, "nodes", text, 1, MAX_WORKERS);
		return true;
	case KEY_THREADS:
		o->threads = (uint32_t)argument_number(
		    state, "threads", text, 1, MAX_WORKERS);
		return true;
	case KEY_BASELINE:
		o->baseline = parse_baseline(state, text);
		return true;
	case KEY_VERIFY:
	case KEY_NO_VERIFY:
		parsing->verify = key == KEY_VERIFY;
		return true;
	case KEY_JSON:
		o->json = true;
		return true;
	case KEY_RADIX_BITS:
		o->fixed_bits = true;
		o->radix_bits = (uint32_t)argument_number(
		    state, "radix-bits", text, 1, MAX_RADIX_BITS);
		return true;
	case KEY_LOOPBACK:
		o->loopback = true;
		return true;
	case KEY_STRATEGY:
		o->strategy = parse_strategy(state, text);
		parsing->says_strategy = true;
		return true;
	default:
		return false;
	}
}

/* Take an option of this machine's part. Returns whether it is one. */
static bool parse_machine(
    int key, char *text, struct argp_state *state, struct parsing *parsing)
{
	struct options *o = parsing->options;

	switch (key) {
	case KEY_RUN:
		o->run = argument_name(state, "run", text, MAX_RUN_NAME);
		return true;
	case KEY_LOCAL_NODES:
		o->local_nodes = (uint32_t)argument_number(
		    state, "local-nodes", text, 1, MAX_WORKERS);
		return true;
	case KEY_FIRST_NODE:
		o->first_node = (uint32_t)argument_number(
		    state, "first-node", text, 1, MAX_WORKERS - 1);
		return true;
	case KEY_REGISTRY:
		o->registry = text;
		return true;
	case KEY_TIMEOUT:
		o->timeout_ms = 1000 *
		    (uint32_t)argument_number(
			state, "timeout", text, 1, MAX_TIMEOUT);
		return true;
	case KEY_PIN:
	case KEY_NO_PIN:
		o->pin = key == KEY_PIN;
		return true;
	default:
		return false;
	}
}

static bool parse_hidden(
    int key, char *text, struct argp_state *state, struct parsing *parsing)
{
	struct options *o = parsing->options;

	switch (key) {
	case KEY_NODE:
		o->is_node = true;
		o->node = (uint32_t)argument_number(
		    state, "node", text, 0, MAX_WORKERS - 1);
		return true;
	case KEY_IMAGE_FD:
		o->image_fd = (int)argument_number(
		    state, "image-fd", text, 0, INT32_MAX);
		return true;
	default:
		return false;
	}
}

/* Check combinations of options about machines. */
static void check_machines(struct argp_state *state, struct parsing *parsing)
{
	struct options *o = parsing->options;

	if (o->first_node > 0 && parsing->says_join)
		usage_error(state,
		    "--first-node: what to join, and how, is said on the first "
		    "machine only; here say --run, --local-nodes, --registry, "
		    "--timeout, --pin or --no-pin");
	if (o->local_nodes == 0)
		o->local_nodes = o->first_node > 0 ? 1 : o->nodes;
	if (o->first_node == 0 && o->local_nodes > o->nodes)
		usage_error(state,
		    "--local-nodes %u is more than --nodes %u, which counts "
		    "those of all machines",
		    (unsigned)o->local_nodes, (unsigned)o->nodes);
	if (options_across(o) && !o->run)
		usage_error(state,
		    "nodes on several machines need a name to meet under: "
		    "--run");
	if (options_across(o) && o->baseline)
		usage_error(state,
		    "--baseline is for one machine: leave out --run and "
		    "--local-nodes");
	if (options_across(o) && (o->csv[INNER] || o->csv[OUTER]))
		usage_error(state,
		    "--inner-csv, --outer-csv: files can be joined on one "
		    "machine only, because all nodes share the memory with "
		    "their rows");
}

/* Check combinations of options. */
static void check(struct argp_state *state, struct parsing *parsing)
{
	struct options *o = parsing->options;
	uint64_t rows = o->n_tuples[INNER] + o->n_tuples[OUTER];
	bool has_csv = o->csv[INNER] || o->csv[OUTER] || o->key[INNER] ||
	    o->key[OUTER];

	if ((uint64_t)o->nodes * o->threads > MAX_WORKERS)
		usage_error(state,
		    "--nodes %u times --threads %u: at most %u workers are "
		    "possible",
		    (unsigned)o->nodes, (unsigned)o->threads,
		    (unsigned)MAX_WORKERS);
	if (o->radix_bits && options_workers(o) > UINT32_C(1) << o->radix_bits)
		usage_error(state,
		    "--radix-bits %u makes %u partitions, which are fewer than "
		    "the %u workers (--nodes times --threads)",
		    (unsigned)o->radix_bits, 1U << o->radix_bits,
		    (unsigned)options_workers(o));
	if (has_csv &&
	    !(o->csv[INNER] && o->csv[OUTER] && o->key[INNER] && o->key[OUTER]))
		usage_error(state,
		    "--inner-csv, --inner-key, --outer-csv and "
		    "--outer-key belong together");
	if (has_csv && parsing->has_synthetic)
		usage_error(state,
		    "input is either synthetic (--inner, --outer, "
		    "--selectivity, --zipf, --seed) or from files "
		    "(--inner-csv, --outer-csv)");
	if (!has_csv && (o->sum.name || o->output || o->key_type != KEY_AUTO))
		usage_error(state,
		    "--sum, --output and --key-type need files: --inner-csv, "
		    "--inner-key, --outer-csv and --outer-key");
	if (o->n_columns && !o->output)
		usage_error(state, "--columns needs --output");
	if (parsing->says_strategy && o->baseline)
		usage_error(state,
		    "--baseline joins without flows: leave out --strategy");
	if (o->output && o->baseline)
		usage_error(
		    state, "--baseline writes no rows: leave out --output");
	o->verify = parsing->verify >= 0 ? parsing->verify
					 : rows <= UINT64_C(256) << 20;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct parsing *parsing = state->input;

	if (key == ARGP_KEY_END) {
		check_machines(state, parsing);
		check(state, parsing);
	} else if (key == ARGP_KEY_ARG) {
		usage_error(state, "'%s' is no option", text);
	} else if (parse_input(key, text, state, parsing) ||
	    parse_run(key, text, state, parsing)) {
		parsing->says_join = true;
	} else if (!parse_machine(key, text, state, parsing) &&
	    !parse_hidden(key, text, state, parsing)) {
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

void options_parse(struct options *options, int argc, char **argv)
{
	static const struct argp argp = {
		.options = descriptions,
		.parser = parse,
		.doc = "Join two relations by a distributed radix hash join "
		       "over DFI flows.\vExit status: 0 if the join succeeded, "
		       "1 if it failed or its result is wrong, 2 if the "
		       "command line is wrong.",
	};
	struct parsing parsing = { .options = options, .verify = -1 };

	memset(options, 0, sizeof(*options));
	options->nodes = 2;
	options->threads = 1;
	options->n_tuples[INNER] = UINT64_C(4) << 20;
	options->n_tuples[OUTER] = UINT64_C(4) << 20;
	options->selectivity = 1;
	options->seed = 1;
	options->pin = -1;
	options->timeout_ms = 60000;
	options->image_fd = -1;
	argp_err_exit_status = 2;
	if (options_check(&argp, argv))
		exit(2);
	if (argp_parse(&argp, argc, argv, 0, NULL, &parsing))
		exit(2);
}

bool options_pin(const struct options *options)
{
	if (options->pin >= 0)
		return options->pin;
	return options->local_nodes * options->threads <= cpu_count();
}

void options_free(struct options *options)
{
	uint32_t i;

	for (i = 0; i < options->n_columns; i++)
		free(options->columns[i].name);
	free(options->columns);
	free(options->sum.name);
}
