/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast over datagrams, over a network that loses, repeats, reorders and
 * delays them: the promises of docs/replicate.md, with many seeds, and for each
 * kind of lost datagram. DFI_TEST_SEEDS: how many for each rate of losses, and
 * for late datagrams, instead of 1000.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "multicast_net.h"

#define ALL_FAULTS "drop=0.05,duplicate=0.05,reorder=0.05,delay=0.05"

TestSuite(multicast_protocol, .timeout = 300);

/* The counts over all runs of a test. */
static struct sums {
	uint64_t segments, resent, repeated, early, asked, stuck, outdated;
	uint64_t lost, gaps, datagrams, positions;
} sums;

static void add_sums(const struct net *net)
{
	const struct multicast_receiver_counts *counts;
	uint32_t s, t;

	for (s = 0; s < net->plan.n_sources; s++) {
		sums.segments += net->sources[s].protocol.counts.segments;
		sums.resent += net->sources[s].protocol.counts.resent;
		sums.stuck += net->sources[s].protocol.counts.stuck;
		sums.positions += net->sources[s].protocol.counts.positions;
		sums.outdated += net->sources[s].protocol.counts.outdated;
	}
	for (t = 0; t < net->plan.n_targets; t++)
		for (s = 0; s < net->plan.n_sources; s++) {
			counts = &net->targets[t].views[s].protocol.counts;
			sums.repeated += counts->repeated;
			sums.early += counts->early;
			sums.asked += counts->asked;
			sums.lost += counts->lost;
			sums.gaps += counts->gaps;
		}
	sums.datagrams += net->n_datagrams;
}

static void has_all(const struct net *net, uint32_t target, uint32_t source)
{
	const struct net_view *view = &net->targets[target].views[source];

	cr_assert_eq(view->end, 1);
	cr_assert_eq(view->next, net->plan.n_segments);
	cr_assert_eq(view->protocol.state, RECEIVER_WHOLE);
	cr_assert_eq(view->n_lost, view->protocol.counts.lost);
	cr_assert_eq(view->n_gaps, view->protocol.counts.gaps);
	cr_assert_eq(view->protocol.counts.segments + view->n_lost,
	    net->plan.n_segments);
	if (!net->plan.notify)
		cr_assert_eq(view->n_lost, 0);
}

static void all_have_all(const struct net *net)
{
	uint32_t s, t;

	for (t = 0; t < net->plan.n_targets; t++) {
		cr_assert(net->targets[t].complete);
		for (s = 0; s < net->plan.n_sources; s++)
			has_all(net, t, s);
	}
	for (s = 0; s < net->plan.n_sources; s++)
		cr_assert(net->sources[s].complete);
}

/* The datagrams that loses() names are lost, or none. */
static void run(const struct net_plan *plan,
    bool (*loses)(
	struct net *net, const struct datagram *datagram, uint32_t receiver),
    void (*check)(const struct net *net))
{
	struct net net;

	net_start(&net, plan);
	net.loses = loses;
	net_run(&net);
	check(&net);
	add_sums(&net);
	net_stop(&net);
}

static uint64_t n_seeds(void)
{
	const char *set = getenv("DFI_TEST_SEEDS");

	return set ? strtoull(set, NULL, 10) : 1000;
}

static void run_seeds(const char *faults)
{
	uint64_t n = n_seeds(), seed;
	struct net_plan plan;

	for (seed = 1; seed <= n; seed++) {
		plan = net_any_plan(seed, faults);
		run(&plan, NULL, all_have_all);
	}
	/* Not in vain. */
	cr_assert_gt(sums.resent, 0);
	cr_assert_gt(sums.repeated, n / 2);
	cr_assert_gt(sums.early, n / 2);
	cr_assert_gt(sums.asked, 0);
	cr_assert_gt(sums.stuck, 0);
	cr_assert_gt(sums.outdated, 0);
	cr_assert_eq(sums.lost, 0);
}

Test(multicast_protocol, all_comes_once_and_in_order_with_losses_of_0_1_percent)
{
	run_seeds("drop=0.001,duplicate=0.005,reorder=0.02,delay=0.01");
}

Test(multicast_protocol, all_comes_once_and_in_order_with_losses_of_1_percent)
{
	run_seeds("drop=0.01,duplicate=0.02,reorder=0.02,delay=0.01");
}

Test(multicast_protocol, all_comes_once_and_in_order_with_losses_of_5_percent)
{
	run_seeds(ALL_FAULTS);
}

/* Worse than any network: most of what is sent is lost. */
Test(multicast_protocol, all_comes_at_last_when_most_is_lost)
{
	struct net_plan plan;
	uint64_t seed;

	for (seed = 1; seed <= 20; seed++) {
		plan = net_any_plan(seed, "drop=0.6,duplicate=0.3,reorder=0.3");
		plan.n_segments = 30;
		plan.push_us = plan.consume_us = 300;
		run(&plan, NULL, all_have_all);
	}
}

static void is_quiet(const struct net *net)
{
	all_have_all(net);
	cr_assert_eq(net->sources[0].protocol.counts.resent, 0);
	cr_assert_eq(net->targets[0].views[0].protocol.counts.asked, 0);
	cr_assert_eq(net->targets[0].views[0].protocol.counts.repeated, 0);
	/* No source had to wait for a probe. */
	cr_assert_lt(net->now, 30 * NS_PER_MS);
}

/* The cost: one datagram for each, and a report for a quarter ring. */
Test(multicast_protocol, without_losses_there_is_little_but_segments)
{
	struct net_plan plan = {
		.n_sources = 1,
		.n_targets = 1,
		.segment_count = 16,
		.segment_tuples = 4,
		.n_segments = 1000,
		.gap_us = 1000,
		.push_us = 10,
		.consume_us = 5,
		.distance_us = 1,         /* and nothing overtakes */
		.registry_us = 120000000, /* and nobody to hear from it */
	};

	run(&plan, NULL, is_quiet);
	cr_assert_eq(sums.segments, 1000);
	cr_assert_leq(sums.datagrams, 1000 + 1000 / 4 + 10);
}

/* Each tenth segment, the first time at each target; none of the last. */
static uint8_t tenths[NET_ENDPOINTS][1000];

static bool lose_tenths(
    struct net *net, const struct datagram *datagram, uint32_t receiver)
{
	uint32_t segment = datagram->number - (uint32_t)net->plan.start;

	return datagram->type == DATAGRAM_DATA && segment % 10 == 2 &&
	    !tenths[receiver][segment]++;
}

/* Each was sent again once, and no timer was needed. */
static void is_quick(const struct net *net)
{
	all_have_all(net);
	cr_assert_eq(net->sources[0].protocol.counts.resent,
	    net->plan.n_segments / 10 * net->plan.n_targets);
	cr_assert_lt(net->now, net->plan.gap_us * INT64_C(1000));
}

Test(multicast_protocol, losses_cost_a_round_trip_and_not_the_timeout)
{
	struct net_plan plan = {
		.n_sources = 1,
		.n_targets = 3,
		.segment_count = 64,
		.segment_tuples = 4,
		.n_segments = 1000,
		.start = UINT32_MAX - 500,
		.gap_us = 100000,
		.push_us = 10,
		.consume_us = 3,
		.distance_us = 10,
		.registry_us = 1000,
	};

	run(&plan, lose_tenths, is_quick);
}

/* The first few of a kind on each way; then its number comes back to 0. */
static bool lose_first(
    struct net *net, uint32_t way, uint32_t receiver, uint32_t n)
{
	uint32_t shift = 8 * receiver;

	if ((net->marks[way] >> shift & 255) >= n)
		return false;
	net->marks[way] += 1u << shift;
	return true;
}

static bool lose_ends(
    struct net *net, const struct datagram *datagram, uint32_t receiver)
{
	return datagram->type == DATAGRAM_STATE &&
	    datagram->flags & DATAGRAM_END &&
	    lose_first(net, datagram->source % 4, receiver, 9);
}

Test(multicast_protocol, lost_ends_are_said_again)
{
	struct net_plan plan;
	uint64_t seed;

	for (seed = 1; seed <= 100; seed++) {
		plan = net_any_plan(seed, seed % 2 ? NULL : ALL_FAULTS);
		plan.push_us = plan.consume_us = 100;
		run(&plan, lose_ends, all_have_all);
	}
}

/* Of reports only each fifth arrives. */
static bool lose_reports(
    struct net *net, const struct datagram *datagram, uint32_t receiver)
{
	(void)receiver;
	return datagram->type == DATAGRAM_REPORT && net->marks[0]++ % 5;
}

Test(multicast_protocol, lost_credits_come_with_the_next_report)
{
	struct net_plan plan;
	uint64_t seed;

	for (seed = 1; seed <= 30; seed++) {
		plan = net_any_plan(seed, seed % 2 ? NULL : ALL_FAULTS);
		plan.push_us = plan.consume_us = 300;
		plan.n_segments = 30;
		run(&plan, lose_reports, all_have_all);
	}
}

static bool lose_done(
    struct net *net, const struct datagram *datagram, uint32_t receiver)
{
	(void)net;
	(void)receiver;
	return datagram->type == DATAGRAM_REPORT &&
	    datagram->flags & DATAGRAM_DONE;
}

Test(multicast_protocol, source_learns_from_the_registry_who_has_left_with_all)
{
	struct net_plan plan;
	uint64_t seed;

	for (seed = 1; seed <= 100; seed++) {
		plan = net_any_plan(seed, seed % 2 ? NULL : ALL_FAULTS);
		run(&plan, lose_done, all_have_all);
	}
}

static bool lose_original(
    struct net *net, const struct datagram *datagram, uint32_t receiver)
{
	/* The last segment of each stream, the first time at each target. */
	return datagram->type == DATAGRAM_DATA &&
	    datagram->number ==
	    (uint32_t)(net->plan.start + net->plan.n_segments - 1) &&
	    lose_first(net, datagram->source % 4, receiver, 1);
}

Test(multicast_protocol, lost_tail_is_found_by_the_state)
{
	struct net_plan plan;
	uint64_t seed;

	for (seed = 1; seed <= 100; seed++) {
		plan = net_any_plan(seed, NULL);
		run(&plan, lose_original, all_have_all);
	}
	cr_assert_gt(sums.resent, 100);
}

/* With notify. */

/* No segment that came in time is counted as lost, and none comes late. */
static void lost_is_what_was_dropped(const struct net *net)
{
	struct faults_counts counts;
	uint64_t dropped = 0, lost = 0;
	uint32_t s, t;

	all_have_all(net);
	for (t = 0; t < net->plan.n_targets; t++) {
		dfi__faults_query(net->targets[t].faults, &counts);
		dropped += counts.dropped;
		for (s = 0; s < net->plan.n_sources; s++) {
			const struct net_view *view = &net->targets[t].views[s];

			lost += view->n_lost;
			cr_assert_eq(view->reader.lost_segments, view->n_lost);
			/* Also of tuples: they add up. */
			cr_assert_eq(
			    view->reader.total + view->reader.lost_total,
			    net->first_tuple[net->plan.n_segments]);
			cr_assert_eq(view->reader.unsure, 0);
		}
	}
	cr_assert_leq(lost, dropped);
	for (s = 0; s < net->plan.n_sources; s++)
		cr_assert_eq(net->sources[s].protocol.counts.resent, 0);
}

/*
 * multicast_net.c checks that each segment is reported once, and only if it had
 * not come.
 */
static void notify_seeds(const char *faults)
{
	uint64_t n = n_seeds(), seed;
	struct net_plan plan;

	for (seed = 1; seed <= n; seed++) {
		plan = net_any_plan(seed, faults);
		plan.notify = true;
		run(&plan, NULL, lost_is_what_was_dropped);
	}
	cr_assert_gt(sums.lost, n);
	cr_assert_gt(sums.gaps, n);
	cr_assert_eq(sums.asked, 0);
}

Test(multicast_protocol, notify_reports_what_is_lost_of_1_percent)
{
	notify_seeds("drop=0.01,duplicate=0.05");
}

Test(multicast_protocol, notify_reports_what_is_lost_of_20_percent)
{
	notify_seeds("drop=0.2,duplicate=0.05");
}

/*
 * Later than gap_timeout counts as lost, so lost_is_what_was_dropped() does not
 * hold.
 */
Test(multicast_protocol, notify_drops_what_comes_after_it_was_reported_lost)
{
	uint64_t n = n_seeds(), seed;
	struct net_plan plan;

	for (seed = 1; seed <= n; seed++) {
		plan = net_any_plan(
		    seed, ALL_FAULTS ",delay=0.1,delay_us=5000");
		plan.notify = true;
		plan.gap_us = 500;
		run(&plan, NULL, all_have_all);
	}
	cr_assert_gt(sums.lost, n / 2);
	cr_assert_gt(sums.repeated, n / 2);
}

/* Segments 5, 6 and 7; 9; and the last two. */
static bool lose_six(
    struct net *net, const struct datagram *datagram, uint32_t receiver)
{
	uint32_t segment = datagram->number - (uint32_t)net->plan.start;

	return datagram->type == DATAGRAM_DATA && receiver == 0 &&
	    ((segment >= 5 && segment <= 7) || segment == 9 ||
		segment >= net->plan.n_segments - 2);
}

static void six_are_lost(const struct net *net)
{
	all_have_all(net);
	cr_assert_eq(net->targets[0].views[0].n_gaps, 3);
	cr_assert_eq(net->targets[0].views[0].n_lost, 6);
	cr_assert_eq(net->targets[1].views[0].n_gaps, 0);
}

static struct net_plan few_losses(bool ordered)
{
	return (struct net_plan){
		.n_sources = 1,
		.n_targets = 2,
		.segment_count = 8,
		.segment_tuples = 3,
		.n_segments = 40,
		.start = UINT64_MAX - 7,
		.notify = true,
		.ordered = ordered,
		.gap_us = 200,
		.push_us = 1,
		.consume_us = 1,
		.latency_us = 1,
		.registry_us = 1000,
	};
}

Test(multicast_protocol,
    notify_reports_adjacent_losses_at_once_and_each_gap_once)
{
	struct net_plan plan = few_losses(false);

	run(&plan, lose_six, six_are_lost);
}

Test(multicast_protocol, order_with_notify_reports_adjacent_losses_at_once)
{
	struct net_plan plan = few_losses(true);

	run(&plan, lose_six, six_are_lost);
}

static bool lose_three(
    struct net *net, const struct datagram *datagram, uint32_t receiver)
{
	uint32_t segment = datagram->number - (uint32_t)net->plan.start;

	return datagram->type == DATAGRAM_DATA && receiver == 0 &&
	    segment >= 5 && segment <= 7;
}

static void three_are_lost(const struct net *net)
{
	all_have_all(net);
	cr_assert_eq(net->targets[0].views[0].n_gaps, 1);
	cr_assert_eq(net->targets[0].views[0].n_lost, 3);
}

/* So that the positions are known when gap_timeout is over. */
Test(multicast_protocol,
    order_with_notify_reports_adjacent_losses_at_once_after_late_answers)
{
	struct net_plan plan = few_losses(true);

	for (plan.distance_us = 100; plan.distance_us <= 2000;
	     plan.distance_us += 100)
		run(&plan, lose_three, three_are_lost);
}

static bool lose_all_data(
    struct net *net, const struct datagram *datagram, uint32_t receiver)
{
	(void)net;
	(void)receiver;
	return datagram->type == DATAGRAM_DATA;
}

static void all_is_lost(const struct net *net)
{
	uint32_t s, t;

	all_have_all(net);
	for (t = 0; t < net->plan.n_targets; t++)
		for (s = 0; s < net->plan.n_sources; s++)
			cr_assert_eq(net->targets[t].views[s].n_lost,
			    net->plan.n_segments);
}

Test(multicast_protocol, notify_comes_to_an_end_if_no_segment_ever_arrives)
{
	struct net_plan plan;
	uint64_t seed;

	for (seed = 1; seed <= 50; seed++) {
		plan = net_any_plan(seed, NULL);
		plan.notify = true;
		run(&plan, lose_all_data, all_is_lost);
	}
}

/* In one order; multicast_net.c checks the position of each. */

static void order_seeds(bool notify, const char *faults, uint64_t n)
{
	struct net_plan plan;
	uint64_t seed;

	for (seed = 1; seed <= n; seed++) {
		plan = net_any_plan(seed, faults);
		plan.ordered = true;
		plan.notify = notify;
		run(&plan, NULL,
		    notify ? lost_is_what_was_dropped : all_have_all);
	}
}

Test(multicast_protocol, order_is_one_if_what_is_lost_comes_again)
{
	uint64_t n = n_seeds();

	order_seeds(false, ALL_FAULTS, n);
	cr_assert_gt(sums.resent, n);
	cr_assert_eq(sums.lost + sums.positions, 0);
}

Test(multicast_protocol, order_with_notify_reports_what_is_lost_of_1_percent)
{
	uint64_t n = n_seeds() / 2;

	order_seeds(true, "drop=0.01,duplicate=0.05", n);
	cr_assert_gt(sums.lost, n);
	cr_assert_eq(sums.resent, 0);
}

/* Among them the answers with its position. */
Test(multicast_protocol, order_with_notify_reports_what_is_lost_of_20_percent)
{
	order_seeds(true, "drop=0.2,duplicate=0.1", n_seeds() / 2);
	cr_assert_gt(sums.positions, sums.gaps);
	cr_assert_gt(sums.asked, sums.positions);
}

Test(multicast_protocol,
    order_with_notify_drops_what_comes_after_it_was_reported_lost)
{
	uint64_t n = n_seeds() / 2, seed;
	struct net_plan plan;

	for (seed = 1; seed <= n; seed++) {
		plan = net_any_plan(
		    seed, ALL_FAULTS ",delay=0.1,delay_us=5000");
		plan.ordered = plan.notify = true;
		plan.gap_us = 500;
		run(&plan, NULL, all_have_all);
	}
	cr_assert_gt(sums.lost, n);
	cr_assert_gt(sums.repeated, n);
}

/* And the first answers. */
static bool lose_all_data_and_answers(
    struct net *net, const struct datagram *datagram, uint32_t receiver)
{
	return datagram->type == DATAGRAM_DATA ||
	    (datagram->type == DATAGRAM_POSITION &&
		lose_first(net, datagram->source % 4, receiver, 20));
}

Test(multicast_protocol,
    order_with_notify_comes_to_an_end_if_no_segment_ever_arrives)
{
	struct net_plan plan;
	uint64_t seed;

	for (seed = 1; seed <= 20; seed++) {
		plan = net_any_plan(seed, NULL);
		/* In vain for seconds: each look is a step of the test. */
		plan.consume_us *= 10;
		plan.push_us *= 10;
		plan.ordered = plan.notify = true;
		run(&plan, lose_all_data_and_answers, all_is_lost);
	}
}

/* With deaths. */

static uint32_t dead; /* of the plan: net_run() clears it */

static void others_have_all(const struct net *net)
{
	uint32_t s, t;

	for (t = 0; t < net->plan.n_targets; t++)
		for (s = 0; t != dead && s < net->plan.n_sources; s++)
			has_all(net, t, s);
	for (s = 0; s < net->plan.n_sources; s++)
		cr_assert(net->sources[s].complete);
}

static void run_deaths(bool notify)
{
	struct net_plan plan;
	uint64_t seed;

	for (seed = 1; seed <= 300; seed++) {
		plan = net_any_plan(seed, ALL_FAULTS);
		plan.notify = notify;
		plan.n_targets = 2 + (uint32_t)(seed % 2);
		dead = (uint32_t)(seed % plan.n_targets);
		plan.dead_target = dead + 1;
		plan.death_us = (uint32_t)(seed * 7 % 1000);
		plan.gap_us = 100;
		run(&plan, NULL, others_have_all);
	}
}

Test(multicast_protocol, dead_target_holds_up_nobody_else)
{
	run_deaths(false);
}

Test(multicast_protocol, dead_target_holds_up_nobody_else_with_notify)
{
	run_deaths(true);
}

Test(multicast_protocol, target_that_cancels_is_left_out)
{
	struct net_plan plan;
	uint64_t seed;

	for (seed = 1; seed <= 300; seed++) {
		plan = net_any_plan(seed, ALL_FAULTS);
		plan.n_targets = 2 + (uint32_t)(seed % 2);
		dead = (uint32_t)(seed % plan.n_targets);
		plan.cancels = dead + 1;
		plan.death_us = (uint32_t)(seed * 7 % 1000);
		run(&plan, NULL, others_have_all);
	}
}

static uint64_t n_cut;

/* A prefix of the dead one's stream; all of the others'. */
static void receivers_end(const struct net *net)
{
	const struct net_view *view;
	uint32_t s, t;

	for (t = 0; t < net->plan.n_targets; t++) {
		cr_assert(net->targets[t].complete);
		for (s = 0; s < net->plan.n_sources; s++) {
			view = &net->targets[t].views[s];
			if (s == dead && view->end == -ECONNRESET) {
				cr_assert_eq(
				    view->protocol.state, RECEIVER_CUT);
				cr_assert_leq(view->next, net->plan.n_segments);
				n_cut++;
			} else {
				has_all(net, t, s);
			}
		}
	}
}

static void run_source_deaths(bool notify)
{
	struct net_plan plan;
	uint64_t seed;

	n_cut = 0;
	for (seed = 1; seed <= 300; seed++) {
		plan = net_any_plan(seed, ALL_FAULTS);
		plan.notify = notify;
		plan.n_sources = 2 + (uint32_t)(seed % 2);
		dead = (uint32_t)(seed % plan.n_sources);
		plan.dead_source = dead + 1;
		plan.death_us = (uint32_t)(seed * 7 % 1000);
		run(&plan, NULL, receivers_end);
	}
	cr_assert_gt(n_cut, 300);
}

Test(multicast_protocol, dead_source_ends_its_own_stream_only)
{
	run_source_deaths(false);
}

Test(multicast_protocol, dead_source_ends_its_own_stream_only_with_notify)
{
	run_source_deaths(true);
}

static uint64_t n_whole;

/* Each target has a prefix of the one order, or all of it. */
static void beginnings_end(const struct net *net)
{
	const struct net_target *target;
	uint32_t s, t;

	for (t = 0; t < net->plan.n_targets; t++) {
		target = &net->targets[t];
		cr_assert(target->complete);
		cr_assert(target->lost || target->merge.n_next == 0);
		n_cut += target->lost;
		n_whole += !target->lost;
		for (s = 0; !target->lost && s < net->plan.n_sources; s++)
			has_all(net, t, s);
	}
}

static void run_ordered_deaths(bool notify)
{
	struct net_plan plan;
	uint64_t seed;

	n_cut = n_whole = 0;
	for (seed = 1; seed <= 300; seed++) {
		plan = net_any_plan(seed, ALL_FAULTS);
		plan.ordered = true;
		plan.notify = notify;
		plan.n_sources = 2 + (uint32_t)(seed % 2);
		plan.dead_source = 1 + (uint32_t)(seed % plan.n_sources);
		plan.death_us = (uint32_t)(seed * 7 % 1000);
		plan.output_room = (uint32_t)(seed % 3);
		run(&plan, NULL, beginnings_end);
	}
	cr_assert_gt(n_cut, 300);
	cr_assert_gt(n_whole, 0);
}

/* Some sources die with positions for which they have sent no segment. */
Test(multicast_protocol, dead_source_ends_the_order_behind_a_beginning)
{
	run_ordered_deaths(false);
}

Test(multicast_protocol,
    dead_source_ends_the_order_behind_a_beginning_with_notify)
{
	run_ordered_deaths(true);
	cr_assert_gt(sums.lost, 0);
}
