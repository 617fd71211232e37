/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network. A message arrives after a while, once, several times or never,
 * before or after others. A few arrive very late, when their ballot, and
 * perhaps their sender's incarnation, is long over.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "sim.h"

#define SMALL 512

/* Room for a message, of one reference. */
struct sim_packet *sim_packet(struct sim *sim, size_t size)
{
	bool large = size > SMALL;
	struct sim_packet *packet = sim->free[large];

	if (packet) {
		sim->free[large] = packet->next;
	} else {
		packet = malloc(
		    sizeof(*packet) + (large ? KV_MAX_MESSAGE : SMALL));
		if (!packet)
			abort();
		packet->room = large ? KV_MAX_MESSAGE : SMALL;
	}
	packet->refs = 1;
	return packet;
}

void sim_drop(struct sim *sim, struct sim_packet *packet)
{
	bool large = packet->room > SMALL;

	if (--packet->refs)
		return;
	packet->next = sim->free[large];
	sim->free[large] = packet;
}

#define NAME(type)      \
	case KV_##type: \
		return #type

/* No default: the compiler finds a type without a name. */
static const char *type_name(enum kv_message_type type)
{
	switch (type) {
		NAME(PREVOTE);
		NAME(PREVOTE_REPLY);
		NAME(PREPARE);
		NAME(PROMISE);
		NAME(ACCEPT);
		NAME(ACCEPTED);
		NAME(HEARTBEAT);
		NAME(REFUSE);
		NAME(FETCH);
		NAME(SNAPSHOT);
		NAME(JOIN);
		NAME(SESSION);
		NAME(GAP_ASK);
		NAME(GAP_REQUEST);
		NAME(GAP_DECIDE);
		NAME(GAP_DECIDED);
		NAME(HANDSHAKE);
		NAME(REQUEST);
		NAME(REPLY);
		NAME(STATUS);
		NAME(VOTE);
	}
	return "?";
}

const char *sim_message_text(const struct kv_message *m)
{
	static char text[256];

	snprintf(text, sizeof(text),
	    "%s ballot %" PRIu64 ".%u slot %" PRIu64 " commit %" PRIu64
	    " argument %" PRIu64 " number %" PRIu64 " count %u status %u"
	    " incarnation %04x",
	    type_name(m->type), kv_ballot_round(m->ballot),
	    kv_ballot_leader(m->ballot), m->slot, m->commit, m->argument,
	    m->number, m->count, m->status,
	    (unsigned)(m->incarnation & 0xffff));
	return text;
}

static uint64_t delay(struct sim *sim)
{
	uint64_t longest = sim->plan.delay;

	if (!sim->calm && sim_chance(sim, sim->plan.be_late)) {
		sim->counts.late++;
		return MS + sim_below(sim, 150 * MS);
	}
	return 10 * US +
	    sim_below(sim, sim_chance(sim, 1000) ? 10 * longest : longest);
}

static void deliver_later(
    struct sim *sim, unsigned to, struct sim_packet *packet)
{
	struct sim_event event = {
		.kind = SIM_DELIVER, .node = (uint16_t)to, .packet = packet
	};

	packet->refs++;
	sim_add(sim, sim->now + delay(sim), &event);
}

/* Takes the caller's reference. */
void sim_send(
    struct sim *sim, unsigned from, unsigned to, struct sim_packet *packet)
{
	bool between = from < SIM_REPLICAS && to < SIM_REPLICAS;

	sim->counts.messages++;
	if ((between && sim->cut[from][to]) ||
	    (!sim->calm && sim_chance(sim, sim->plan.lose))) {
		sim->counts.lost++;
		trace(sim, "%u -> %u LOST %s", from, to,
		    sim_message_text(sim_message(packet)));
	} else {
		trace(sim, "%u -> %u %s", from, to,
		    sim_message_text(sim_message(packet)));
		deliver_later(sim, to, packet);
		while (!sim->calm && sim_chance(sim, sim->plan.repeat)) {
			sim->counts.repeated++;
			deliver_later(sim, to, packet);
		}
	}
	sim_drop(sim, packet);
}
