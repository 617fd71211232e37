/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What dfi-bench says of the sides that it compares, with rounds that are made
 * up here: whose content was wrong.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "bench/compare.h"
#include "bench/values.h"

#define N_SIDES 3

static struct board board;
static struct side sides[N_SIDES];
static struct common_options options;
static struct comparison comparison;

/* The side, by its tuples' size, whose rounds are wrong if they are checked,
 * or if they are not. */
static uint32_t wrong_if_checked, wrong_if_not;

bool runner_start(const struct runner_attr *attr, struct runner *runner)
{
	*runner = (struct runner){ .attr = *attr, .board = &board };
	return true;
}

bool runner_round(
    struct runner *runner, const struct plan *plan, struct outcome *outcome)
{
	(void)runner;
	*outcome = (struct outcome){
		.seconds = 1,
		.tuples = plan->tuples,
		.verified = plan->tuple_size !=
		    (plan->check ? wrong_if_checked : wrong_if_not),
	};
	return true;
}

void runner_stop(struct runner *runner)
{
	runner->board = NULL;
}

bool session_create_flows(struct session *session, struct plan *plan,
    const struct raw_geometry *asked)
{
	(void)session;
	(void)plan;
	(void)asked;
	return true;
}

void session_remove_flows(struct session *session, const struct plan *plan)
{
	(void)session;
	(void)plan;
}

json_t *report_number(double value)
{
	return json_real(value);
}

static void set_up(void)
{
	uint32_t i;

	wrong_if_checked = wrong_if_not = 0;
	options = (struct common_options){
		.repeat = 2,
		.bytes = 1024,
		.verify = true,
	};
	for (i = 0; i < N_SIDES; i++)
		sides[i] = (struct side){
			.plan = {
				.job = JOB_FLOW,
				.n_sources = 1,
				.n_targets = 1,
				.tuple_size = 8 * (i + 1),
			},
		};
	comparison = (struct comparison){
		.options = &options,
		.sides = sides,
		.n_sides = N_SIDES,
		.value = value_bandwidth,
	};
}

TestSuite(compare, .init = set_up);

static void assert_verified(bool first, bool second, bool third)
{
	struct runner_attr attr = { .procs = 1 };

	cr_assert(compare_bandwidths(&comparison, &attr));
	cr_assert_eq(sides[0].verified, first);
	cr_assert_eq(sides[1].verified, second);
	cr_assert_eq(sides[2].verified, third);
	cr_assert_eq(sides[0].n_values, options.repeat);
}

Test(compare, sides_are_right_if_all_rounds_are)
{
	assert_verified(true, true, true);
}

Test(compare, a_content_check_that_fails_counts_against_its_own_side)
{
	wrong_if_checked = 16;
	assert_verified(true, false, true);
}

Test(compare, a_round_that_is_wrong_counts_against_its_own_side)
{
	wrong_if_not = 24;
	assert_verified(true, true, false);
}
