/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a cluster begins. Replicas started with --bootstrap exchange their
 * incarnations. Replica 0 alone decides: when it has heard all, it announces
 * the first configuration. A replica that hears of a live cluster takes its
 * configuration if it is a member and is new; otherwise it joins as a new
 * replica. So there is one first configuration.
 */
#include <stdio.h>
#include <string.h>

#include "replica.h"

#define HANDSHAKE_NS 100000000
#define GREETING_NS 1000000000

void bootstrap_handshake(struct replica *replica, unsigned peer)
{
	struct kv_replica_handshake handshake = {
		.stage = replica->stage,
		.n_replicas = replica->options.n_replicas,
		.config = replica->first,
		.flow = replica->order.flow,
		.ends = replica->order.ends,
	};
	struct link *link = replica->out[peer].link;
	struct kv_message *message;
	size_t size = sizeof(*message) + sizeof(handshake);

	message = link ? link_begin(link, size) : NULL;
	if (!message)
		return;
	*message = (struct kv_message){
		.cluster = replica->cluster,
		.incarnation = replica->incarnation,
		.size = (uint32_t)size,
		.type = KV_HANDSHAKE,
		.from = (uint8_t)replica->options.self,
	};
	memcpy(message->body, &handshake, sizeof(handshake));
	link_send(link, size);
}

static void greet_all(struct replica *replica)
{
	unsigned i;

	for (i = 0; i < replica->options.n_replicas; i++)
		if (i != replica->options.self)
			bootstrap_handshake(replica, i);
}

static void hear_of_cluster(struct replica *replica, unsigned from,
    const struct kv_replica_handshake *handshake)
{
	const struct kv_member *self =
	    &handshake->config.members[replica->options.self];

	if (self->incarnation == replica->incarnation) {
		replica->first = handshake->config;
		replica->stage = KV_STAGE_LIVE;
		return;
	}
	say(replica, "replica %u says that the cluster lives: joining it",
	    from);
	replica->stage = KV_STAGE_JOINING;
}

void bootstrap_receive(
    struct replica *replica, const struct kv_message *message)
{
	struct kv_replica_handshake handshake;

	if (message->size < sizeof(*message) + sizeof(handshake))
		return;
	memcpy(&handshake, message->body, sizeof(handshake));
	if (handshake.n_replicas != replica->options.n_replicas)
		say(replica,
		    "replica %u was started with --replicas %u, "
		    "this one with %u: all need the same number",
		    message->from, handshake.n_replicas,
		    replica->options.n_replicas);
	if (replica->stage != KV_STAGE_WAITING) {
		order_hear(replica, message->from, &handshake);
		if (handshake.stage == KV_STAGE_WAITING)
			bootstrap_handshake(replica, message->from);
		return;
	}
	replica->waiting[message->from] = handshake.stage == KV_STAGE_WAITING
	    ? message->incarnation
	    : 0;
	if (handshake.stage == KV_STAGE_LIVE)
		hear_of_cluster(replica, message->from, &handshake);
}

/* On replica 0, check that all are there. Then they are the first members. */
static bool decide(struct replica *replica)
{
	unsigned i, n = replica->options.n_replicas;

	if (replica->options.self)
		return false;
	replica->waiting[0] = replica->incarnation;
	for (i = 0; i < n; i++)
		if (!replica->waiting[i])
			return false;
	for (i = 0; i < n; i++)
		replica->first.members[i].incarnation = replica->waiting[i];
	return true;
}

int bootstrap_turn(struct replica *replica)
{
	int ret;

	if (replica->stage == KV_STAGE_WAITING && decide(replica))
		replica->stage = KV_STAGE_LIVE;
	if (replica->stage != KV_STAGE_WAITING) {
		ret = core_open(replica);
		greet_all(replica);
		return ret;
	}
	if (replica->now >= replica->handshake_at) {
		replica->handshake_at = replica->now + HANDSHAKE_NS;
		greet_all(replica);
	}
	return 0;
}

/*
 * Followers send each other nothing else, and a link that is not used does not
 * tell that its peer has gone.
 */
void bootstrap_greet(struct replica *replica)
{
	if (replica->now < replica->handshake_at ||
	    paxos_role(replica->paxos) == PAXOS_LEADER)
		return;
	replica->handshake_at = replica->now + GREETING_NS;
	greet_all(replica);
}
