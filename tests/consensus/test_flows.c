/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which clients a leader lets into its four flows, and when it opens them
 * again. The links, the core and the clock are made here.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "examples/consensus/replica.h"

#define MS UINT64_C(1000000)

struct link {
	struct link_setup setup;
	bool up;
};

static struct replica replica;
static struct link links[32];
static unsigned n_links;
static uint64_t last_id;

/* In place of links.c */

struct link *links_add(struct links *unused, const struct link_setup *setup)
{
	struct link *link = &links[n_links++];

	(void)unused;
	cr_assert_leq(n_links, sizeof(links) / sizeof(links[0]));
	*link = (struct link){ .setup = *setup };
	return link;
}

void link_close(struct link *link)
{
	link->up = false;
}

bool link_up(const struct link *link)
{
	return link->up;
}

void *link_arg(const struct link *link)
{
	return link->setup.arg;
}

void *link_begin(struct link *link, size_t size)
{
	(void)link;
	(void)size;
	return NULL;
}

void *link_begin_to(struct link *link, unsigned target, size_t size)
{
	(void)target;
	return link_begin(link, size);
}

void link_send(struct link *link, size_t size)
{
	(void)link;
	(void)size;
}

/* In place of the core and of other parts of a replica: replica 0 of 3 leads */

enum paxos_role paxos_role(const struct paxos *paxos)
{
	(void)paxos;
	return PAXOS_LEADER;
}

kv_ballot paxos_ballot(const struct paxos *paxos)
{
	(void)paxos;
	return 1;
}

int paxos_leader(const struct paxos *paxos)
{
	(void)paxos;
	return 0;
}

uint64_t paxos_commit(const struct paxos *paxos)
{
	(void)paxos;
	return 0;
}

uint64_t order_who_is_there(const struct replica *of)
{
	(void)of;
	return 7;
}

bool order_is_majority(const struct replica *of, uint64_t ends)
{
	(void)of;
	return ends == 7;
}

unsigned order_end_of(uint64_t ends, unsigned number)
{
	(void)ends;
	return number;
}

void bootstrap_handshake(struct replica *of, unsigned peer)
{
	(void)of;
	(void)peer;
}

void clients_notify_all(struct replica *of)
{
	(void)of;
}

void say(const struct replica *of, const char *format, ...)
{
	(void)of;
	(void)format;
}

void kv_shared_flow(char *name, const char *cluster, char which, uint64_t id)
{
	snprintf(
	    name, LINK_MAX_NAME, "%s-%c%lu", cluster, which, (unsigned long)id);
}

int kv_random_id(uint64_t *id)
{
	*id = ++last_id;
	return 0;
}

/* The tests; times are in milliseconds */

static void setup(void)
{
	replica.options = (struct replica_options){
		.n_replicas = 3,
		.cluster = "c",
		.flows = true,
	};
}

TestSuite(flows, .init = setup, .timeout = 60);

static void ask(unsigned client, uint64_t at)
{
	struct place *place = &replica.places[client];

	place->client = client + 1;
	place->asked = at * MS;
}

static void turn(uint64_t at)
{
	replica.now = at * MS;
	flows_turn(&replica);
}

/* All ends of the four flows that the leader opened last. */
static void come_up(uint64_t at)
{
	struct link *last = &links[n_links - N_FLOWS];
	unsigned i;

	replica.now = at * MS;
	for (i = 0; i < N_FLOWS; i++) {
		last[i].up = true;
		flows_line_changed(&replica, &last[i], true);
	}
	cr_assert_eq(replica.flows.n_up, N_FLOWS);
}

static bool is_in(unsigned client)
{
	return flows_for_client(&replica, client).id == last_id;
}

Test(flows, let_in_clients_that_have_asked_lately)
{
	ask(0, 4990);
	ask(1, 3100);
	ask(2, 2900);
	turn(5000);
	cr_assert_eq(last_id, 1);
	cr_assert(is_in(0) && is_in(1));
	cr_assert_not(is_in(2));
	cr_assert_eq(links[n_links - 1].setup.n_targets, 2);
}

Test(flows, are_opened_again_for_a_client_that_is_busy)
{
	ask(0, 4990);
	turn(5000);
	come_up(5001);
	ask(1, 5050);
	turn(5250);
	cr_assert_eq(last_id, 1, "it asks seldom");
	ask(1, 5490);
	turn(5500);
	cr_assert_eq(last_id, 2);
	cr_assert(is_in(0) && is_in(1));
}

Test(flows, that_took_long_to_open_stay_longer)
{
	const uint64_t took = 10000, up_at = 5000 + took;
	uint64_t at;

	ask(0, 4990);
	turn(5000);
	come_up(up_at);
	for (at = up_at + 300; at < up_at + 4 * took; at += 300) {
		ask(1, at - 10);
		turn(at);
		cr_assert_eq(last_id, 1, "they were opened again after %lu ms",
		    (unsigned long)(at - up_at));
	}
	ask(0, at - 10);
	ask(1, at - 10);
	turn(at);
	cr_assert_eq(last_id, 2);
	cr_assert(is_in(0) && is_in(1));
}
