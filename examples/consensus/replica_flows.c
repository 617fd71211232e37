/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two open flows of each replica for the time when it leads: one brings ACCEPT
 * to all followers at once, and one brings their votes. All other replicas have
 * a seat of each, by their number, as long as they live. A follower that takes
 * nothing is evicted, and comes again.
 *
 * They carry messages while they have room. The flows between two replicas
 * carry the rest: also what a replica asks for again, and all for one that is
 * not there. The core repeats messages that are lost.
 */
#include <errno.h>
#include <string.h>

#include "replica.h"

#define EVICT_MS 50

static struct link *add_link(struct replica *replica, struct line *line,
    enum flow which, unsigned leader)
{
	const struct replica_options *options = &replica->options;
	bool leads = leader == options->self, votes = which == FLOW_VOTES;
	struct link_setup setup = {
		.kind = leads == votes ? LINK_OPEN_IN : LINK_OPEN_OUT,
		.segment_size = votes ? KV_CLIENT_SEGMENT : KV_PEER_SEGMENT,
		.segments = votes ? KV_CLIENT_SEGMENTS : KV_PEER_SEGMENTS,
		.create = leads,
		.n_sources = votes ? options->n_replicas : 1,
		.n_targets = votes ? 1 : options->n_replicas,
		.replicate = !votes,
		.evict_ms = votes ? 0 : EVICT_MS,
		.end = options->self,
		.arg = line,
	};

	/* As of the other flows to that replica, or of clients. */
	setup.helper = leads ? options->n_replicas
			     : replica_helper(replica, leader);
	kv_replica_flow(
	    setup.name, options->cluster, leader, votes ? "votes" : "accepts");
	*line = (struct line){ .kind = LINE_FLOW, .number = which };
	line->link = links_add(replica->links, &setup);
	return line->link;
}

int flows_open(struct replica *replica)
{
	struct flows *flows = &replica->flows;
	unsigned i, which;

	for (i = 0; i < replica->options.n_replicas; i++)
		for (which = 0; which < N_FLOWS; which++)
			if (!add_link(
				replica, &flows->lines[i][which], which, i))
				return -ENOMEM;
	return 0;
}

void flows_joined(struct replica *replica, unsigned follower)
{
	struct flows *flows = &replica->flows;

	flows->there |= UINT64_C(1) << follower;
	flows->low[follower] = flows->sent + 1;
}

void flows_left(struct replica *replica, unsigned follower)
{
	replica->flows.there &= ~(UINT64_C(1) << follower);
	replica->flows.left++;
}

void flows_down(struct replica *replica, const struct line *line)
{
	struct flows *flows = &replica->flows;

	/* Its own flow of ACCEPT is made again, and nobody is in it. */
	if (line == &flows->lines[replica->options.self][FLOW_ACCEPTS])
		flows->there = 0;
}

/* Copy a message into a flow, if it is up and has room. */
static bool put(struct replica *replica, enum flow which, unsigned leader,
    const struct kv_message *message)
{
	struct link *link = replica->flows.lines[leader][which].link;
	void *room = link ? link_begin(link, message->size) : NULL;

	if (!room)
		return false;
	memcpy(room, message, message->size);
	link_send(link, message->size);
	replica->flows.carried[which]++;
	return true;
}

static void begin_ballot(struct flows *flows, kv_ballot ballot)
{
	unsigned i;

	flows->ballot = ballot;
	flows->sent = 0;
	for (i = 0; i < KV_MAX_REPLICAS; i++)
		flows->low[i] = flows->given[i] = 0;
}

/*
 * The core gives each follower its ACCEPT, equal for all followers in step. The
 * flow carries the first one to all, so the others are done.
 */
static bool send_accept(
    struct replica *replica, unsigned to, const struct kv_message *message)
{
	struct flows *flows = &replica->flows;
	uint64_t first = message->slot, last = first + message->count - 1;
	bool again;
	unsigned i;

	if (message->ballot != flows->ballot)
		begin_ballot(flows, message->ballot);
	if (!(flows->there >> to & 1))
		return false;
	again = first != flows->given[to] + 1 && flows->given[to];
	flows->given[to] = last;
	if (first > flows->sent) {
		if (!put(replica, FLOW_ACCEPTS, replica->options.self, message))
			return false;
		for (i = 0; first != flows->sent + 1 && i < KV_MAX_REPLICAS;
		     i++)
			flows->low[i] = first;
		flows->sent = last;
		return true;
	}
	/* What it lacks up to here is lost in the flow. */
	if (again)
		flows->low[to] = flows->sent + 1;
	if (first < flows->low[to] || last > flows->sent)
		return false;
	flows->spared++;
	return true;
}

bool flows_send(
    struct replica *replica, unsigned to, const struct kv_message *message)
{
	if (!replica->options.flows)
		return false;
	if (message->type == KV_ACCEPT)
		return send_accept(replica, to, message);
	return message->type == KV_ACCEPTED &&
	    put(replica, FLOW_VOTES, to, message);
}
