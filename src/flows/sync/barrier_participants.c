/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meaning of the registry's events for a barrier: a state machine without
 * I/O. All participants see the same events in the same order, so they agree on
 * which rounds were complete before a participant was lost.
 *
 * That holds for one life of a registry. After a restart each participant sets
 * its entry again when it comes back. A participant that comes back late may
 * find that others have continued; their rounds tell it what it has missed. An
 * entry may also come back older than before, if the registry never confirmed
 * its last change. So the latest state ever seen counts.
 *
 * A name may be used again while participants of its earlier use are still
 * open. Their arrivals must not count. A participant that had arrived before
 * this one attached did not wait for this one. A participant that arrives later
 * says which participants it waits for. One that has not arrived looks like a
 * new one; it leaves, and says so, once it hears that its use has ended.
 */
#include "barrier_participants.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "dfi_flow.pb-c.h"

void dfi__participant_prefix(char key[KEY_SIZE], const char *name)
{
	snprintf(key, KEY_SIZE, "barriers/%s/", name);
}

void dfi__participant_key(char key[KEY_SIZE], const char *name, uint32_t index)
{
	snprintf(key, KEY_SIZE, "barriers/%s/%u", name, index);
}

void *dfi__participant_encode(
    const struct barrier_participant *participant, size_t *size)
{
	DfiFlow__Participant message;
	DfiFlow__Node node;

	dfi_flow__participant__init(&message);
	dfi__node_to_message(&participant->node, &node);
	message.node = &node;
	message.id = participant->id;
	message.n_participants = participant->n_participants;
	message.round = participant->round;
	message.set = participant->set;
	message.lost = participant->lost_id;
	return dfi__message_pack(&message.base, size);
}

int dfi__participant_decode(
    const void *data, size_t size, struct barrier_participant *participant)
{
	DfiFlow__Participant *message = dfi_flow__participant__unpack(
	    NULL, size, data);

	if (!message)
		return dfi__fail(
		    -EBADMSG, "registry: a barrier's entry is damaged");
	memset(participant, 0, sizeof(*participant));
	dfi__node_from_message(message->node, &participant->node);
	participant->id = message->id;
	participant->n_participants = message->n_participants;
	participant->round = message->round;
	participant->set = message->set;
	participant->lost_id = message->lost;
	dfi_flow__participant__free_unpacked(message, NULL);
	return 0;
}

int dfi__participants_init(struct barrier_participants *participants,
    uint32_t n, uint32_t self, uint64_t id)
{
	memset(participants, 0, sizeof(*participants));
	participants->participant = calloc(
	    n, sizeof(participants->participant[0]));
	if (!participants->participant)
		return -ENOMEM;
	participants->n = participants->lost = n;
	participants->self = self;
	participants->id = id;
	return 0;
}

/* A hash of the participants that are attached; 0: some are missing. */
static uint64_t hash_set(const struct barrier_participants *participants)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	uint32_t i;

	for (i = 0; i < participants->n; i++) {
		if (!participants->participant[i].present)
			return 0;
		hash = (hash ^ participants->participant[i].id) *
		    UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return hash ? hash : 1;
}

/*
 * All have attached for the first time. A participant that arrived in another
 * set waits for one that is gone; it will notice and leave. A participant that
 * arrived in this set waits for this one, even if its attaching was missed.
 */
static void join(struct barrier_participants *participants)
{
	uint64_t set = hash_set(participants);
	struct barrier_participant *participant;
	bool whole = set;
	uint32_t i;

	for (i = 0; set && i < participants->n; i++) {
		participant = &participants->participant[i];
		if (participant->round && !participant->lost_id)
			participant->stale = participant->set != set;
		whole &= !participant->stale;
	}
	if (whole)
		participants->set = set;
}

static void advance(struct barrier_participants *participants)
{
	uint64_t round, least = UINT64_MAX, most = 1;
	uint32_t i;

	for (i = 0; i < participants->n; i++) {
		round = participants->participant[i].round;
		least = round < least ? round : least;
		most = round > most ? round : most;
	}
	/*
	 * A participant arrives at a round only after the round before, whose
	 * events may be missing here.
	 */
	if (least < most - 1)
		least = most - 1;
	if (least > participants->completed)
		participants->completed = least;
}

static void check_count(struct barrier_participants *participants,
    uint32_t index, const struct barrier_participant *participant)
{
	if (participant->n_participants == participants->n ||
	    participant->round || participant->lost_id)
		return;
	participants->disagree = true;
	participants->other = *participant;
	participants->other_index = index;
}

/*
 * Whether this participant has joined. Before that, no participant counts on
 * it.
 */
static bool are_in(const struct barrier_participants *participants)
{
	return participants->participant[participants->self].present;
}

/* Whether another participant has the index of an attached one. */
static bool is_taken(const struct barrier_participants *participants,
    uint32_t index, const struct barrier_participant *participant)
{
	return index < participants->n &&
	    participant_joined(participants, index) &&
	    participants->participant[index].id != participant->id &&
	    are_in(participants);
}

/*
 * A participant's rounds have ended. If it has lost a participant of this use,
 * so has this one, whichever news comes first; and a round that was complete
 * for it was complete for all. Otherwise it belongs to an earlier use, and had
 * not arrived yet.
 */
static void leave(struct barrier_participants *participants, uint32_t index,
    const struct barrier_participant *participant)
{
	struct barrier_participant *known = &participants->participant[index];
	uint32_t i;

	if (participants->set && participant->set == participants->set &&
	    participant->round > participants->completed)
		participants->completed = participant->round;
	for (i = 0; i < participants->n; i++)
		if (i != index && participant_joined(participants, i) &&
		    participants->participant[i].id == participant->lost_id) {
			participants->lost = i;
			return;
		}
	if (participants->set) {
		participants->lost = index;
		return;
	}
	*known = *participant;
	known->present = known->stale = true;
}

void dfi__participants_put(struct barrier_participants *participants,
    uint32_t index, const struct barrier_participant *participant)
{
	struct barrier_participant *known;
	bool first, stale;

	if (participants->lost < participants->n || participants->disagree)
		return;
	if (is_taken(participants, index, participant)) {
		participants->lost = index;
		return;
	}
	if (index == participants->self && participant->id != participants->id)
		return;
	check_count(participants, index, participant);
	if (participants->disagree || index >= participants->n)
		return;
	if (participant->lost_id) {
		leave(participants, index, participant);
		return;
	}
	known = &participants->participant[index];
	first = !known->present || known->id != participant->id;
	if (!first && participant->round < known->round)
		return;
	stale = first ? participant->round > 0 : known->stale;
	*known = *participant;
	known->present = true;
	known->stale = stale;
	if (!participants->set)
		join(participants);
	else if (known->round && known->set != participants->set)
		participants->lost = index;
	if (participants->set && participants->lost == participants->n)
		advance(participants);
}

void dfi__participants_delete(
    struct barrier_participants *participants, uint32_t index)
{
	if (index >= participants->n || participants->lost < participants->n)
		return;
	if (participant_joined(participants, index) && are_in(participants))
		participants->lost = index;
	participants->participant[index].present = false;
}
