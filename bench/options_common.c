/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that all experiments share. Wrong values are refused here with
 * the option's name, so that later code needn't check them.
 */
#include "options_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "../common/usage.h"
#include "values.h"

static const struct argp_option common_table[] = {
	{ "procs", KEY_PROCS, "1|2", 0,
	    "Processes: 1 for all threads, or 2, one of the sources and one of "
	    "the targets (default 1)",
	    0 },
	{ "tuple-size", KEY_TUPLE_SIZE, "LIST", 0,
	    "Bytes of a tuple, 1 to 1M: one size, or a list with commas, with "
	    "a result for each",
	    0 },
	{ "all-sizes", KEY_ALL_SIZES, NULL, 0,
	    "Tuples of all powers of two from 1 to 64K, with a result for each",
	    0 },
	{ "segment-size", KEY_SEGMENT_SIZE, "SIZE", 0,
	    "Payload bytes of a ring's segment, 8 to 64M (default: the "
	    "library's choice)",
	    0 },
	{ "segments", KEY_SEGMENTS, "N", 0,
	    "Segments of a ring, 1 to 1048576 (default: the library's choice)",
	    0 },
	{ "wait", KEY_WAIT, "spin|adaptive|block", 0,
	    "How threads wait (default adaptive)", 0 },
	{ "repeat", KEY_REPEAT, "N", 0,
	    "Measured rounds, 1 to 1000 (default 7)", 0 },
	{ "seconds", KEY_SECONDS, "S", 0,
	    "Length of a round, up to 3600 (default 0.2)", 0 },
	{ "duration", KEY_DURATION, "TIME", 0,
	    "The same with a unit, as 5s, 200ms or 1m", 0 },
	{ "bytes", KEY_BYTES, "SIZE", 0,
	    "Bytes that a round moves, as 64M, instead of --seconds", 0 },
	{ "pin", KEY_PIN, "CPULIST", 0,
	    "Processors, as 0,2-3. The threads of the sources and then of the "
	    "targets take one each, in turn; other threads use those of their "
	    "process (default: one for each thread if there are enough, else "
	    "any)",
	    0 },
	{ "no-pin", KEY_NO_PIN, NULL, 0, "Let threads run on any processor",
	    0 },
	{ "verify", KEY_VERIFY, NULL, 0,
	    "Check order, content and routing of each tuple in an additional "
	    "round. All rounds compare sums",
	    0 },
	{ "registry", KEY_REGISTRY, "ADDRESS", 0,
	    "Use this registry (default: start one)", 0 },
	{ "transport", KEY_TRANSPORT, "auto|shm|verbs|ofi", 0,
	    "How the flows move tuples (default DFI_TRANSPORT, else auto)", 0 },
	{ "role", KEY_ROLE, "source|target", 0,
	    "Run only the sources, or only the targets. Start dfi-bench with "
	    "the other role and the same registry elsewhere; it takes all "
	    "other options from the sources' side. For shuffle, replicate and "
	    "latency",
	    0 },
	{ "timeout", KEY_TIMEOUT, "S", 0,
	    "Give up a round after S seconds, 1 to 86400 (default 60)", 0 },
	{ "json", KEY_JSON, NULL, 0, "Print one JSON object", 0 },
	{ "csv", KEY_CSV, NULL, 0, "Print comma-separated values", 0 },
	{ "wide", KEY_WIDE, NULL, 0,
	    "Print all columns (default: what was measured, the result, its "
	    "limit, and their ratio)",
	    0 },
	{ 0 },
};

static void parse_pin(const struct argp_state *state, const char *text,
    struct common_options *options)
{
	uint32_t n = 0;

	if (!parse_cpu_list(text, options->cpus, MAX_CPUS, &n))
		usage_error(state,
		    "--pin '%s': not a list of processors, as 0,2-3", text);
	options->placement.cpus = options->cpus;
	options->placement.n_cpus = n;
}

static void parse_tuple_sizes(const struct argp_state *state, const char *text,
    struct common_options *options)
{
	uint64_t sizes[MAX_TUPLE_SIZES];
	uint32_t i;

	if (!parse_size_list(
		text, sizes, MAX_TUPLE_SIZES, &options->n_tuple_sizes))
		usage_error(state,
		    "--tuple-size '%s': not a list of at most %d sizes, as "
		    "8,100,4K",
		    text, MAX_TUPLE_SIZES);
	for (i = 0; i < options->n_tuple_sizes; i++) {
		if (sizes[i] < 1 || sizes[i] > DFI_MAX_TUPLE_SIZE)
			usage_error(state,
			    "--tuple-size '%s': %lu is not from 1 to %u", text,
			    (unsigned long)sizes[i], DFI_MAX_TUPLE_SIZE);
		options->tuple_sizes[i] = (uint32_t)sizes[i];
	}
}

double parse_seconds(
    const struct argp_state *state, const char *option, const char *text)
{
	double seconds;

	if (!parse_duration(text, &seconds) || !(seconds > 0) || seconds > 3600)
		usage_error(state,
		    "--%s '%s': not a time above 0 and of at most an hour, as "
		    "0.5, 200ms, 5s or 1m",
		    option, text);
	return seconds;
}

/* A size for each power of two. */
static void all_sizes(struct common_options *options)
{
	uint32_t size;

	options->n_tuple_sizes = 0;
	for (size = 1; size <= 64 << 10; size *= 2)
		options->tuple_sizes[options->n_tuple_sizes++] = size;
}

static void choose_format(const struct argp_state *state,
    struct common_options *options, enum report_format format)
{
	if (options->format != REPORT_TEXT && options->format != format)
		usage_error(state, "--json, --csv and --wide: choose one");
	options->format = format;
}

/* The options without a value. */
static error_t parse_flag(
    const struct argp_state *state, int key, struct common_options *options)
{
	switch (key) {
	case KEY_NO_PIN:
		options->placement.off = true;
		return 0;
	case KEY_VERIFY:
		options->verify = true;
		return 0;
	case KEY_ALL_SIZES:
		all_sizes(options);
		return 0;
	case KEY_JSON:
		choose_format(state, options, REPORT_JSON);
		return 0;
	case KEY_CSV:
		choose_format(state, options, REPORT_CSV);
		return 0;
	case KEY_WIDE:
		choose_format(state, options, REPORT_WIDE);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static uint32_t parse_segment_size(
    const struct argp_state *state, const char *text)
{
	uint64_t size;

	if (!parse_size(text, &size) || size < 8 || size > DFI_MAX_SEGMENT_SIZE)
		usage_error(state,
		    "--segment-size '%s': not a size from 8 to %u", text,
		    DFI_MAX_SEGMENT_SIZE);
	return (uint32_t)size;
}

static void check_role(
    const struct argp_state *state, struct common_options *options)
{
	if (options->role == BENCH_BOTH)
		return;
	if (!options->registry)
		options->registry = getenv("DFI_REGISTRY");
	if (!options->registry || !*options->registry)
		usage_error(state,
		    "--role: both invocations need the same --registry "
		    "ADDRESS, or DFI_REGISTRY");
	options->procs = 1;
}

uint64_t parse_link_bandwidth(const struct argp_state *state, const char *text)
{
	uint64_t bandwidth;

	if (!parse_size(text, &bandwidth) || bandwidth < 1024 ||
	    bandwidth > INT64_MAX)
		usage_error(state,
		    "--link-bandwidth '%s': not a number of bytes a second "
		    "from 1K, as 100M",
		    text);
	return bandwidth;
}

uint64_t parse_link_latency(const struct argp_state *state, const char *text)
{
	double seconds = parse_seconds(state, "link-latency", text);

	if (seconds > 1)
		usage_error(
		    state, "--link-latency '%s': more than a second", text);
	return (uint64_t)(seconds * 1e9 + 0.5);
}

void check_link(const struct argp_state *state, const uint32_t *apis,
    uint32_t n_apis, uint32_t n_ends)
{
	if (n_apis != 1 || apis[0] != API_BATCH)
		usage_error(state, "--link-bandwidth: only with --api batch");
	if (n_ends > MAX_NODES)
		usage_error(state,
		    "--link-bandwidth: at most %d targets, each on a node of "
		    "its own, or --nodes",
		    MAX_NODES);
}

void refuse_role(
    const struct argp_state *state, const struct common_options *common)
{
	if (common->role != BENCH_BOTH)
		usage_error(state,
		    "--role: only shuffle, replicate and latency have it");
}

void refuse_transport(const struct argp_state *state,
    const struct common_options *common, const char *why)
{
	if (common->transport)
		usage_error(state, "--transport: there are no flows: %s", why);
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
	struct common_options *options = state->input;

	switch (key) {
	case KEY_PROCS:
		options->procs = (uint32_t)parse_number(
		    state, "procs", arg, 1, 2);
		return 0;
	case KEY_TUPLE_SIZE:
		parse_tuple_sizes(state, arg, options);
		return 0;
	case KEY_SEGMENT_SIZE:
		options->geometry.segment_size = parse_segment_size(state, arg);
		return 0;
	case KEY_SEGMENTS:
		options->geometry.segment_count = (uint32_t)parse_number(
		    state, "segments", arg, 1, DFI_MAX_SEGMENT_COUNT);
		return 0;
	case KEY_WAIT:
		options->wait = parse_name(
		    state, "wait", arg, wait_name, DFI_WAIT_BLOCK + 1);
		return 0;
	case KEY_REPEAT:
		options->repeat = (uint32_t)parse_number(
		    state, "repeat", arg, 1, STATS_MAX_VALUES);
		return 0;
	case KEY_SECONDS:
		options->seconds = parse_seconds(state, "seconds", arg);
		return 0;
	case KEY_DURATION:
		options->seconds = parse_seconds(state, "duration", arg);
		return 0;
	case KEY_BYTES:
		if (!parse_size(arg, &options->bytes) || !options->bytes)
			usage_error(state,
			    "--bytes '%s': not a number of bytes above 0, as "
			    "64M",
			    arg);
		return 0;
	case KEY_PIN:
		parse_pin(state, arg, options);
		return 0;
	case KEY_REGISTRY:
		options->registry = arg;
		return 0;
	case KEY_TRANSPORT:
		options->transport = parse_name(state, "transport", arg,
		    transport_name, DFI_TRANSPORT_OFI + 1);
		return 0;
	case KEY_ROLE:
		options->role = parse_name(
		    state, "role", arg, role_name, BENCH_TARGET + 1);
		return 0;
	case ARGP_KEY_ARG:
		usage_error(state, "'%s' is no option", arg);
		return 0;
	case ARGP_KEY_END:
		check_role(state, options);
		/* A round that is meant to be long must not time out. */
		options->timeout_s += (uint32_t)options->seconds;
		return 0;
	case KEY_TIMEOUT:
		options->timeout_s = (uint32_t)parse_number(
		    state, "timeout", arg, 1, 86400);
		return 0;
	default:
		return parse_flag(state, key, options);
	}
}

static const struct argp common_argp = {
	.options = common_table,
	.parser = parse_common,
};

const struct argp_child common_children[] = {
	{ &common_argp, 0, NULL, 0 },
	{ 0 },
};

void parse_options(
    const struct argp *argp, int argc, char **argv, void *options)
{
	if (options_check(argp, argv))
		exit(EX_USAGE);
	argp_parse(argp, argc, argv, 0, NULL, options);
}

struct common_options common_defaults(void)
{
	return (struct common_options){
		.repeat = 7,
		.seconds = 0.2,
		.timeout_s = 60,
		.procs = 1,
		.wait = DFI_WAIT_ADAPTIVE,
	};
}

bool shares_processor(const struct common_options *options)
{
	const struct placement *placement = &options->placement;
	int32_t cpus[2];

	if (options->role != BENCH_BOTH)
		return false;
	if (placement->cpus)
		return placement->cpus[0] ==
		    placement->cpus[placement->n_cpus > 1];
	return usable_cpus(cpus, 2) == 1;
}

void default_tuple_sizes(
    struct common_options *options, const uint32_t *sizes, uint32_t n)
{
	if (options->n_tuple_sizes)
		return;
	memcpy(options->tuple_sizes, sizes, n * sizeof(*sizes));
	options->n_tuple_sizes = n;
}

error_t parse_rest(
    int key, struct argp_state *state, struct common_options *common)
{
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = common;
	return 0;
}
