/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Multi-Paxos core, rule by rule, on a network in virtual time: messages
 * arrive in order after 10 us, unless their path is cut. The simulator tests
 * random events.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "allocations.h"
#include "commands.h"
#include "examples/consensus/paxos.h"

#define MAX 5
#define DELAY 10000
#define MS 1000000
#define LOG_BYTES (1 << 16)

struct packet {
	struct packet *next;
	uint64_t at;
	unsigned to;
	struct kv_message *message;
};

struct node {
	struct world *world;
	unsigned number;
	struct paxos *paxos;
	uint64_t incarnation;
	char *snapshot;
	size_t snapshot_size;
	uint64_t snapshot_slot;
	bool saved;
	uint64_t appended; /* with a disk */
	uint64_t applied;
	uint64_t replies; /* of reads */
	uint8_t read_status;
};

struct world {
	unsigned n;
	uint64_t now;
	bool disk;
	bool deaf[MAX][MAX]; /* from, to */
	bool full[MAX];      /* takes nothing */
	uint64_t sent[KV_STATUS + 1];
	uint64_t session, number; /* of the one client */
	struct packet *first, **last;
	struct kv_message *begun;
	struct node nodes[MAX];
};

static unsigned begun_to;

static struct kv_message *begin(
    void *arg, bool client, unsigned to, size_t size)
{
	struct node *node = arg;

	cr_assert(!client && size <= KV_MAX_MESSAGE);
	if (node->world->full[to])
		return NULL;
	free(node->world->begun);
	node->world->begun = uncounted(size);
	begun_to = to;
	return node->world->begun;
}

static void send(void *arg, struct kv_message *message)
{
	struct node *node = arg;
	struct world *world = node->world;
	struct packet *packet = uncounted(sizeof(*packet));

	cr_assert(message == world->begun);
	cr_assert(kv_message_valid(message, message->size));
	world->sent[message->type]++;
	world->begun = NULL;
	packet->at = world->now + DELAY;
	packet->to = begun_to;
	packet->message = message;
	*world->last = packet;
	world->last = &packet->next;
}

static uint64_t append(void *arg, const struct kv_record *record)
{
	struct node *node = arg;

	(void)record;
	return ++node->appended;
}

static void applied(void *arg, uint64_t slot, const struct kv_command *command,
    const struct kv_result *result)
{
	struct node *node = arg;

	if (command->op == KV_REGISTER)
		node->world->session = result->session;
	else if (command->op == KV_PUT)
		cr_assert_eq(result->status, KV_OK);
	cr_assert_gt(slot, node->applied);
	node->applied = slot;
}

static void changed(void *arg)
{
	(void)arg;
}

static void snapshot(void *arg, const struct kv_store *store)
{
	struct node *node = arg;

	free(node->snapshot);
	cr_assert_eq(
	    kv_store_save(store, &node->snapshot, &node->snapshot_size), 0);
	node->snapshot_slot = kv_store_slot(store);
	node->saved = true;
}

static size_t snapshot_read(void *arg, uint64_t offset, char *to, size_t size,
    uint64_t *slot, uint64_t *total)
{
	struct node *node = arg;

	*slot = node->snapshot_slot;
	*total = node->snapshot_size;
	if (size > *total - offset)
		size = *total - offset;
	if (size)
		memcpy(to, node->snapshot + offset, size);
	return size;
}

static const struct paxos_ops memory_ops = { begin, send, NULL, applied,
	changed, snapshot, snapshot_read };
static const struct paxos_ops disk_ops = { begin, send, append, applied,
	changed, snapshot, snapshot_read };

static void start(struct world *world, unsigned number,
    const struct kv_config *config, uint64_t incarnation)
{
	struct node *node = &world->nodes[number];
	struct paxos_setup setup = { .cluster = 7,
		.incarnation = incarnation,
		.self = number,
		.n_replicas = world->n,
		.seed = number,
		.heartbeat_ns = MS,
		.election_ns = 10 * MS,
		.log_bytes = LOG_BYTES,
		.window = 64,
		.message_bytes = 1024 };

	node->world = world;
	node->number = number;
	node->incarnation = incarnation;
	node->applied = 0;
	node->paxos = paxos_new(&setup, world->disk ? &disk_ops : &memory_ops,
	    node, kv_store_new(config));
	cr_assert(node->paxos);
}

static void stop(struct world *world, unsigned number)
{
	paxos_free(world->nodes[number].paxos);
	world->nodes[number].paxos = NULL;
}

static struct world *open_world(unsigned n, unsigned members, bool disk)
{
	struct world *world = calloc(1, sizeof(*world));
	struct kv_config config = { 0 };
	unsigned i;

	world->n = n;
	world->disk = disk;
	world->last = &world->first;
	for (i = 0; i < members; i++)
		config.members[i].incarnation = 100 + i;
	for (i = 0; i < members; i++)
		start(world, i, &config, 100 + i);
	return world;
}

static void close_world(struct world *world)
{
	unsigned i;

	while (world->first) {
		struct packet *packet = world->first;

		world->first = packet->next;
		free(packet->message);
		free(packet);
	}
	for (i = 0; i < world->n; i++) {
		paxos_free(world->nodes[i].paxos);
		free(world->nodes[i].snapshot);
	}
	free(world->begun);
	free(world);
}

static void deliver(struct world *world)
{
	while (world->first && world->first->at <= world->now) {
		struct packet *packet = world->first;
		struct paxos *to = world->nodes[packet->to].paxos;

		world->first = packet->next;
		if (!world->first)
			world->last = &world->first;
		if (to && !world->deaf[packet->message->from][packet->to])
			paxos_receive(to, world->now, packet->message);
		free(packet->message);
		free(packet);
	}
}

static void run(struct world *world, uint64_t ms)
{
	uint64_t end = world->now + ms * MS;
	unsigned i;

	for (; world->now < end; world->now += DELAY) {
		deliver(world);
		for (i = 0; i < world->n; i++) {
			struct node *node = &world->nodes[i];

			if (!node->paxos)
				continue;
			if (node->saved)
				paxos_snapshot(node->paxos, world->now,
				    node->snapshot_slot, 0);
			node->saved = false;
			if (world->disk)
				paxos_synced(
				    node->paxos, world->now, node->appended);
			paxos_tick(node->paxos, world->now);
			paxos_flush(node->paxos, world->now);
		}
	}
}

/* The one leader that serves, or NULL. */
static struct node *leader(struct world *world)
{
	struct node *found = NULL;
	unsigned i;

	for (i = 0; i < world->n; i++) {
		struct node *node = &world->nodes[i];

		if (!node->paxos || paxos_role(node->paxos) != PAXOS_LEADER)
			continue;
		if (!found ||
		    paxos_ballot(node->paxos) > paxos_ballot(found->paxos))
			found = node;
	}
	return found;
}

static struct node *elect(struct world *world)
{
	int i;

	for (i = 0; i < 200 && !leader(world); i++)
		run(world, 1);
	cr_assert(leader(world), "no leader within 200 ms");
	run(world, 5);
	return leader(world);
}

/* A node learns of a ballot of that round from a late message. */
static void see_ballot(struct world *world, unsigned number, uint64_t round)
{
	struct kv_message m = { .cluster = 7,
		.incarnation = 50,
		.size = sizeof(m),
		.type = KV_JOIN,
		.ballot = kv_ballot_of(round, number),
		.from = (uint8_t)((number + 1) % world->n) };

	paxos_receive(world->nodes[number].paxos, world->now, &m);
}

/* A put, or what opens the session for it; of one that is taken again. */
static bool propose(
    struct world *world, struct node *node, enum kv_op op, uint8_t *refused)
{
	union command_room room;
	struct kv_command *command = make_command(&room, op,
	    op == KV_PUT ? "key" : NULL, op == KV_PUT ? "value" : NULL, NULL);

	command->session = op == KV_PUT ? world->session : 0;
	command->number = world->number + 1;
	command->argument = op == KV_REGISTER;
	if (!paxos_propose(node->paxos, world->now, (const char *)command,
		kv_command_size(command), refused))
		return false;
	world->number += op == KV_PUT;
	return true;
}

/* Propose n puts at the leader, and let them be chosen. */
static void put(struct world *world, unsigned n)
{
	unsigned tries;
	uint8_t refused;

	if (!world->session) {
		cr_assert(propose(world, elect(world), KV_REGISTER, &refused));
		run(world, 5);
		cr_assert_neq(world->session, 0);
	}
	for (tries = 0; n; tries++) {
		struct node *node = elect(world);

		cr_assert_lt(tries, 10000);
		while (n && propose(world, node, KV_PUT, &refused))
			n--;
		paxos_flush(node->paxos, world->now);
		run(world, 1);
	}
	run(world, 20);
}

static void expect_equal(struct world *world, uint64_t least)
{
	struct node *first = leader(world);
	unsigned i;

	cr_assert(first);
	cr_assert_geq(paxos_commit(first->paxos), least);
	for (i = 0; i < world->n; i++) {
		struct node *node = &world->nodes[i];

		if (!node->paxos)
			continue;
		cr_assert_eq(paxos_commit(node->paxos),
		    paxos_commit(first->paxos), "node %u: %lu, not %lu", i,
		    (unsigned long)paxos_commit(node->paxos),
		    (unsigned long)paxos_commit(first->paxos));
		cr_assert_eq(kv_store_digest(paxos_store(node->paxos)),
		    kv_store_digest(paxos_store(first->paxos)));
	}
}

static void read_done(void *arg, uint64_t tag, uint8_t status)
{
	struct node *node = arg;

	node->replies += tag;
	node->read_status = status;
}

Test(paxos, replicas_apply_what_the_leader_proposes)
{
	struct world *world = open_world(3, 3, false);

	put(world, 100);
	expect_equal(world, 100);
	close_world(world);
}

Test(paxos, one_replica_is_its_own_majority)
{
	struct world *world = open_world(1, 1, false);

	put(world, 100);
	expect_equal(world, 100);
	close_world(world);
}

Test(paxos, commands_that_wait_share_messages)
{
	struct world *world = open_world(3, 3, false);
	uint64_t before;

	elect(world);
	before = world->sent[KV_ACCEPT];
	put(world, 60);
	cr_assert_leq(world->sent[KV_ACCEPT] - before, 2 * 10);
	close_world(world);
}

Test(paxos, a_new_leader_keeps_what_was_chosen)
{
	struct world *world = open_world(5, 5, false);
	unsigned i;

	for (i = 0; i < 2; i++) {
		put(world, 50);
		stop(world, leader(world)->number);
	}
	put(world, 50);
	expect_equal(world, 150);
	close_world(world);
}

Test(paxos, a_leader_known_to_be_lost_is_replaced_before_the_time_out)
{
	struct world *world = open_world(3, 3, false);
	unsigned i, lost;

	put(world, 10);
	lost = leader(world)->number;
	stop(world, lost);
	for (i = 0; i < 3; i++)
		if (i != lost)
			paxos_lost(world->nodes[i].paxos, world->now, lost);
	run(world, 5); /* of the 10 without it */
	cr_assert(leader(world));
	put(world, 10);
	expect_equal(world, 21);
	close_world(world);
}

Test(paxos, a_replica_that_was_cut_off_gets_the_entries_later)
{
	struct world *world = open_world(3, 3, false);
	unsigned i, away = (elect(world)->number + 1) % 3;
	kv_ballot ballot;

	for (i = 0; i < 3; i++)
		world->deaf[i][away] = world->deaf[away][i] = true;
	put(world, 100);
	ballot = paxos_ballot(leader(world)->paxos);
	memset(world->deaf, 0, sizeof(world->deaf));
	run(world, 50);
	expect_equal(world, 100);
	/* It has disturbed nobody. */
	cr_assert_eq(paxos_ballot(leader(world)->paxos), ballot);
	close_world(world);
}

/* An isolated replica has a higher ballot than the leader. */
Test(paxos, a_returning_replica_with_a_higher_ballot_disturbs_no_leader)
{
	struct world *world = open_world(3, 3, false);
	unsigned i, away = (elect(world)->number + 1) % 3;
	struct paxos_stats before, after;
	struct node *led;
	kv_ballot ballot;

	put(world, 10);
	for (i = 0; i < 3; i++)
		world->deaf[i][away] = world->deaf[away][i] = true;
	run(world, 1);
	led = leader(world);
	ballot = paxos_ballot(led->paxos);
	see_ballot(world, away, kv_ballot_round(ballot) + 10);
	memset(world->sent, 0, sizeof(world->sent));
	run(world, 100);
	cr_assert_gt(world->sent[KV_PREVOTE], 0, "it has not stood");
	cr_assert_eq(world->sent[KV_PREPARE], 0, "it has taken a ballot");
	/* It stands for election at the moment when it is heard again. */
	paxos_query(led->paxos, &before);
	world->deaf[away][led->number] = false;
	world->deaf[away][3 - away - led->number] = false;
	run(world, 100);
	memset(world->deaf, 0, sizeof(world->deaf));
	put(world, 10);
	paxos_query(led->paxos, &after);
	cr_assert_eq(world->sent[KV_PREPARE], 0);
	cr_assert_eq(leader(world), led);
	cr_assert_eq(paxos_ballot(led->paxos), ballot);
	cr_assert_eq(after.elections, before.elections);
	expect_equal(world, 21);
	close_world(world);
}

Test(paxos, a_replica_that_takes_nothing_is_left_out)
{
	struct world *world = open_world(3, 3, false);
	unsigned away = (elect(world)->number + 1) % 3;

	world->full[away] = true;
	put(world, 1000);
	cr_assert_geq(paxos_commit(leader(world)->paxos), 1000);
	world->full[away] = false;
	run(world, 100);
	expect_equal(world, 1000);
	close_world(world);
}

Test(paxos, what_has_left_the_log_comes_as_a_snapshot)
{
	struct world *world = open_world(3, 3, false);
	unsigned i, away = (elect(world)->number + 1) % 3;
	struct paxos_stats stats;

	for (i = 0; i < 3; i++)
		world->deaf[i][away] = world->deaf[away][i] = true;
	put(world, 5000);
	memset(world->deaf, 0, sizeof(world->deaf));
	run(world, 200);
	expect_equal(world, 5000);
	paxos_query(world->nodes[away].paxos, &stats);
	cr_assert_geq(stats.snapshots_loaded, 1);
	paxos_query(leader(world)->paxos, &stats);
	cr_assert_eq(stats.snapshots_sent, 0, "the leader had to send it");
	close_world(world);
}

Test(paxos, a_replica_that_forgot_is_replaced)
{
	static const struct kv_config none;
	struct world *world = open_world(3, 3, false);
	unsigned away = (elect(world)->number + 1) % 3;

	put(world, 100);
	stop(world, away);
	start(world, away, &none, 200);
	run(world, 200);
	put(world, 100);
	expect_equal(world, 200);
	cr_assert_eq(paxos_role(world->nodes[away].paxos), PAXOS_FOLLOWER);
	cr_assert_eq(kv_store_config(paxos_store(leader(world)->paxos))
			 ->members[away]
			 .incarnation,
	    200);
	close_world(world);
}

Test(paxos, a_late_request_to_join_removes_nobody)
{
	struct world *world = open_world(3, 3, false);
	unsigned i, away = (elect(world)->number + 1) % 3;
	struct kv_message join = { .cluster = 7,
		.incarnation = 50,
		.size = sizeof(join),
		.type = KV_JOIN,
		.from = (uint8_t)away };

	put(world, 10);
	for (i = 0; i < 3; i++)
		world->deaf[i][away] = world->deaf[away][i] = true;
	run(world, 15); /* It is cut off for longer than a time-out. */
	paxos_receive(leader(world)->paxos, world->now, &join);
	run(world, 15);
	memset(world->deaf, 0, sizeof(world->deaf));
	run(world, 50);
	put(world, 10);
	expect_equal(world, 21);
	cr_assert_eq(paxos_role(world->nodes[away].paxos), PAXOS_FOLLOWER);
	close_world(world);
}

Test(paxos, a_majority_that_forgot_ends_the_service)
{
	static const struct kv_config none;
	struct world *world = open_world(3, 3, false);
	unsigned i;
	uint8_t refused;

	put(world, 100);
	for (i = 1; i < 3; i++) {
		stop(world, i);
		start(world, i, &none, 200 + i);
	}
	run(world, 300);
	cr_assert_null(leader(world));
	for (i = 0; i < 3; i++) {
		cr_assert_not(
		    propose(world, &world->nodes[i], KV_PUT, &refused));
		cr_assert_eq(refused, KV_NO_QUORUM, "%u says %u", i, refused);
	}
	close_world(world);
}

Test(paxos, a_new_replica_takes_a_place_that_is_made_for_it)
{
	static const struct kv_config none;
	struct world *world = open_world(4, 3, false);
	struct kv_config config;

	put(world, 10);
	start(world, 3, &none, 300);
	run(world, 100);
	cr_assert_eq(paxos_role(world->nodes[3].paxos), PAXOS_JOINING);
	config = *kv_store_config(paxos_store(leader(world)->paxos));
	config.members[3].incarnation = KV_VACANT;
	cr_assert_eq(
	    paxos_reconfigure(leader(world)->paxos, world->now, &config),
	    KV_OK);
	run(world, 100);
	cr_assert_eq(paxos_role(world->nodes[3].paxos), PAXOS_FOLLOWER);
	put(world, 10);
	expect_equal(world, 22);
	close_world(world);
}

Test(paxos, a_leader_that_is_removed_makes_way)
{
	struct world *world = open_world(3, 3, false);
	struct node *old = elect(world);
	struct kv_config config;

	put(world, 10);
	config = *kv_store_config(paxos_store(old->paxos));
	config.members[old->number].incarnation = 0;
	cr_assert_eq(paxos_reconfigure(old->paxos, world->now, &config), KV_OK);
	run(world, 100);
	cr_assert_eq(paxos_role(old->paxos), PAXOS_JOINING);
	put(world, 10);
	cr_assert_neq(leader(world), old);
	close_world(world);
}

Test(paxos, reads_are_confirmed_by_a_majority)
{
	struct world *world = open_world(3, 3, false);
	struct node *node = elect(world);
	unsigned i;

	put(world, 10);
	for (i = 0; i < 10; i++)
		cr_assert_eq(
		    paxos_read(node->paxos, world->now, read_done, 1), KV_OK);
	run(world, 1);
	cr_assert_eq(node->replies, 10);
	cr_assert_eq(node->read_status, KV_OK);
	memset(world->deaf, 1, sizeof(world->deaf));
	cr_assert_eq(paxos_read(node->paxos, world->now, read_done, 1), KV_OK);
	run(world, 100);
	cr_assert_eq(node->replies, 11);
	cr_assert_eq(node->read_status, KV_NOT_LEADER);
	close_world(world);
}

Test(paxos, nothing_is_answered_before_the_disk_has_it)
{
	struct world *world = open_world(3, 3, true);
	struct node *node;
	uint64_t commit;
	uint8_t refused;

	put(world, 100);
	expect_equal(world, 100);
	world->disk = false; /* It no longer says that anything is safe. */
	node = leader(world);
	commit = paxos_commit(node->paxos);
	cr_assert(propose(world, node, KV_PUT, &refused));
	run(world, 5);
	cr_assert_eq(paxos_commit(node->paxos), commit);
	world->disk = true;
	run(world, 5);
	cr_assert_eq(paxos_commit(node->paxos), commit + 1);
	close_world(world);
}

/* It asks to join, and votes for all up to a slot in the leader's ballot. */
static void vote(struct world *world, struct node *led, unsigned from,
    uint64_t incarnation, uint64_t slot)
{
	struct kv_message m = { .cluster = 7,
		.incarnation = incarnation,
		.size = sizeof(m),
		.ballot = paxos_ballot(led->paxos),
		.session = led->incarnation,
		.slot = slot,
		.number = slot,
		.type = KV_JOIN,
		.from = (uint8_t)from };

	paxos_receive(led->paxos, world->now, &m);
	m.type = KV_ACCEPTED;
	paxos_receive(led->paxos, world->now, &m);
}

Test(paxos, a_vote_counts_for_the_incarnation_that_is_a_member)
{
	static const struct kv_config none;
	struct world *world = open_world(3, 3, false);
	unsigned forgot = (elect(world)->number + 1) % 3;
	struct node *led;
	uint64_t slot;
	uint8_t refused;

	put(world, 10);
	stop(world, forgot);
	start(world, forgot, &none, 200);
	run(world, 200);
	cr_assert_eq(paxos_role(world->nodes[forgot].paxos), PAXOS_FOLLOWER);
	led = elect(world);
	cr_assert_neq(led->number, forgot);
	slot = paxos_commit(led->paxos) + 1;
	cr_assert(propose(world, led, KV_PUT, &refused));
	paxos_flush(led->paxos, world->now);

	/*
	 * From before it forgot; and from a successor, which is no member yet.
	 */
	vote(world, led, forgot, 100 + forgot, slot);
	cr_assert_lt(paxos_commit(led->paxos), slot, "a late vote counts");
	vote(world, led, forgot, 300, slot);
	cr_assert_lt(
	    paxos_commit(led->paxos), slot, "a newcomer's vote counts");
	vote(world, led, forgot, 200, slot);
	cr_assert_eq(paxos_commit(led->paxos), slot);
	close_world(world);
}

/* Puts that go round the log, reads, and an election. */
Test(paxos, allocates_only_where_the_store_grows)
{
	struct world *world = open_world(3, 3, false);
	unsigned long before;
	struct node *node;
	uint8_t refused;

	put(world, 1);
	before = allocations;
	put(world, LOG_BYTES / sizeof(struct kv_entry));
	node = leader(world);
	cr_assert_eq(paxos_read(node->paxos, world->now, read_done, 1), KV_OK);
	run(world, 5);
	cr_assert_eq(node->replies, 1);
	stop(world, node->number);
	put(world, 10);
	cr_assert_eq(allocations, before);

	cr_assert(propose(world, leader(world), KV_REGISTER, &refused));
	run(world, 5);
	cr_assert_gt(allocations, before, "a session needs memory");
	close_world(world);
}
