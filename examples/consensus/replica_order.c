/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ordered flow of NOPaxos. The leader makes one with an end at each replica
 * that it hears, and announces it; the others join it. The loss of any end is
 * the loss of the flow. The protocol continues without it, and the leader makes
 * another one with the remaining replicas. For a replica that comes later, it
 * makes a new one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "replica.h"

#define MS UINT64_C(1000000)
#define REOPEN_NS (100 * MS)
#define OPEN_MS 2000
#define RETRY_NS (200 * MS)   /* between flows */
#define ANNOUNCE_NS (50 * MS) /* of a flow that is not up yet */
#define LOOK_NS (1000 * MS)   /* after replicas that are not in it */

/*
 * The time after which a leader counts as lost also decides that a flow or a
 * replica stands still: a slow machine is slow at both.
 */
static uint64_t quiet_ns(const struct replica *replica)
{
	return replica->options.election_ns * 5 / 4;
}

static void on_reply(void *arg, uint64_t slot, kv_ballot ballot,
    unsigned members, const struct kv_command *command,
    const struct kv_result *result)
{
	clients_executed(arg, slot, ballot, members, command, result);
}

static void on_vote(void *arg, uint64_t slot, kv_ballot ballot, uint64_t leader,
    const struct kv_command *command)
{
	clients_voted(arg, slot, ballot, leader, command);
}

static size_t message_size(const struct kv_command *command)
{
	return sizeof(struct kv_message) + kv_command_size(command);
}

static bool begin_segment(struct replica *replica)
{
	struct order *order = &replica->order;
	struct link *link = order->line.link;
	size_t size = link ? link_room(link) : 0;

	order->message = size ? link_begin(link, size) : NULL;
	if (!order->message)
		return false;
	kv_batch_begin(&order->batch, order->message->body,
	    size - sizeof(*order->message));
	return true;
}

/*
 * Requests of one turn of the loop share segments. False: the flow takes none
 * now.
 */
static bool publish(struct replica *replica, const struct kv_command *command)
{
	struct kv_batch *batch = &replica->order.batch;

	if (batch->n && kv_batch_add(batch, command))
		return true;
	order_flush(replica);
	return begin_segment(replica) && kv_batch_add(batch, command);
}

/* Send what has been published. */
void order_flush(struct replica *replica)
{
	struct order *order = &replica->order;
	const struct kv_command *command = order->batch.slot;
	size_t size = sizeof(*order->message) + order->batch.size;

	if (!order->batch.n)
		return;
	*order->message = (struct kv_message){
		.cluster = replica->cluster,
		.incarnation = replica->incarnation,
		.number = command->number,
		.session = command->session,
		.size = (uint32_t)size,
		.lane = command->lane,
		.type = KV_REQUEST,
		.from = (uint8_t)replica->options.self,
	};
	replica->counts.published += order->batch.n;
	order->batch.n = 0;
	link_send_alone(order->line.link, size);
}

/*
 * A request may be larger than a segment, which may be a datagram. Then the
 * leader ends the fast path, the client repeats the request, and Multi-Paxos
 * serves it. The order continues with another flow.
 */
static uint8_t refuse_large(
    struct replica *replica, const struct kv_command *command)
{
	if (paxos_role(replica->paxos) != PAXOS_LEADER)
		return KV_NOT_LEADER;
	say(replica,
	    "a request of %zu bytes does not fit a segment of the ordered "
	    "flow, which has %zu: it is done without that flow, more slowly",
	    message_size(command), link_room(replica->order.line.link));
	nopaxos_end(replica->fast, replica->now);
	return KV_BUSY;
}

uint8_t order_take(struct replica *replica, const struct kv_command *command)
{
	struct link *link = replica->order.line.link;

	if (link && link_up(link) && message_size(command) > link_room(link))
		return refuse_large(replica, command);
	return publish(replica, command) ? KV_OK : KV_BUSY;
}

static void on_publish(void *arg, const struct kv_command *command)
{
	if (publish(arg, command))
		order_flush(arg);
}

int order_open(struct replica *replica)
{
	const struct nopaxos_setup setup = {
		.probe_ns = replica->options.heartbeat_ns * 2 / 5,
		.quiet_ns = quiet_ns(replica),
		.reopen_ns = REOPEN_NS,
		.window = REPLICA_WINDOW,
		.stash_bytes = REPLICA_STASH,
	};

	if (!replica->options.nopaxos)
		return 0;
	replica->fast_ops = (struct nopaxos_ops){
		.reply = on_reply,
		.vote = on_vote,
		.publish = on_publish,
	};
	replica->order.random = replica->seed;
	replica->fast = nopaxos_new(
	    &setup, &replica->fast_ops, replica, replica->paxos);
	return replica->fast ? 0 : -ENOMEM;
}

static bool is_lost(struct replica *replica)
{
	uint64_t x = replica->order.random;

	if (!replica->options.drop_ppm)
		return false;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	replica->order.random = x;
	return x % 1000000 < replica->options.drop_ppm;
}

void order_receive(struct replica *replica, struct link *link,
    const struct kv_message *message, size_t size)
{
	struct order *order = &replica->order;
	const struct kv_command *command = (const void *)message->body;
	uint64_t n;

	if (link != order->line.link)
		return;
	n = order->next++;
	/* A senseless segment counts as lost. */
	if (is_lost(replica) || size < sizeof(*message) ||
	    message->type != KV_REQUEST ||
	    message->size < sizeof(*message) + sizeof(*command) ||
	    message->size > size || message->cluster != replica->cluster)
		nopaxos_gap(replica->fast, replica->now, order->flow, n, 1);
	else
		nopaxos_deliver(replica->fast, replica->now, order->flow, n,
		    command, message->size - sizeof(*message));
}

void order_gap(struct replica *replica, struct link *link, uint32_t n)
{
	struct order *order = &replica->order;

	if (link != order->line.link)
		return;
	nopaxos_gap(replica->fast, replica->now, order->flow, order->next, n);
	order->next += n;
}

/* The number of an end in the flow: its position among the members. */
static unsigned end_of(uint64_t ends, unsigned replica)
{
	return (unsigned)__builtin_popcountll(
	    ends & ((UINT64_C(1) << replica) - 1));
}

static void forget_flow(struct replica *replica)
{
	struct order *order = &replica->order;

	if (order->up)
		nopaxos_flow(replica->fast, 0, 0);
	order->line.link = NULL;
	order->batch.n = 0;
	order->up = false;
	order->flow = order->ends = 0;
	order->try_at = replica->now + RETRY_NS;
}

static void leave_flow(struct replica *replica)
{
	struct link *link = replica->order.line.link;

	forget_flow(replica);
	if (link)
		link_close(link);
}

static void enter_flow(
    struct replica *replica, uint64_t flow, uint64_t ends, bool create)
{
	const struct replica_options *options = &replica->options;
	struct order *order = &replica->order;
	struct link_setup setup = {
		.kind = LINK_ORDERED,
		.helper = options->n_replicas + 1,
		.segment_size = ORDER_SEGMENT,
		.segments = ORDER_SEGMENTS,
		.multicast = options->multicast,
		.open_ms = OPEN_MS + (unsigned)(4 * options->election_ns / MS),
		.n_ends = (unsigned)__builtin_popcountll(ends),
		.end = end_of(ends, options->self),
		.create = create,
		.once = true,
		.arg = &order->line,
	};

	leave_flow(replica);
	kv_ordered_flow(setup.name, options->cluster, flow);
	order->line.kind = LINE_ORDERED;
	order->line.link = links_add(replica->links, &setup);
	if (!order->line.link)
		return;
	order->flow = flow;
	order->ends = ends;
	order->next = 0;
	order->look_at = replica->now + LOOK_NS;
}

void order_hear(struct replica *replica, unsigned from,
    const struct kv_replica_handshake *handshake)
{
	if (!replica->fast || !handshake->flow ||
	    handshake->flow == replica->order.flow ||
	    paxos_leader(replica->paxos) != (int)from ||
	    !(handshake->ends >> replica->options.self & 1))
		return;
	enter_flow(replica, handshake->flow, handshake->ends, false);
}

void order_line_changed(struct replica *replica, struct link *link, bool up)
{
	struct order *order = &replica->order;

	if (link != order->line.link)
		return;
	if (!up) {
		forget_flow(replica);
		return;
	}
	order->up = true;
	nopaxos_flow(replica->fast, order->flow, order->next);
}

static void announce(struct replica *replica)
{
	unsigned i;

	replica->order.announce_at = replica->now + ANNOUNCE_NS;
	for (i = 0; i < replica->options.n_replicas; i++)
		if (i != replica->options.self && replica->order.ends >> i & 1)
			bootstrap_handshake(replica, i);
}

/* The replicas that could be in a flow now. */
static uint64_t who_is_there(const struct replica *replica)
{
	uint64_t ends = UINT64_C(1) << replica->options.self;
	unsigned i;

	for (i = 0; i < replica->options.n_replicas; i++)
		if (i != replica->options.self && replica->out[i].link &&
		    link_up(replica->out[i].link) && replica->heard[i] &&
		    replica->now - replica->heard[i] < 2 * quiet_ns(replica))
			ends |= UINT64_C(1) << i;
	return ends;
}

static bool is_majority(const struct replica *replica, uint64_t ends)
{
	const struct kv_config *config = kv_store_config(
	    paxos_store(replica->paxos));
	unsigned i, n = 0;

	for (i = 0; i < KV_MAX_REPLICAS; i++)
		n += config->members[i].incarnation > KV_VACANT &&
		    (ends >> i & 1);
	return n > kv_config_members(config) / 2;
}

/* Whether a new flow is due: this one stands still, or a replica is missing. */
static bool is_outdated(struct replica *replica)
{
	struct order *order = &replica->order;
	struct nopaxos_stats stats;

	nopaxos_query(replica->fast, &stats);
	if (stats.ended != order->n_ended)
		return true;
	if (replica->now < order->look_at)
		return false;
	order->look_at = replica->now + LOOK_NS;
	return (who_is_there(replica) & ~order->ends) != 0;
}

void order_turn(struct replica *replica)
{
	struct order *order = &replica->order;
	struct nopaxos_stats stats;
	uint64_t ends, flow;

	if (paxos_role(replica->paxos) != PAXOS_LEADER)
		return;
	if (order->flow && !order->up && replica->now >= order->announce_at)
		announce(replica);
	if (order->up && is_outdated(replica)) {
		nopaxos_end(replica->fast, replica->now);
		leave_flow(replica);
	}
	if (order->flow || replica->now < order->try_at)
		return;
	order->try_at = replica->now + RETRY_NS;
	ends = who_is_there(replica);
	/* Without a number, Multi-Paxos continues until the next try. */
	if (!is_majority(replica, ends) || !(ends & (ends - 1)) ||
	    kv_random_id(&flow) < 0)
		return;
	enter_flow(replica, flow, ends, true);
	nopaxos_query(replica->fast, &stats);
	order->n_ended = stats.ended;
	announce(replica);
}
