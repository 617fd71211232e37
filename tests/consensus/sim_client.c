/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients. Each has a session with lanes. A lane has one request at a time, and
 * repeats it at various replicas until it is answered or given up. A request
 * that is given up has an unknown outcome in the history.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define REGISTERING SIM_LANES /* the lane of an event */

static struct sim_lane *lane_at(struct sim_client *client, unsigned lane)
{
	return lane == REGISTERING ? &client->registering
				   : &client->lanes[lane];
}

static void wake(struct sim *sim, unsigned c, unsigned lane, uint64_t at)
{
	struct sim_lane *l = lane_at(&sim->clients[c], lane);
	struct sim_event event = { .kind = SIM_LANE,
		.node = (uint16_t)(SIM_REPLICAS + c),
		.lane = (uint8_t)lane,
		.generation = ++l->generation };

	sim_add(sim, at, &event);
}

/* Nothing is known of a lane's command. */
static void drop_held(struct sim *sim, struct sim_lane *l)
{
	if (l->held)
		sim_drop(sim, l->held);
	l->held = NULL;
}

void sim_clients_drop(struct sim *sim)
{
	unsigned c, i;

	for (c = 0; c < SIM_CLIENTS; c++)
		for (i = 0; i <= SIM_LANES; i++)
			drop_held(sim, lane_at(&sim->clients[c], i));
}

static void submit(struct sim *sim, unsigned c, unsigned lane)
{
	struct sim_client *client = &sim->clients[c];
	struct sim_lane *l = lane_at(client, lane);
	size_t size = kv_command_size(&l->request.command);
	struct sim_packet *packet = sim_packet(
	    sim, sizeof(struct kv_message) + size);
	struct kv_message *m = sim_message(packet);

	if (l->tries++)
		sim->counts.retries++;
	/* For a while ask the known leader, then any replica. */
	l->to = sim_chance(sim, l->tries > 2 ? 6000 : 500)
	    ? (unsigned)sim_below(sim, sim->plan.n)
	    : client->leader;
	memset(m, 0, sizeof(*m));
	m->cluster = 7;
	m->incarnation = c;
	m->type = KV_REQUEST;
	m->from = KV_FROM_CLIENT;
	m->number = l->request.command.number;
	m->session = l->request.command.session;
	m->lane = l->request.command.lane;
	m->argument = l->reads;
	m->size = (uint32_t)(sizeof(*m) + size);
	memcpy(m->body, &l->request, size);
	if (!kv_message_valid(m, m->size))
		sim_unfit(sim, "client %u has made a bad request", c);
	sim_send(sim, SIM_REPLICAS + c, l->to, packet);
	wake(sim, c, lane, sim->now + 5 * MS + sim_below(sim, 10 * MS));
}

static void start_register(struct sim *sim, unsigned c)
{
	struct sim_client *client = &sim->clients[c];
	struct sim_lane *l = &client->registering;
	struct kv_command *command = &l->request.command;

	memset(command, 0, sizeof(*command));
	command->op = KV_REGISTER;
	command->number = client->register_number = sim_random(sim);
	command->argument = sim->plan.n_lanes;
	command->client = (uint16_t)c;
	l->pending = true;
	l->tries = 0;
	l->begun = sim->now;
	drop_held(sim, l);
	submit(sim, c, REGISTERING);
}

/* A value: its number as a text, padded to the length of the plan. */
static size_t put_value(struct sim *sim, char *to, uint64_t value, bool padded)
{
	size_t size = (size_t)sprintf(to, "%" PRIu64, value), more;

	if (!padded)
		return size;
	/* The number decides the length, so each write of it has the same. */
	more = (size_t)(value * 7919 % (sim->plan.value_bytes + 1));
	memset(to + size, '.', more);
	return size + more;
}

static uint64_t value_of(const struct kv_message *m)
{
	uint64_t value = 0;
	const char *at = m->body, *end = (const char *)m + m->size;

	if (!m->commit)
		return LIN_ABSENT;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		value = 10 * value + (uint64_t)(*at - '0');
	return value;
}

/* The expected value of cas: often the last one seen there. */
static uint64_t pick_expected(
    struct sim *sim, const struct sim_client *client, const struct lin_op *op)
{
	return sim_chance(sim, 8000) ? client->seen[op->key]
				     : sim_below(sim, sim->next_value);
}

static void make_op(
    struct sim *sim, struct sim_client *client, struct lin_op *op)
{
	static const uint8_t kinds[] = { LIN_GET, LIN_GET, LIN_GET, LIN_GET,
		LIN_PUT, LIN_PUT, LIN_PUT, LIN_CAS, LIN_CAS, LIN_DELETE };

	memset(op, 0, sizeof(*op));
	op->kind = kinds[sim_below(sim, sizeof(kinds))];
	op->key = sim_below(sim, sim->plan.n_keys);
	op->invoked = ++sim->history_time;
	if (op->kind == LIN_PUT || op->kind == LIN_CAS)
		op->value = ++sim->next_value;
	if (op->kind == LIN_CAS)
		op->expected = pick_expected(sim, client, op);
}

static void make_command(struct sim *sim, unsigned c, struct sim_lane *l)
{
	static const uint8_t ops[] = { KV_GET, KV_PUT, KV_DELETE, KV_CAS };
	struct kv_command *command = &l->request.command;
	char *to = (char *)(command + 1);
	const struct lin_op *op = &l->op;
	uint16_t lane = (uint16_t)(l - sim->clients[c].lanes);

	memset(command, 0, sizeof(*command));
	command->session = sim->clients[c].session;
	command->number = ++l->number;
	command->lane = lane;
	command->op = ops[op->kind];
	command->client = (uint16_t)c;
	command->key_size = (uint16_t)sprintf(to, "key-%" PRIu64, op->key);
	to += command->key_size;
	if (op->value)
		command->value_size = (uint16_t)put_value(
		    sim, to, op->value, true);
	to += command->value_size;
	if (op->kind == LIN_CAS && !op->expected)
		command->flags = KV_ABSENT;
	else if (op->kind == LIN_CAS)
		command->expected_size = (uint16_t)put_value(
		    sim, to, op->expected, true);
	to += command->expected_size;
	memset(to, 0, 8);
}

static void start_request(struct sim *sim, unsigned c, unsigned lane)
{
	struct sim_client *client = &sim->clients[c];
	struct sim_lane *l = &client->lanes[lane];

	if (sim->ending) {
		if (!l->left)
			return;
		l->left--;
	}
	make_op(sim, client, &l->op);
	make_command(sim, c, l);
	l->reads = l->op.kind == LIN_GET &&
	    sim_below(sim, 100) < sim->plan.read_share;
	l->pending = true;
	l->tries = 0;
	drop_held(sim, l);
	l->most_tries = 2 + (unsigned)sim_below(sim, 12);
	l->begun = sim->now;
	sim->counts.requests++;
	submit(sim, c, lane);
}

static void record(struct sim *sim, struct sim_lane *l, enum lin_result result)
{
	l->op.result = (uint8_t)result;
	l->op.returned = result == LIN_UNKNOWN ? UINT64_MAX
					       : ++sim->history_time;
	sim->counts.unknown += result == LIN_UNKNOWN;
	if (lin_add(&sim->history, &l->op))
		abort();
	l->pending = false;
}

static void pause_lane(struct sim *sim, unsigned c, unsigned lane)
{
	wake(sim, c, lane, sim->now + sim_below(sim, 2 * MS));
}

static void give_up(struct sim *sim, unsigned c, unsigned lane)
{
	trace(sim, "client %u lane %u gives up number %" PRIu64, c, lane,
	    sim->clients[c].lanes[lane].number);
	record(sim, &sim->clients[c].lanes[lane], LIN_UNKNOWN);
	pause_lane(sim, c, lane);
}

/* The session has ended: its commands may have been done or not. */
static void lose_session(struct sim *sim, unsigned c)
{
	struct sim_client *client = &sim->clients[c];
	unsigned i;

	sim->counts.expired++;
	client->session = 0;
	for (i = 0; i < sim->plan.n_lanes; i++) {
		if (client->lanes[i].pending)
			record(sim, &client->lanes[i], LIN_UNKNOWN);
		client->lanes[i].generation++;
		client->lanes[i].number = 0;
	}
	start_register(sim, c);
}

static void finish(
    struct sim *sim, unsigned c, unsigned lane, const struct kv_message *m)
{
	struct sim_client *client = &sim->clients[c];
	struct sim_lane *l = &client->lanes[lane];
	struct lin_op *op = &l->op;
	bool cas = op->kind == LIN_CAS;

	if (op->kind == LIN_GET) {
		op->seen = value_of(m);
		client->seen[op->key] = op->seen;
	} else if (cas && m->status == KV_DIFFERENT) {
		op->seen = m->commit ? value_of(m) : LIN_ANY;
		if (m->commit)
			client->seen[op->key] = op->seen;
	} else if (m->status == KV_OK) {
		client->seen[op->key] = op->value;
	}
	trace(sim,
	    "client %u lane %u number %" PRIu64 ": kind %u key %" PRIu64
	    " value %" PRIu64 " expected %" PRIu64 " seen %" PRIu64
	    " status %u",
	    c, lane, l->number, op->kind, op->key, op->value, op->expected,
	    op->seen, m->status);
	record(sim, l, m->status == KV_OK ? LIN_DONE : LIN_FAILED);
	pause_lane(sim, c, lane);
}

static void registered(struct sim *sim, unsigned c, const struct kv_message *m)
{
	struct sim_client *client = &sim->clients[c];
	unsigned i;

	client->session = m->session;
	client->registering.pending = false;
	client->registering.generation++;
	for (i = 0; i < sim->plan.n_lanes; i++)
		pause_lane(sim, c, i);
}

/* Another one leads, or it is busy: try again soon. */
static void refused(
    struct sim *sim, unsigned c, unsigned lane, const struct kv_message *m)
{
	struct sim_client *client = &sim->clients[c];
	struct sim_lane *l = lane_at(client, lane);

	sim->counts.answers_no_quorum += m->status == KV_NO_QUORUM;
	if (m->argument < sim->plan.n)
		client->leader = (unsigned)m->argument;
	else if (client->leader == m->from)
		client->leader = (unsigned)sim_below(sim, sim->plan.n);
	/* A copy may still be under way. */
	wake(sim, c, lane, sim->now + 100 * US + sim_below(sim, 2 * MS));
	l->most_tries += l->most_tries < 40;
}

/* A reply that is no refusal: use a final one; another one may be kept. */
static struct sim_packet *outcome(struct sim *sim, struct sim_client *client,
    struct sim_lane *l, struct sim_packet *packet)
{
	if (kv_votes_confirm(&client->votes, sim_message(packet))) {
		sim->counts.quorums += sim_message(packet)->count != 0;
		return packet;
	}
	if (l->held &&
	    !kv_votes_prefer(sim_message(packet), sim_message(l->held)))
		return NULL;
	if (l->held)
		sim_drop(sim, l->held);
	l->held = packet;
	packet->refs++;
	return NULL;
}

static bool is_refusal(const struct kv_message *m)
{
	return m->status == KV_NOT_LEADER || m->status == KV_BUSY ||
	    m->status == KV_NO_QUORUM;
}

static void answer(struct sim *sim, unsigned c, struct sim_packet *packet)
{
	const struct kv_message *m = sim_message(packet);
	struct sim_client *client = &sim->clients[c];
	struct sim_lane *l = &client->registering;
	unsigned lane = REGISTERING;

	if (m->number != client->register_number || !l->pending) {
		lane = m->lane;
		if (lane >= sim->plan.n_lanes)
			return;
		l = &client->lanes[lane];
		if (!l->pending || m->number != l->number ||
		    m->session != client->session)
			return;
	}
	if (!is_refusal(m)) {
		packet = outcome(sim, client, l, packet);
		if (!packet)
			return;
		m = sim_message(packet);
	}
	switch (m->status) {
	case KV_NOT_LEADER:
	case KV_BUSY:
	case KV_NO_QUORUM:
		refused(sim, c, lane, m);
		break;
	case KV_NO_SESSION:
		lose_session(sim, c);
		break;
	case KV_INVALID:
		sim_fail(
		    sim, "client %u gets KV_INVALID for what is pending", c);
		break;
	default:
		client->leader = m->from;
		/* Longer than any older message may take. */
		if (sim->majority_lost &&
		    l->begun > sim->majority_lost_at + 200 * MS)
			sim_fail(sim,
			    "client %u is served though a majority "
			    "has forgotten",
			    c);
		else if (lane == REGISTERING)
			registered(sim, c, m);
		else
			finish(sim, c, lane, m);
		break;
	}
}

/* Votes may confirm what is held. */
static void take_vote(
    struct sim *sim, unsigned c, const struct kv_message *vote)
{
	struct sim_client *client = &sim->clients[c];
	struct sim_packet *held;
	unsigned i;

	client->votes.any_slot = (sim->bugs & SIM_BUG_ANY_SLOT) != 0;
	kv_votes_take(&client->votes, vote);
	for (i = 0; i < sim->plan.n_lanes; i++) {
		held = client->lanes[i].held;
		if (!client->lanes[i].pending || !held ||
		    !kv_votes_confirm(&client->votes, sim_message(held)))
			continue;
		client->lanes[i].held = NULL;
		answer(sim, c, held);
		sim_drop(sim, held);
	}
}

void sim_client_event(struct sim *sim, const struct sim_event *event)
{
	unsigned c = event->node - SIM_REPLICAS, lane = event->lane;
	struct sim_client *client = &sim->clients[c];
	struct sim_lane *l;

	if (client->resume_at > sim->now) {
		if (event->packet)
			event->packet->refs++;
		sim_add(sim, client->resume_at, event);
		return;
	}
	if (event->kind == SIM_DELIVER) {
		if (sim_message(event->packet)->type == KV_VOTE)
			take_vote(sim, c, sim_message(event->packet));
		else
			answer(sim, c, event->packet);
		return;
	}
	l = lane_at(client, lane);
	if (event->generation != l->generation)
		return;
	if (!l->pending && lane != REGISTERING)
		start_request(sim, c, lane);
	else if (lane != REGISTERING && !sim->calm && l->tries >= l->most_tries)
		give_up(sim, c, lane);
	else
		submit(sim, c, lane);
}

void sim_client_start(struct sim *sim, unsigned c)
{
	sim->clients[c].leader = (unsigned)sim_below(sim, sim->plan.n);
	start_register(sim, c);
}

/* Faults have ended: make a few more requests, then stop. */
void sim_client_calm(struct sim *sim, unsigned c)
{
	unsigned i;

	sim->clients[c].resume_at = 0;
	for (i = 0; i < sim->plan.n_lanes; i++)
		sim->clients[c].lanes[i].left = 3;
}

/* Requests that are not answered, or are still to be made. */
unsigned sim_pending(const struct sim *sim)
{
	unsigned c, i, n = 0;

	for (c = 0; c < sim->plan.n_clients; c++) {
		n += sim->clients[c].registering.pending;
		for (i = 0; i < sim->plan.n_lanes; i++)
			n += sim->clients[c].lanes[i].pending +
			    sim->clients[c].lanes[i].left;
	}
	return n;
}

/* A request pending at the end of a run has an unknown outcome. */
void sim_client_end(struct sim *sim)
{
	unsigned c, i;

	for (c = 0; c < sim->plan.n_clients; c++)
		for (i = 0; i < sim->plan.n_lanes; i++)
			if (sim->clients[c].lanes[i].pending)
				record(sim, &sim->clients[c].lanes[i],
				    LIN_UNKNOWN);
}
