/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-bench's report of the sides that it compares, with invented rounds: wrong
 * content, and the way of tuples.
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

/*
 * The tuple size identifies the side whose rounds are wrong if they are
 * checked, or if they are not.
 */
static uint32_t wrong_if_checked, wrong_if_not;

/* What each round tells. */
static struct tally tally;

bool compare_start(struct comparison *started, const struct runner_attr *attr,
    struct runner *runner)
{
	*runner = (struct runner){ .attr = *attr, .board = &board };
	started->runner = runner;
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
		.tally = tally,
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
	tally = (struct tally){ .segments = 10 };
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

/* Of the first side, after its rounds. */
static void assert_travel(
    const char *transport, const char *notify, double requests)
{
	struct runner_attr attr = { .procs = 1 };
	struct session session = { .peer = NULL };
	json_t *row = json_object();
	const char *key = "requests_per_segment";

	cr_assert(compare_bandwidths(&comparison, &attr));
	compare_report_travel(row, &session, &sides[0]);
	cr_assert_str_eq(
	    json_string_value(json_object_get(row, "transport")), transport);
	cr_assert_str_eq(
	    json_string_value(json_object_get(row, "notify")), notify);
	cr_assert_eq(json_is_real(json_object_get(row, key)), requests > 0);
	cr_assert_eq(json_real_value(json_object_get(row, key)), requests);
	json_decref(row);
}

Test(travel, segments_that_are_datagrams_go_over_rdma, .init = set_up)
{
	tally.requests = 11;
	strcpy(tally.device, "a device");
	sides[0].plan.datagrams = 1;
	assert_travel("verbs", "datagram", 1.1);
}

Test(travel, rings_that_a_device_writes_go_over_rdma, .init = set_up)
{
	tally.requests = 12;
	tally.notify = NOTIFY_IMM;
	strcpy(tally.device, "a device");
	assert_travel("verbs", "imm", 1.2);
}

Test(travel, several_ways_to_notify_are_mixed, .init = set_up)
{
	tally.requests = 12;
	tally.notify = NOTIFY_FOOTER;
	strcpy(tally.device, "a device");
	sides[0].plan.datagrams = 1;
	assert_travel("verbs", "mixed", 1.2);
}

/* It may have one for numbers only, or of other flows. */
Test(travel, a_device_alone_is_no_way, .init = set_up)
{
	tally.requests = 12;
	strcpy(tally.device, "a device");
	assert_travel("shm", "-", 0);
}
