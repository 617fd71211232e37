/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path, rule by rule, on a network in virtual time: messages arrive in
 * order after 10 us, segments of the ordered flow at once, unless a replica
 * must miss them. The simulator tests random events.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocations.h"
#include "commands.h"
#include "examples/consensus/nopaxos.h"
#include "examples/consensus/nopaxos_quorum.h"

#define N 3
#define DELAY 10000
#define MS 1000000
#define REQUESTS 4096
#define RECORDS 1024

struct packet {
	struct packet *next;
	uint64_t at;
	unsigned to;
	struct kv_message *message;
};

/* The content of a disk: a record, and a copy of its entry. */
struct kept {
	struct kv_record record;
	struct {
		struct kv_entry entry;
		char rest[sizeof(union command_room)];
	} copy;
};

struct node {
	struct world *world;
	unsigned number;
	struct paxos *paxos;
	struct nopaxos *np;
	uint64_t flow;     /* open here */
	uint64_t taken;    /* segments of it */
	unsigned misses;   /* how many of the next ones are lost */
	struct kept *disk; /* or NULL */
	uint64_t appended;
};

/* A request in the lane of the only client, by its number. */
struct request {
	struct kv_message *result; /* until votes confirm it, or NULL */
	bool done;
	unsigned results, votes;
	uint8_t status;
	uint64_t slot;
};

struct world {
	uint64_t now, flow, segments;
	union command_room *flown;
	bool still; /* the flow: takes segments, and delivers none */
	bool deaf[N][N];
	uint64_t session, number;
	struct kv_votes votes; /* of the client */
	struct request requests[REQUESTS];
	struct packet *first, **last;
	struct kv_message *begun;
	unsigned begun_to;
	struct node nodes[N];
};

static struct kv_message *begin(
    void *arg, bool client, unsigned to, size_t size)
{
	struct world *world = ((struct node *)arg)->world;

	cr_assert(!client && size <= KV_MAX_MESSAGE);
	free(world->begun);
	world->begun = uncounted(size);
	world->begun_to = to;
	return world->begun;
}

static void send(void *arg, struct kv_message *message)
{
	struct world *world = ((struct node *)arg)->world;
	struct packet *packet = uncounted(sizeof(*packet));

	cr_assert(kv_message_valid(message, message->size));
	world->begun = NULL;
	packet->at = world->now + DELAY;
	packet->to = world->begun_to;
	packet->message = message;
	*world->last = packet;
	world->last = &packet->next;
}

/* Hints of the commit slot need not be on the disk: it has none. */
static uint64_t append(void *arg, const struct kv_record *record)
{
	struct node *node = arg;
	struct kept *kept = &node->disk[node->appended];

	if (record->type == KV_RECORD_COMMIT)
		return node->appended;
	cr_assert_lt(node->appended, RECORDS);
	kept->record = *record;
	if (record->type == KV_RECORD_ENTRY) {
		memcpy(
		    &kept->copy, record->entry, kv_entry_size(record->entry));
		kept->record.entry = &kept->copy.entry;
	}
	return ++node->appended;
}

static void applied(void *arg, uint64_t slot, const struct kv_command *command,
    const struct kv_result *result)
{
	struct node *node = arg;

	if (command->op == KV_REGISTER)
		node->world->session = result->session;
	if (!node->np || nopaxos_applied(node->np, slot, result))
		return;
	/* Answer commands that were not executed ahead. */
	if (kv_command_keyed(command) &&
	    paxos_role(node->paxos) == PAXOS_LEADER)
		node->world->requests[command->number].done = true;
}

static void changed(void *arg)
{
	(void)arg;
}

static const struct paxos_ops ops = {
	.begin = begin, .send = send, .applied = applied, .changed = changed
};
static const struct paxos_ops disk_ops = { .begin = begin,
	.send = send,
	.append = append,
	.applied = applied,
	.changed = changed };

static void settle_request(struct world *world, struct request *request)
{
	if (request->done || !request->result ||
	    !kv_votes_confirm(&world->votes, request->result))
		return;
	request->done = true;
	request->status = request->result->status;
	request->slot = request->result->slot;
}

/* To the client, which has it at once. */
static void reply(void *arg, uint64_t slot, kv_ballot ballot, unsigned members,
    const struct kv_command *command, const struct kv_result *result)
{
	struct node *node = arg;
	struct request *request = &node->world->requests[command->number];
	struct kv_message message = { .ballot = ballot,
		.incarnation = 100 + node->number,
		.slot = slot,
		.from = (uint8_t)node->number,
		.type = KV_REPLY,
		.count = (uint16_t)members,
		.status = result->status };

	request->results++;
	if (!request->result)
		request->result = uncounted(sizeof(message));
	if (!request->result->type ||
	    kv_votes_prefer(&message, request->result))
		*request->result = message;
	settle_request(node->world, request);
}

static void vote(void *arg, uint64_t slot, kv_ballot ballot, uint64_t leader,
    const struct kv_command *slot_command)
{
	const struct kv_command *command = kv_slot_first(slot_command);
	struct node *node = arg;
	struct world *world = node->world;
	const struct kv_message message = { .ballot = ballot,
		.slot = slot,
		.session = leader,
		.from = (uint8_t)node->number,
		.type = KV_VOTE };
	uint64_t i;

	for (; command; command = kv_slot_next(slot_command, command))
		world->requests[command->number].votes++;
	kv_votes_take(&world->votes, &message);
	for (i = 1; i <= world->number; i++)
		settle_request(world, &world->requests[i]);
}

static void publish(struct world *world, const struct kv_command *command)
{
	if (!world->flow)
		return;
	cr_assert_lt(world->segments, 2 * REQUESTS);
	memcpy(&world->flown[world->segments++], command,
	    kv_command_size(command));
}

static void push(void *arg, const struct kv_command *command)
{
	publish(((struct node *)arg)->world, command);
}

static const struct nopaxos_ops fast_ops = { reply, vote, push };

static void start(struct node *node, unsigned bugs)
{
	struct kv_config config = { .members = { { 100 }, { 101 }, { 102 } } };
	struct nopaxos_setup setup = { .probe_ns = MS,
		.quiet_ns = 5 * MS,
		.reopen_ns = 10 * MS,
		.window = 256,
		.bugs = bugs };
	struct paxos_setup core = { .cluster = 7,
		.incarnation = 100 + node->number,
		.self = node->number,
		.n_replicas = N,
		.seed = node->number,
		.heartbeat_ns = MS,
		.election_ns = 10 * MS,
		.log_bytes = 1 << 20,
		.window = 256 };

	node->paxos = paxos_new(
	    &core, node->disk ? &disk_ops : &ops, node, kv_store_new(&config));
	node->np = nopaxos_new(&setup, &fast_ops, node, node->paxos);
	cr_assert(node->np);
}

static struct world *make_world(unsigned bugs, bool disk)
{
	struct world *world = calloc(1, sizeof(*world));
	unsigned i;

	world->flown = calloc(2 * REQUESTS, sizeof(*world->flown));
	world->last = &world->first;
	for (i = 0; i < N; i++) {
		struct node *node = &world->nodes[i];

		node->world = world;
		node->number = i;
		if (disk)
			node->disk = calloc(RECORDS, sizeof(*node->disk));
		start(node, bugs);
	}
	return world;
}

static struct world *open_world(unsigned bugs)
{
	return make_world(bugs, false);
}

static void stop(struct node *node)
{
	nopaxos_free(node->np);
	paxos_free(node->paxos);
	node->np = NULL;
	node->paxos = NULL;
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
	for (i = 0; i < N; i++) {
		stop(&world->nodes[i]);
		free(world->nodes[i].disk);
	}
	for (i = 0; i < REQUESTS; i++)
		free(world->requests[i].result);
	free(world->begun);
	free(world->flown);
	free(world);
}

/* A crash, and a start from the disk: the flow is not open there. */
static void restart(struct node *node)
{
	uint64_t i;

	stop(node);
	start(node, 0);
	node->flow = 0;
	for (i = 0; i < node->appended; i++)
		cr_assert_eq(
		    paxos_restore(node->paxos, &node->disk[i].record), 0);
}

/* Open a new flow to all running replicas. */
static void open_flow(struct world *world)
{
	unsigned i;

	world->flow++;
	world->segments = 0;
	world->still = false;
	for (i = 0; i < N; i++) {
		struct node *node = &world->nodes[i];

		node->flow = world->flow;
		node->taken = 0;
		if (node->np)
			nopaxos_flow(node->np, node->flow, 0);
	}
}

static void deliver_segments(struct world *world, struct node *node)
{
	while (node->taken < world->segments && !world->still) {
		uint64_t n = node->taken++;
		const struct kv_command *command = &world->flown[n].command;

		if (node->misses) {
			node->misses--;
			nopaxos_gap(node->np, world->now, node->flow, n, 1);
		} else {
			nopaxos_deliver(node->np, world->now, node->flow, n,
			    command, kv_command_size(command));
		}
	}
}

static void deliver(struct world *world)
{
	while (world->first && world->first->at <= world->now) {
		struct packet *packet = world->first;
		struct nopaxos *to = world->nodes[packet->to].np;

		world->first = packet->next;
		if (!world->first)
			world->last = &world->first;
		if (to && !world->deaf[packet->message->from][packet->to])
			nopaxos_receive(to, world->now, packet->message);
		free(packet->message);
		free(packet);
	}
}

static void step(struct world *world)
{
	unsigned i;

	deliver(world);
	for (i = 0; i < N; i++) {
		struct node *node = &world->nodes[i];

		if (!node->np)
			continue;
		deliver_segments(world, node);
		if (node->disk)
			nopaxos_synced(node->np, world->now, node->appended);
		nopaxos_tick(node->np, world->now);
		nopaxos_flush(node->np, world->now);
	}
	world->now += DELAY;
}

static void run(struct world *world, uint64_t ms)
{
	uint64_t end = world->now + ms * MS;

	while (world->now < end)
		step(world);
}

static struct node *leader(struct world *world)
{
	struct node *found = NULL;
	unsigned i;

	for (i = 0; i < N; i++) {
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
	return leader(world);
}

static struct node *follower(struct world *world)
{
	return &world->nodes[(leader(world)->number + 1) % N];
}

static struct nopaxos_stats stats_of(const struct node *node)
{
	struct nopaxos_stats stats;

	nopaxos_query(node->np, &stats);
	return stats;
}

static void open_session(struct world *world)
{
	union command_room room;
	struct kv_command *command = make_command(
	    &room, KV_REGISTER, NULL, NULL, NULL);
	struct node *node = elect(world);
	uint8_t refused;

	command->number = 77;
	command->argument = 1;
	cr_assert(paxos_propose(node->paxos, world->now, (const char *)command,
	    kv_command_size(command), &refused));
	run(world, 5);
	cr_assert_neq(world->session, 0);
}

/* A fast path, on a new flow; and before it, a session. */
static void open_path(struct world *world)
{
	int i;

	if (!world->session)
		open_session(world);
	open_flow(world);
	for (i = 0; i < 100 && !nopaxos_is_open(leader(world)->np); i++)
		run(world, 1);
	cr_assert(nopaxos_is_open(leader(world)->np));
	run(world, 5);
}

static uint64_t request(struct world *world, enum kv_op op, const char *key,
    const char *value, const char *expected)
{
	union command_room room;
	struct kv_command *command = make_command(
	    &room, op, key, value, expected);

	command->session = world->session;
	command->number = ++world->number;
	cr_assert_lt(world->number, REQUESTS);
	publish(world, command);
	return world->number;
}

static void again(struct world *world, uint64_t number)
{
	union command_room room;
	struct kv_command *command = make_command(
	    &room, KV_PUT, "key", "value", NULL);

	command->session = world->session;
	command->number = number;
	publish(world, command);
}

static void expect_equal(struct world *world)
{
	uint64_t digest = kv_store_digest(paxos_store(leader(world)->paxos));
	unsigned i;

	for (i = 0; i < N; i++)
		if (world->nodes[i].paxos) {
			cr_assert_eq(
			    kv_store_digest(paxos_store(world->nodes[i].paxos)),
			    digest);
			cr_assert_eq(stats_of(&world->nodes[i]).wrong, 0);
		}
}

/* Without probes in between, so that all have applied the same. */
static void settle(struct world *world)
{
	world->still = true;
	run(world, 4);
	world->still = false;
	expect_equal(world);
}

Test(nopaxos, a_request_is_answered_before_it_is_chosen)
{
	struct world *world = open_world(0);
	uint64_t commit, number;

	open_path(world);
	commit = paxos_commit(leader(world)->paxos);
	number = request(world, KV_PUT, "key", "value", NULL);
	step(world);
	cr_assert(world->requests[number].done);
	cr_assert_eq(world->requests[number].votes, N - 1);
	cr_assert_gt(world->requests[number].slot, commit);
	cr_assert_eq(paxos_commit(leader(world)->paxos), commit);
	run(world, 3);
	cr_assert_geq(
	    paxos_commit(follower(world)->paxos), world->requests[number].slot);
	settle(world);
	close_world(world);
}

Test(nopaxos, results_are_those_of_the_store)
{
	struct world *world = open_world(0);
	static const char *const texts[] = { "a", "b", "c" };
	static const enum kv_op some[] = { KV_GET, KV_PUT, KV_DELETE, KV_CAS };
	unsigned i;

	open_path(world);
	srand(1);
	for (i = 0; i < 3000; i++) {
		enum kv_op op = some[rand() % 4];
		bool writes = op == KV_PUT || op == KV_CAS;

		if (rand() % 10 == 0 && world->number > 2)
			world->number -= (uint64_t)(rand() % 2) + 1;
		request(world, op, texts[rand() % 3],
		    writes ? texts[rand() % 3] : NULL,
		    op == KV_CAS ? texts[rand() % 3] : NULL);
		if (rand() % 8 == 0)
			step(world);
		if (rand() % 300 == 0)
			run(world, 2);
	}
	settle(world);
	cr_assert_gt(stats_of(leader(world)).executed, 2000);
	close_world(world);
}

/* A segment with n puts of a new value to the same key; returns the first. */
static uint64_t request_batch(struct world *world, unsigned n)
{
	union command_room slot, room;
	uint64_t first = world->number + 1;
	struct kv_batch batch;
	char value[16];

	kv_batch_begin(&batch, &slot, sizeof(slot));
	for (; n; n--) {
		struct kv_command *command;

		snprintf(value, sizeof(value), "%u", (unsigned)++world->number);
		command = make_command(&room, KV_PUT, "key", value, NULL);
		command->session = world->session;
		command->number = world->number;
		cr_assert(kv_batch_add(&batch, command));
	}
	cr_assert_lt(world->number, REQUESTS);
	publish(world, batch.slot);
	return first;
}

Test(nopaxos, a_slot_of_several_commands_answers_each)
{
	struct world *world = open_world(0);
	uint64_t first, next, i;

	open_path(world);
	first = request_batch(world, 20);
	next = request(world, KV_CAS, "key", "value", "20");
	step(world);
	for (i = first; i <= next; i++)
		cr_assert(world->requests[i].done);
	for (i = first; i < next; i++)
		cr_assert_eq(
		    world->requests[i].slot, world->requests[first].slot);
	cr_assert_eq(
	    world->requests[next].slot, world->requests[first].slot + 1);
	cr_assert_eq(world->requests[next].status, KV_OK);
	settle(world);
	close_world(world);
}

Test(nopaxos, a_slot_of_several_commands_becomes_one_no_op)
{
	struct world *world = open_world(0);
	uint64_t first, next, i;

	open_path(world);
	leader(world)->misses = 1;
	first = request_batch(world, 20);
	next = request(world, KV_CAS, "key", "value", "20");
	run(world, 3);
	for (i = first; i < next; i++)
		cr_assert(!world->requests[i].done);
	cr_assert(world->requests[next].done);
	cr_assert_eq(world->requests[next].status, KV_NOT_FOUND);
	cr_assert_eq(stats_of(leader(world)).gaps_decided, 1);
	settle(world);
	close_world(world);
}

Test(nopaxos, a_new_leader_proposes_a_slot_of_several_commands_again)
{
	struct world *world = open_world(0);
	struct kv_result result;
	uint64_t slot;

	open_path(world);
	slot = request_batch(world, 20);
	step(world);
	cr_assert(world->requests[slot].done);
	slot = world->requests[slot].slot;
	cr_assert_lt(paxos_commit(leader(world)->paxos), slot);
	stop(leader(world));
	elect(world);
	run(world, 30);
	cr_assert_geq(paxos_commit(leader(world)->paxos), slot);
	kv_store_read(paxos_store(leader(world)->paxos), "key", 3, &result);
	cr_assert_eq(result.value_size, 2);
	cr_assert_eq(memcmp(result.value, "20", 2), 0);
	settle(world);
	close_world(world);
}

/* More commands than the leader can have ahead of its store. */
Test(nopaxos, a_leader_far_ahead_waits_for_its_store)
{
	struct world *world = open_world(0);
	uint64_t first, i;

	open_path(world);
	first = request_batch(world, 75);
	for (i = 1; i < 30; i++)
		request_batch(world, 75);
	step(world);
	cr_assert(world->requests[first].done);
	cr_assert(!world->requests[world->number].done);
	run(world, 5);
	for (i = first; i <= world->number; i++)
		cr_assert(world->requests[i].done);
	settle(world);
	close_world(world);
}

Test(nopaxos, what_the_leader_misses_becomes_a_no_op)
{
	struct world *world = open_world(0);
	uint64_t lost, next;

	open_path(world);
	leader(world)->misses = 1;
	lost = request(world, KV_PUT, "key", "value", NULL);
	next = request(world, KV_PUT, "key", "other", NULL);
	step(world);
	/* It waits for a majority that has the no-op. */
	cr_assert_eq(world->requests[next].results, 0);
	run(world, 1);
	cr_assert(world->requests[next].done);
	cr_assert(!world->requests[lost].done);
	cr_assert_eq(stats_of(leader(world)).gaps_decided, 1);
	cr_assert_eq(stats_of(follower(world)).gaps_over, 1);
	settle(world);
	close_world(world);
}

Test(nopaxos, nothing_is_executed_past_a_gap_that_no_majority_knows)
{
	struct world *world = open_world(0);
	uint64_t next;
	unsigned i, number;

	open_path(world);
	number = leader(world)->number;
	for (i = 0; i < N; i++)
		world->deaf[number][i] = true;
	leader(world)->misses = 1;
	request(world, KV_PUT, "key", "value", NULL);
	next = request(world, KV_PUT, "key", "other", NULL);
	run(world, 3);
	cr_assert_eq(world->requests[next].votes, N - 1);
	cr_assert_eq(world->requests[next].results, 0);
	cr_assert(!world->requests[next].done);
	memset(world->deaf, 0, sizeof(world->deaf));
	run(world, 4);
	cr_assert(world->requests[next].done);
	settle(world);
	close_world(world);
}

Test(nopaxos, a_follower_asks_for_what_it_misses)
{
	struct world *world = open_world(0);
	uint64_t lost, next;

	open_path(world);
	follower(world)->misses = 1;
	lost = request(world, KV_PUT, "key", "value", NULL);
	next = request(world, KV_PUT, "key", "other", NULL);
	step(world);
	cr_assert(world->requests[next].done);
	cr_assert_eq(world->requests[lost].votes, N - 2);
	run(world, 1);
	cr_assert_eq(world->requests[lost].votes, N - 1);
	cr_assert_eq(world->requests[next].votes, N - 1);
	cr_assert_geq(stats_of(follower(world)).gaps_asked, 1);
	cr_assert_geq(stats_of(follower(world)).gaps_filled, 1);
	settle(world);
	close_world(world);
}

Test(nopaxos, a_follower_that_misses_the_end_learns_it_from_heartbeats)
{
	struct world *world = open_world(0);
	uint64_t number;

	open_path(world);
	number = request(world, KV_PUT, "key", "value", NULL);
	follower(world)->taken++;
	step(world);
	world->still = true;
	run(world, 4);
	cr_assert_eq(world->requests[number].votes, N - 1);
	settle(world);
	close_world(world);
}

Test(nopaxos, a_follower_that_restarts_learns_decided_no_ops_again)
{
	struct world *world = make_world(0, true);
	struct node *back;
	kv_ballot ballot;

	open_path(world);
	back = follower(world);
	leader(world)->misses = 1;
	request(world, KV_PUT, "key", "value", NULL);
	run(world, 5);
	cr_assert_eq(stats_of(back).gaps_over, 1);
	ballot = paxos_ballot(leader(world)->paxos);
	restart(back);
	run(world, 20);
	/* The fast path has gone on, and it follows. */
	cr_assert(nopaxos_is_open(leader(world)->np));
	cr_assert_eq(paxos_ballot(leader(world)->paxos), ballot);
	settle(world);
	close_world(world);
}

Test(nopaxos, a_new_leader_keeps_what_clients_were_answered)
{
	struct world *world = open_world(0);
	uint64_t first, slot;
	kv_ballot ballot;
	unsigned i;

	open_path(world);
	first = request(world, KV_PUT, "key", "value", NULL);
	for (i = 0; i < 50; i++)
		request(world, KV_PUT, "key", "other", NULL);
	step(world);
	for (i = 0; i <= 50; i++)
		cr_assert(world->requests[first + i].done);
	slot = world->requests[first + 50].slot;
	ballot = paxos_ballot(leader(world)->paxos);
	cr_assert_lt(paxos_commit(leader(world)->paxos), slot);
	stop(leader(world));
	elect(world);
	run(world, 30);
	cr_assert_gt(paxos_ballot(leader(world)->paxos), ballot);
	cr_assert_geq(paxos_commit(leader(world)->paxos), slot);
	settle(world);
	/* Known to the store: it is not applied again. */
	again(world, first + 50);
	run(world, 20);
	close_world(world);
}

Test(nopaxos, a_flow_that_stands_still_is_given_up)
{
	struct world *world = open_world(0);
	uint64_t slot, number;
	union command_room room;
	struct kv_command *command = make_command(
	    &room, KV_PUT, "key", "value", NULL);
	uint8_t refused;

	open_path(world);
	world->still = true;
	run(world, 8);
	cr_assert(!nopaxos_is_open(leader(world)->np));
	cr_assert_eq(stats_of(leader(world)).ended, 1);
	slot = paxos_commit(leader(world)->paxos);
	command->session = world->session;
	command->number = ++world->number;
	cr_assert(paxos_propose(leader(world)->paxos, world->now,
	    (const char *)command, kv_command_size(command), &refused));
	run(world, 20);
	cr_assert_gt(paxos_commit(leader(world)->paxos), slot);
	/* Not again, but a new one. */
	cr_assert(!nopaxos_is_open(leader(world)->np));
	open_path(world);
	number = request(world, KV_PUT, "key", "value", NULL);
	step(world);
	cr_assert(world->requests[number].done);
	settle(world);
	close_world(world);
}

Test(nopaxos, a_late_segment_changes_nothing)
{
	struct world *world = open_world(0);
	struct node *node;
	const struct kv_command *command;
	uint64_t n;

	open_path(world);
	node = leader(world);
	n = world->segments;
	node->misses = 1;
	request(world, KV_PUT, "key", "value", NULL);
	run(world, 1);
	command = &world->flown[n].command;
	nopaxos_deliver(node->np, world->now, node->flow, n, command,
	    kv_command_size(command));
	cr_assert_eq(world->requests[world->number].results, 0);
	settle(world);
	close_world(world);
}

Test(nopaxos, what_was_pushed_before_the_fast_path_is_not_taken)
{
	struct world *world = open_world(0);
	uint64_t number;

	open_session(world);
	open_flow(world);
	number = request(world, KV_PUT, "key", "value", NULL);
	step(world);
	run(world, 20);
	cr_assert(nopaxos_is_open(leader(world)->np));
	cr_assert_eq(world->requests[number].votes, 0);
	cr_assert_eq(world->requests[number].results, 0);
	request(world, KV_PUT, "key", "value", NULL);
	step(world);
	cr_assert(world->requests[number + 1].done);
	settle(world);
	close_world(world);
}

static const struct kv_message *vote_of(
    unsigned from, uint64_t ballot, uint64_t leader, uint64_t slot)
{
	static struct kv_message message;

	message = (struct kv_message){ .type = KV_VOTE,
		.from = (uint8_t)from,
		.ballot = ballot,
		.session = leader,
		.slot = slot };
	return &message;
}

Test(nopaxos, a_result_needs_a_majority_with_its_leader)
{
	struct kv_votes votes = { .any_slot = false };
	const struct kv_message result = { .from = 1,
		.ballot = 9,
		.incarnation = 77,
		.slot = 20,
		.count = 5 };

	cr_assert_not(kv_votes_confirm(&votes, &result));
	kv_votes_take(&votes, vote_of(0, 9, 77, 20));
	/* Not yet, of another ballot, of another leader, its own. */
	kv_votes_take(&votes, vote_of(2, 9, 77, 19));
	kv_votes_take(&votes, vote_of(3, 10, 77, 20));
	kv_votes_take(&votes, vote_of(4, 9, 78, 20));
	kv_votes_take(&votes, vote_of(1, 9, 77, 20));
	cr_assert_not(kv_votes_confirm(&votes, &result));
	/* Late: of a slot before, and a ballot before. */
	kv_votes_take(&votes, vote_of(0, 9, 77, 3));
	kv_votes_take(&votes, vote_of(0, 8, 77, 30));
	/* A replica that has accepted more has accepted this. */
	kv_votes_take(&votes, vote_of(2, 9, 77, 25));
	cr_assert(kv_votes_confirm(&votes, &result));
}

Test(nopaxos, a_result_that_is_chosen_needs_no_votes)
{
	const struct kv_votes votes = { .any_slot = false };
	const struct kv_message result = { .from = 3, .ballot = 1, .slot = 1 };

	cr_assert(kv_votes_confirm(&votes, &result));
}

Test(nopaxos, a_newer_leaders_result_is_preferred)
{
	const struct kv_message kept = { .ballot = 9, .incarnation = 7 };
	struct kv_message result = kept;

	result.slot = 1;
	cr_assert_not(kv_votes_prefer(&result, &kept));
	result.ballot = 8;
	result.incarnation = 8;
	cr_assert_not(kv_votes_prefer(&result, &kept));
	result.ballot = 9;
	cr_assert(kv_votes_prefer(&result, &kept));
	result.ballot = 10;
	result.incarnation = 7;
	cr_assert(kv_votes_prefer(&result, &kept));
}

/* On the fast path, where one replica after another misses a segment. */
Test(nopaxos, allocates_nothing_for_values_of_the_same_size)
{
	struct world *world = open_world(0);
	unsigned long before;
	unsigned i;

	open_path(world);
	request(world, KV_PUT, "key", "value", NULL);
	run(world, 5);
	before = allocations;
	for (i = 0; i < 600; i++) {
		if (i % 100 == 0)
			world->nodes[i / 100 % N].misses = 1;
		request(world, KV_PUT, "key", "VALUE", NULL);
		step(world);
	}
	run(world, 5);
	cr_assert_gt(stats_of(leader(world)).gaps_decided, 0);
	cr_assert_gt(stats_of(follower(world)).gaps_filled, 0);
	cr_assert_eq(allocations, before);

	request(world, KV_PUT, "another key", "value", NULL);
	run(world, 5);
	cr_assert_gt(allocations, before, "a key needs memory");
	settle(world);
	close_world(world);
}
