/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a leader's flow to all followers carries for whom. The links are made
 * here; replica 0 of 4 leads.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "examples/consensus/replica.h"

struct link {
	struct link_setup setup;
	unsigned sent;
};

static struct replica replica;
static struct link links[16];
static unsigned n_links;
static bool full;
static _Alignas(struct kv_message) char room[sizeof(struct kv_message)];

/* In place of links.c */

struct link *links_add(struct links *unused, const struct link_setup *setup)
{
	struct link *link = &links[n_links++];

	(void)unused;
	cr_assert_leq(n_links, sizeof(links) / sizeof(links[0]));
	*link = (struct link){ .setup = *setup };
	return link;
}

void *link_begin(struct link *link, size_t size)
{
	(void)link;
	cr_assert_leq(size, sizeof(room));
	return full ? NULL : room;
}

void link_send(struct link *link, size_t size)
{
	cr_assert_eq(size, sizeof(room));
	link->sent++;
}

void kv_replica_flow(
    char *name, const char *cluster, unsigned number, const char *what)
{
	snprintf(name, LINK_MAX_NAME, "%s.%u.%s", cluster, number, what);
}

static unsigned n_sent(const char *flow)
{
	unsigned i;

	for (i = 0; i < n_links; i++)
		if (!strcmp(links[i].setup.name, flow))
			return links[i].sent;
	cr_assert_fail("there is no flow %s", flow);
	return 0;
}

static void setup(void)
{
	unsigned i;

	replica.options = (struct replica_options){
		.n_replicas = 4,
		.cluster = "c",
		.flows = true,
	};
	cr_assert_eq(flows_open(&replica), 0);
	for (i = 1; i < 3; i++)
		flows_joined(&replica, i);
}

TestSuite(flows, .init = setup, .timeout = 60);

/* The core's ACCEPT of slots to a follower: whether a flow takes it. */
static bool accept_in(
    kv_ballot ballot, unsigned to, uint64_t first, uint64_t last)
{
	const struct kv_message message = {
		.size = sizeof(message),
		.type = KV_ACCEPT,
		.ballot = ballot,
		.slot = first,
		.count = (uint16_t)(last - first + 1),
	};

	return flows_send(&replica, to, &message);
}

static bool accept(unsigned to, uint64_t first, uint64_t last)
{
	return accept_in(1, to, first, last);
}

Test(flows, carry_an_accept_once_for_all)
{
	cr_assert(accept(1, 5, 9));
	cr_assert(accept(2, 5, 9));
	cr_assert_eq(n_sent("c.0.accepts"), 1);
	cr_assert_eq(replica.flows.spared, 1);
}

Test(flows, carry_what_a_follower_behind_the_others_gets_late)
{
	cr_assert(accept(1, 5, 9));
	cr_assert(accept(1, 10, 10));
	cr_assert(accept(2, 5, 10));
	cr_assert_eq(n_sent("c.0.accepts"), 2);
}

Test(flows, leave_a_follower_alone_that_is_not_in_them)
{
	cr_assert(accept(1, 5, 9));
	cr_assert_not(accept(3, 5, 9));
	flows_left(&replica, 1);
	cr_assert_not(accept(1, 10, 10));
	cr_assert_eq(n_sent("c.0.accepts"), 1);
}

Test(flows, give_one_who_joins_what_is_sent_from_then_on)
{
	cr_assert(accept(1, 5, 9));
	flows_joined(&replica, 3);
	cr_assert_not(accept(3, 5, 9));
	cr_assert(accept(3, 10, 12));
	cr_assert(accept(1, 10, 12));
	cr_assert_eq(n_sent("c.0.accepts"), 2);
}

Test(flows, do_not_carry_a_repeat)
{
	cr_assert(accept(1, 5, 9));
	cr_assert(accept(2, 5, 9));
	cr_assert_not(accept(2, 7, 9), "follower 2 has lost it in the flow");
	cr_assert(accept(1, 10, 10));
	cr_assert(accept(2, 10, 10));
	cr_assert_eq(n_sent("c.0.accepts"), 2);
}

Test(flows, know_what_they_had_no_room_for)
{
	cr_assert(accept(1, 5, 9));
	full = true;
	cr_assert_not(accept(1, 10, 12));
	full = false;
	cr_assert(accept(1, 13, 13));
	cr_assert_not(accept(2, 5, 13), "they have not carried 10 to 12");
	cr_assert(accept(2, 14, 14));
	cr_assert(accept(1, 14, 14));
}

Test(flows, begin_anew_with_a_ballot)
{
	cr_assert(accept(1, 5, 9));
	cr_assert(accept_in(2, 1, 7, 9));
	cr_assert(accept_in(2, 2, 7, 9));
	cr_assert_not(accept_in(2, 2, 5, 6));
	cr_assert_eq(n_sent("c.0.accepts"), 2);
}

Test(flows, have_nobody_when_they_are_made_again)
{
	cr_assert(accept(1, 5, 9));
	flows_down(&replica, &replica.flows.lines[1][FLOW_ACCEPTS]);
	cr_assert(accept(1, 10, 10), "that was the flow of another leader");
	flows_down(&replica, &replica.flows.lines[0][FLOW_ACCEPTS]);
	cr_assert_not(accept(1, 11, 11));
}

Test(flows, carry_votes_to_their_leader)
{
	const struct kv_message vote = {
		.size = sizeof(vote),
		.type = KV_ACCEPTED,
	};

	cr_assert(flows_send(&replica, 2, &vote));
	cr_assert_eq(n_sent("c.2.votes"), 1);
	full = true;
	cr_assert_not(flows_send(&replica, 2, &vote));
}
