/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of loads; see load_options.h. Checks everything. argp ends the
 * program on an error, with a text that names the option.
 */
#include "load_options.h"

#include <string.h>

#include "../../common/usage.h"

#define MAX_RECORDS 1000000000
#define MAX_OUTSTANDING 256
#define MAX_RATE 1e8
#define MAX_SEED 1000000000
#define MAX_SECONDS 3600

void load_options_init(struct load_options *options)
{
	*options = (struct load_options){
		.plan = {
			.theta = 0.99,
			.records = 10000,
			.value_size = 64,
			.clients = 6,
			.warm_up_ns = UINT64_C(1000000000),
			.length_ns = UINT64_C(5000000000),
			.seed = 1,
			.fill = true,
		},
		.mixes = { load_mix_find("a") },
		.n_mixes = 1,
		.outstanding = { 32 },
		.n_outstanding = 1,
		.distribution = -1,
	};
}

/* Call add() for each part of a list with commas. */
static void each(struct argp_state *state, const char *option, char *text,
    struct load_options *options,
    void (*add)(struct argp_state *state, const char *option, char *part,
	struct load_options *options, uint32_t i))
{
	char *part;
	uint32_t i = 0;

	while ((part = strsep(&text, ","))) {
		if (i == LOAD_MAX_POINTS)
			usage_error(state, "--%s: more than %d in the list",
			    option, LOAD_MAX_POINTS);
		add(state, option, part, options, i++);
	}
}

static void add_mix(struct argp_state *state, const char *option, char *part,
    struct load_options *options, uint32_t i)
{
	options->mixes[i] = load_mix_find(part);
	if (!options->mixes[i])
		usage_error(
		    state, "--%s: '%s' is none of " LOAD_MIXES, option, part);
	options->n_mixes = i + 1;
}

static void add_outstanding(struct argp_state *state, const char *option,
    char *part, struct load_options *options, uint32_t i)
{
	options->outstanding[i] = (uint32_t)option_number(
	    state, option, part, 1, MAX_OUTSTANDING);
	options->n_outstanding = i + 1;
}

static void add_rate(struct argp_state *state, const char *option, char *part,
    struct load_options *options, uint32_t i)
{
	options->rates[i] = option_real(state, option, part, 1, MAX_RATE);
	options->n_rates = i + 1;
}

static int distribution(struct argp_state *state, const char *text)
{
	if (strcmp(text, "zipf") == 0)
		return LOAD_ZIPF;
	if (strcmp(text, "uniform") != 0)
		usage_error(
		    state, "--distribution: '%s' is not uniform or zipf", text);
	return LOAD_UNIFORM;
}

static uint64_t nanoseconds(
    struct argp_state *state, const char *option, const char *text, double min)
{
	return (
	    uint64_t)(1e9 * option_real(state, option, text, min, MAX_SECONDS));
}

/* Take an option that says what is asked. Returns whether it is one. */
static bool parse_requests(
    int key, char *text, struct argp_state *state, struct load_options *options)
{
	struct load_plan *plan = &options->plan;

	switch (key) {
	case LOAD_KEY_WORKLOAD:
		each(state, "workload", text, options, add_mix);
		return true;
	case LOAD_KEY_DISTRIBUTION:
		options->distribution = distribution(state, text);
		return true;
	case LOAD_KEY_THETA:
		plan->theta = option_real(state, "theta", text, 0, 0.9999);
		return true;
	case LOAD_KEY_RECORDS:
		plan->records = option_number(
		    state, "records", text, 1, MAX_RECORDS);
		return true;
	case LOAD_KEY_VALUE_SIZE:
		plan->value_size = (uint32_t)option_number(
		    state, "value-size", text, 1, LOAD_MAX_VALUE);
		return true;
	case LOAD_KEY_SEED:
		plan->seed = option_number(state, "seed", text, 0, MAX_SEED);
		return true;
	case LOAD_KEY_NO_FILL:
		plan->fill = false;
		return true;
	default:
		return false;
	}
}

/* Take an option that says how it is asked. Returns whether it is one. */
static bool parse_pace(
    int key, char *text, struct argp_state *state, struct load_options *options)
{
	struct load_plan *plan = &options->plan;

	switch (key) {
	case LOAD_KEY_CLIENTS:
		plan->clients = (uint32_t)option_number(
		    state, "clients", text, 1, LOAD_MAX_CLIENTS);
		return true;
	case LOAD_KEY_OUTSTANDING:
		each(state, "outstanding", text, options, add_outstanding);
		return true;
	case LOAD_KEY_RATE:
		each(state, "rate", text, options, add_rate);
		return true;
	case LOAD_KEY_SECONDS:
		plan->length_ns = nanoseconds(state, "seconds", text, 0.1);
		return true;
	case LOAD_KEY_WARM_UP:
		plan->warm_up_ns = nanoseconds(state, "warm-up", text, 0);
		return true;
	default:
		return false;
	}
}

int load_options_parse(
    int key, char *text, struct argp_state *state, struct load_options *options)
{
	if (parse_requests(key, text, state, options) ||
	    parse_pace(key, text, state, options))
		return 0;
	switch (key) {
	case LOAD_KEY_COUNT:
		if (load_counts_add(&options->counts, text))
			usage_error(state,
			    "--count: '%s' is not ROLE=PID, or is one more "
			    "than %d",
			    text, LOAD_MAX_COUNTS);
		return 0;
	case LOAD_KEY_JSON:
		options->json = true;
		return 0;
	case LOAD_KEY_CSV:
		options->csv = text;
		return 0;
	case LOAD_KEY_PLOT:
		options->plot = text;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

uint32_t load_options_points(const struct load_options *options)
{
	uint32_t rates = options->n_rates ? options->n_rates : 1;

	return options->n_mixes * options->n_outstanding * rates;
}

struct load_plan load_options_point(
    const struct load_options *options, uint32_t point)
{
	struct load_plan plan = options->plan;
	uint32_t rates = options->n_rates ? options->n_rates : 1;

	plan.rate = options->n_rates ? options->rates[point % rates] : 0;
	point /= rates;
	plan.outstanding = options->outstanding[point % options->n_outstanding];
	plan.mix = *options->mixes[point / options->n_outstanding];
	if (options->distribution >= 0)
		plan.mix.distribution =
		    (enum load_distribution)options->distribution;
	return plan;
}
