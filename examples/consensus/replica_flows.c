/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The four flows of leader-based consensus: from clients to the leader, from
 * the leader to all followers at once, the followers' votes, and the answers to
 * clients. A leader opens them for its ballot, and tells the replicas and
 * clients that it hears.
 *
 * They carry requests, ACCEPT, ACCEPTED and replies while they have room. The
 * pair flows stay and carry the rest. The leader gives the four flows up when
 * an end is lost, when a new process should be in them, or when the ballot
 * ends. Then the pair flows carry all. The core and the clients repeat messages
 * that the four flows have lost.
 */
#include <string.h>

#include "replica.h"

#define MS UINT64_C(1000000)
#define ANNOUNCE_NS (50 * MS) /* of flows that are not up yet */
#define LOOK_NS (200 * MS)    /* after replicas or clients that are not in */
#define RECENT_NS (2000 * MS) /* clients that have asked since are let in */
#define BUSY_NS (100 * MS)
/*
 * Flows stay at least this many times as long as it took to open them. Where
 * that takes seconds, opening them again for each newcomer would never end.
 */
#define STAY 4
#define STUCK_NS (50 * MS) /* the replicate flow takes nothing */
/*
 * A follower that lacks more slots than this first catches up over its pair
 * flow.
 */
#define MAX_LAG 1024

static const char letters[N_FLOWS] = { 'q', 'a', 'v', 'r' };

static bool leads_them(const struct replica *replica)
{
	return replica->flows.leader == replica->options.self;
}

static struct link *add_link(struct replica *replica, enum flow which,
    enum link_kind kind, unsigned end, unsigned n_sources, unsigned n_targets)
{
	const struct replica_options *options = &replica->options;
	struct flows *flows = &replica->flows;
	struct line *line = &flows->lines[which];
	struct link_setup setup = {
		.kind = kind,
		.helper = options->n_replicas + 1,
		.segment_size = KV_CLIENT_SEGMENT,
		.segments = KV_CLIENT_SEGMENTS,
		.n_sources = n_sources,
		.n_targets = n_targets,
		.end = end,
		.create = leads_them(replica),
		.replicate = which == FLOW_ACCEPTS,
		.once = true,
		.arg = line,
	};

	if (which == FLOW_ACCEPTS) {
		setup.segment_size = KV_PEER_SEGMENT;
		setup.segments = KV_PEER_SEGMENTS;
	}
	kv_shared_flow(setup.name, options->cluster, letters[which], flows->id);
	*line = (struct line){ .kind = LINE_FLOW, .number = which };
	line->link = links_add(replica->links, &setup);
	return line->link;
}

/* Tell their members which flows there are, or that there are none. */
static void announce(struct replica *replica, uint64_t ends)
{
	unsigned i;

	replica->flows.announce_at = replica->now + ANNOUNCE_NS;
	for (i = 0; i < replica->options.n_replicas; i++)
		if (i != replica->options.self && ends >> i & 1)
			bootstrap_handshake(replica, i);
	clients_notify_all(replica);
}

static void leave(struct replica *replica)
{
	struct flows *flows = &replica->flows;
	uint64_t ends = flows->ends;
	bool leads = leads_them(replica);
	struct link *link;
	unsigned i;

	if (flows->n_up == flows->n_lines) {
		flows->ended++;
		say(replica, "leaves the four flows");
	}
	flows->id = flows->ends = 0;
	flows->n_up = 0;
	flows->stuck = false;
	flows->stuck_since = 0;
	memset(flows->client_ends, 0, sizeof(flows->client_ends));
	for (i = 0; i < N_FLOWS; i++) {
		link = flows->lines[i].link;
		flows->lines[i].link = NULL;
		if (link)
			link_close(link);
	}
	flows->look_at = replica->now + LOOK_NS;
	if (leads)
		announce(replica, ends);
}

static void begin(
    struct replica *replica, uint64_t id, unsigned leader, uint64_t ends)
{
	struct flows *flows = &replica->flows;

	flows->id = id;
	flows->begun_at = replica->now;
	flows->leader = leader;
	flows->ends = ends;
	flows->ballot = paxos_ballot(replica->paxos);
	flows->n_lines = leads_them(replica) ? N_FLOWS : 2;
	flows->low = flows->sent = 0;
	memset(flows->given, 0, sizeof(flows->given));
	memset(flows->again, 0, sizeof(flows->again));
}

void flows_hear(struct replica *replica, unsigned from,
    const struct kv_replica_handshake *handshake)
{
	struct flows *flows = &replica->flows;
	unsigned self = replica->options.self, end;

	if (!replica->options.flows || !replica->paxos ||
	    paxos_leader(replica->paxos) != (int)from ||
	    handshake->flow == flows->id)
		return;
	if (flows->id)
		leave(replica);
	if (!handshake->flow || !(handshake->ends >> self & 1) ||
	    !(handshake->ends >> from & 1))
		return;
	begin(replica, handshake->flow, from, handshake->ends);
	end = order_end_of(handshake->ends & ~(UINT64_C(1) << from), self);
	/* Open the target first: the leader's source waits for it. */
	if (!add_link(replica, FLOW_ACCEPTS, LINK_SHARED_IN, end, 0, 0) ||
	    !add_link(replica, FLOW_VOTES, LINK_SHARED_OUT, end, 0, 0))
		leave(replica);
}

/* Whether a client has asked within this time, and is still there. */
static bool has_asked(
    const struct replica *replica, const struct place *place, uint64_t within)
{
	return place->client && place->asked &&
	    replica->now - place->asked < within;
}

static uint64_t who_keeps_up(const struct replica *replica)
{
	uint64_t ends = order_who_is_there(replica);
	unsigned i;

	for (i = 0; i < replica->options.n_replicas; i++)
		if (i != replica->options.self &&
		    replica->flows.has[i] + MAX_LAG <
			paxos_commit(replica->paxos))
			ends &= ~(UINT64_C(1) << i);
	return ends;
}

static unsigned number_clients(struct replica *replica)
{
	unsigned i, n = 0;

	for (i = 0; i < KV_CLIENT_PLACES; i++)
		if (has_asked(replica, &replica->places[i], RECENT_NS))
			replica->flows.client_ends[i] = (uint8_t)++n;
	replica->flows.n_clients = n;
	return n;
}

static void open_flows(struct replica *replica)
{
	uint64_t ends = who_keeps_up(replica), id;
	unsigned n = (unsigned)__builtin_popcountll(ends) - 1, clients;

	if (!n || !order_is_majority(replica, ends))
		return;
	clients = number_clients(replica);
	/* Without a number, the pair flows go on until the next try. */
	if (!clients || kv_random_id(&id) < 0)
		return;
	begin(replica, id, replica->options.self, ends);
	if (!add_link(replica, FLOW_REQUESTS, LINK_SHARED_IN, 0, clients, 1) ||
	    !add_link(replica, FLOW_VOTES, LINK_SHARED_IN, 0, n, 1) ||
	    !add_link(replica, FLOW_ACCEPTS, LINK_SHARED_OUT, 0, 1, n) ||
	    !add_link(replica, FLOW_REPLIES, LINK_SHARED_OUT, 0, 1, clients)) {
		leave(replica);
		return;
	}
	announce(replica, ends);
}

/* A link of the four is up, or down: it could not be opened, or broke. */
void flows_line_changed(struct replica *replica, struct link *link, bool up)
{
	struct line *line = link_arg(link);
	struct flows *flows = &replica->flows;

	if (line->link != link)
		return;
	if (!up) {
		line->link = NULL;
		leave(replica);
		return;
	}
	if (++flows->n_up < flows->n_lines)
		return;
	flows->opened++;
	flows->stay_until = replica->now +
	    STAY * (replica->now - flows->begun_at);
	if (leads_them(replica))
		say(replica,
		    "leads by four flows, with %d replicas and %u "
		    "clients",
		    __builtin_popcountll(flows->ends), flows->n_clients);
}

void flows_client_lost(struct replica *replica, unsigned place)
{
	if (replica->flows.client_ends[place])
		leave(replica);
}

/* Whether the ballot of the flows is over. */
static bool is_over(const struct replica *replica)
{
	const struct flows *flows = &replica->flows;

	if (leads_them(replica))
		return paxos_role(replica->paxos) != PAXOS_LEADER ||
		    paxos_ballot(replica->paxos) != flows->ballot;
	return paxos_leader(replica->paxos) != (int)flows->leader;
}

/* Clients that ask seldom do as well by their pair flows. */
static bool is_outdated(const struct replica *replica)
{
	const struct flows *flows = &replica->flows;
	unsigned i;

	if (replica->now < flows->stay_until)
		return false;
	if (who_keeps_up(replica) & ~flows->ends)
		return true;
	for (i = 0; i < KV_CLIENT_PLACES; i++)
		if (!flows->client_ends[i] &&
		    has_asked(replica, &replica->places[i], BUSY_NS))
			return true;
	return false;
}

void flows_turn(struct replica *replica)
{
	struct flows *flows = &replica->flows;

	if (!replica->options.flows)
		return;
	if (flows->id && (is_over(replica) || flows->stuck))
		leave(replica);
	if (paxos_role(replica->paxos) != PAXOS_LEADER)
		return;
	if (flows->id && flows->n_up < flows->n_lines) {
		if (replica->now >= flows->announce_at)
			announce(replica, flows->ends);
		return;
	}
	if (replica->now < flows->look_at)
		return;
	flows->look_at = replica->now + LOOK_NS;
	if (flows->id && !is_outdated(replica))
		return;
	if (flows->id)
		leave(replica);
	open_flows(replica);
}

/* Copy a message into a flow, if it is up and has room. */
static bool put(
    struct replica *replica, enum flow which, const struct kv_message *message)
{
	struct flows *flows = &replica->flows;
	struct link *link = flows->lines[which].link;
	void *room = link ? link_begin(link, message->size) : NULL;

	if (!room)
		return false;
	memcpy(room, message, message->size);
	link_send(link, message->size);
	flows->carried[which]++;
	return true;
}

/*
 * The core gives each follower its ACCEPT, equal for all followers in step. The
 * flow carries the first one to all, so the others are done. A repeat that a
 * follower asks for is sent again, behind all other messages of the flow.
 */
static bool send_accept(
    struct replica *replica, unsigned to, const struct kv_message *message)
{
	struct flows *flows = &replica->flows;
	uint64_t first = message->slot, last = first + message->count - 1;

	if (!(flows->ends >> to & 1) || message->ballot != flows->ballot ||
	    !flows->lines[FLOW_ACCEPTS].link ||
	    !link_up(flows->lines[FLOW_ACCEPTS].link))
		return false;
	if (first != flows->given[to] + 1)
		flows->again[to] = flows->sent;
	flows->given[to] = last;
	if (first > flows->again[to] && first >= flows->low &&
	    last <= flows->sent) {
		flows->spared++;
		return true;
	}
	if (!put(replica, FLOW_ACCEPTS, message)) {
		if (!flows->stuck_since)
			flows->stuck_since = replica->now;
		flows->stuck = replica->now - flows->stuck_since > STUCK_NS;
		return false;
	}
	flows->stuck_since = 0;
	if (first > flows->sent + 1 || !flows->sent)
		flows->low = first;
	if (last > flows->sent)
		flows->sent = last;
	return true;
}

bool flows_send(
    struct replica *replica, unsigned to, const struct kv_message *message)
{
	const struct flows *flows = &replica->flows;

	if (!flows->id)
		return false;
	if (message->type == KV_ACCEPT && leads_them(replica))
		return send_accept(replica, to, message);
	return message->type == KV_ACCEPTED && to == flows->leader &&
	    put(replica, FLOW_VOTES, message);
}

/* Room for a reply in the clients' flow, and its link; or NULL. */
struct kv_message *flows_begin_reply(
    struct replica *replica, unsigned place, size_t size, struct link **link)
{
	struct flows *flows = &replica->flows;
	struct kv_message *message;

	*link = flows->lines[FLOW_REPLIES].link;
	if (!*link || !flows->client_ends[place])
		return NULL;
	message = link_begin_to(*link, flows->client_ends[place] - 1u, size);
	flows->carried[FLOW_REPLIES] += message != NULL;
	return message;
}

/* The four flows, as a client's handshake says them; id 0: it is in none. */
struct kv_flows_handshake flows_for_client(
    const struct replica *replica, unsigned place)
{
	const struct flows *flows = &replica->flows;

	if (!flows->client_ends[place])
		return (struct kv_flows_handshake){ .id = 0 };
	return (struct kv_flows_handshake){
		.id = flows->id,
		.end = flows->client_ends[place] - 1u,
	};
}

/* A client's place, by its id; or NULL. */
struct place *flows_place(struct replica *replica, uint64_t client)
{
	unsigned i;

	for (i = 0; i < KV_CLIENT_PLACES; i++)
		if (replica->flows.client_ends[i] &&
		    replica->places[i].client == client)
			return &replica->places[i];
	return NULL;
}
