/* SPDX-License-Identifier: Apache-2.0 */
/* The options of loads: combinations, and invalid ones. */
#include <criterion/criterion.h>
#include <string.h>

#include "examples/consensus/load_options.h"

static const struct argp_option descriptions[] = {
	LOAD_OPTIONS_REQUESTS,
	LOAD_OPTIONS_OUTPUT,
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static error_t parse_one(int key, char *text, struct argp_state *state)
{
	return load_options_parse(key, text, state, state->input);
}

/* A command line with spaces between its words. */
static struct load_options *parse(const char *line)
{
	static const struct argp argp = { .options = descriptions,
		.parser = parse_one };
	static struct load_options options;
	static char copy[512];
	char *words[32] = { (char[]){ "load" } }, *rest = copy, *word;
	int n = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	while ((word = strsep(&rest, " ")))
		if (*word)
			words[n++] = word;
	load_options_init(&options);
	argp_parse(&argp, n, words, 0, NULL, &options);
	return &options;
}

Test(load_options, defaults_are_one_closed_loop)
{
	struct load_options *options = parse("");
	struct load_plan plan;

	cr_assert_eq(load_options_points(options), 1);
	plan = load_options_point(options, 0);
	cr_assert_str_eq(plan.mix.name, "a");
	cr_assert_eq(plan.mix.distribution, LOAD_ZIPF);
	cr_assert_eq(plan.clients, 6);
	cr_assert_eq(plan.outstanding, 32);
	cr_assert_eq(plan.rate, 0);
	cr_assert_eq(plan.value_size, 64);
	cr_assert(plan.fill);
}

Test(load_options, lists_are_multiplied)
{
	struct load_options *options = parse(
	    "--workload a,95/5 --outstanding 1,32 --rate 1000,2000,4000");
	struct load_plan plan;

	cr_assert_eq(load_options_points(options), 12);
	plan = load_options_point(options, 0);
	cr_assert_str_eq(plan.mix.name, "a");
	cr_assert_eq(plan.outstanding, 1);
	cr_assert_eq(plan.rate, 1000);
	plan = load_options_point(options, 10);
	cr_assert_str_eq(plan.mix.name, "95/5");
	cr_assert_eq(plan.outstanding, 32);
	cr_assert_eq(plan.rate, 2000);
}

Test(load_options, workloads_are_those_of_ycsb)
{
	struct load_options *options = parse("--workload a,b,c,95/5");

	cr_assert_eq(load_options_point(options, 0).mix.reads, 0.5);
	cr_assert_eq(load_options_point(options, 1).mix.reads, 0.95);
	cr_assert_eq(load_options_point(options, 2).mix.reads, 1);
	cr_assert_eq(load_options_point(options, 3).mix.reads, 0.95);
	cr_assert_eq(
	    load_options_point(options, 3).mix.distribution, LOAD_UNIFORM);
}

Test(load_options, a_distribution_is_for_all_workloads)
{
	struct load_options *options = parse(
	    "--workload 95/5,c --distribution zipf --theta 0.5");

	cr_assert_eq(
	    load_options_point(options, 0).mix.distribution, LOAD_ZIPF);
	cr_assert_eq(load_options_point(options, 1).theta, 0.5);
	options = parse("--workload a --distribution uniform");
	cr_assert_eq(
	    load_options_point(options, 0).mix.distribution, LOAD_UNIFORM);
}

Test(load_options, times_may_be_fractions)
{
	struct load_options *options = parse("--seconds 0.5 --warm-up 0");

	cr_assert_eq(options->plan.length_ns, 500000000);
	cr_assert_eq(options->plan.warm_up_ns, 0);
}

/* argp's exit status for wrong usage. */
#define REFUSED(name, line)                                 \
	Test(load_options, refuses_##name, .exit_code = 64) \
	{                                                   \
		parse(line);                                \
	}

REFUSED(other_workloads, "--workload a,d")
REFUSED(an_empty_workload, "--workload a,")
REFUSED(no_requests, "--outstanding 0")
REFUSED(too_many_requests, "--outstanding 257")
REFUSED(half_a_client, "--clients 1.5")
REFUSED(no_clients, "--clients 0")
REFUSED(clients_that_wrap, "--clients -18446744073709551615")
REFUSED(clients_with_a_sign, "--clients +1")
REFUSED(clients_in_hexadecimal, "--clients 0x1")
REFUSED(clients_with_an_exponent, "--clients 1e1")
REFUSED(infinite_times, "--seconds inf")
REFUSED(times_in_hexadecimal, "--seconds 0x1")
REFUSED(times_with_a_sign, "--seconds +1")
REFUSED(times_with_units, "--seconds 1s")
REFUSED(counts_of_no_process, "--count leader=-1")
REFUSED(counts_that_wrap, "--count leader=-18446744073709551615")
REFUSED(negative_rates, "--rate -1")
REFUSED(words_for_rates, "--rate fast")
REFUSED(no_number_at_all, "--seconds nan")
REFUSED(theta_of_one, "--theta 1")
REFUSED(values_that_are_too_large, "--value-size 4097")
REFUSED(values_without_bytes, "--value-size 0")
REFUSED(other_distributions, "--distribution normal")
