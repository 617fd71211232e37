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
#include "barrier_members.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "dfi_flow.pb-c.h"

void dfi__member_prefix(char key[KEY_SIZE], const char *name)
{
	snprintf(key, KEY_SIZE, "barriers/%s/", name);
}

void dfi__member_key(char key[KEY_SIZE], const char *name, uint32_t index)
{
	snprintf(key, KEY_SIZE, "barriers/%s/%u", name, index);
}

void *dfi__member_encode(const struct barrier_member *member, size_t *size)
{
	DfiFlow__Member message;
	DfiFlow__Node node;

	dfi_flow__member__init(&message);
	dfi__node_to_message(&member->node, &node);
	message.node = &node;
	message.id = member->id;
	message.n_members = member->n_members;
	message.round = member->round;
	message.set = member->set;
	message.lost = member->lost_id;
	return dfi__message_pack(&message.base, size);
}

int dfi__member_decode(
    const void *data, size_t size, struct barrier_member *member)
{
	DfiFlow__Member *message = dfi_flow__member__unpack(NULL, size, data);

	if (!message)
		return dfi__fail(
		    -EBADMSG, "registry: a barrier's entry is damaged");
	memset(member, 0, sizeof(*member));
	dfi__node_from_message(message->node, &member->node);
	member->id = message->id;
	member->n_members = message->n_members;
	member->round = message->round;
	member->set = message->set;
	member->lost_id = message->lost;
	dfi_flow__member__free_unpacked(message, NULL);
	return 0;
}

int dfi__members_init(
    struct barrier_members *members, uint32_t n, uint32_t self, uint64_t id)
{
	memset(members, 0, sizeof(*members));
	members->member = calloc(n, sizeof(members->member[0]));
	if (!members->member)
		return -ENOMEM;
	members->n = members->lost = n;
	members->self = self;
	members->id = id;
	return 0;
}

/* A hash of the participants that are attached; 0: some are missing. */
static uint64_t hash_set(const struct barrier_members *members)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	uint32_t i;

	for (i = 0; i < members->n; i++) {
		if (!members->member[i].present)
			return 0;
		hash = (hash ^ members->member[i].id) *
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
static void join(struct barrier_members *members)
{
	uint64_t set = hash_set(members);
	struct barrier_member *member;
	bool whole = set;
	uint32_t i;

	for (i = 0; set && i < members->n; i++) {
		member = &members->member[i];
		if (member->round && !member->lost_id)
			member->stale = member->set != set;
		whole &= !member->stale;
	}
	if (whole)
		members->set = set;
}

static void advance(struct barrier_members *members)
{
	uint64_t round, least = UINT64_MAX, most = 1;
	uint32_t i;

	for (i = 0; i < members->n; i++) {
		round = members->member[i].round;
		least = round < least ? round : least;
		most = round > most ? round : most;
	}
	/*
	 * A participant arrives at a round only after the round before, whose
	 * events may be missing here.
	 */
	if (least < most - 1)
		least = most - 1;
	if (least > members->completed)
		members->completed = least;
}

static void check_count(struct barrier_members *members, uint32_t index,
    const struct barrier_member *member)
{
	if (member->n_members == members->n || member->round || member->lost_id)
		return;
	members->disagree = true;
	members->other = *member;
	members->other_index = index;
}

/*
 * Whether this participant has joined. Before that, no participant counts on
 * it.
 */
static bool are_in(const struct barrier_members *members)
{
	return members->member[members->self].present;
}

/* Whether another participant has the index of an attached one. */
static bool is_taken(const struct barrier_members *members, uint32_t index,
    const struct barrier_member *member)
{
	return index < members->n && member_joined(members, index) &&
	    members->member[index].id != member->id && are_in(members);
}

/*
 * A participant's rounds have ended. If it has lost a participant of this use,
 * so has this one, whichever news comes first; and a round that was complete
 * for it was complete for all. Otherwise it belongs to an earlier use, and had
 * not arrived yet.
 */
static void leave(struct barrier_members *members, uint32_t index,
    const struct barrier_member *member)
{
	struct barrier_member *known = &members->member[index];
	uint32_t i;

	if (members->set && member->set == members->set &&
	    member->round > members->completed)
		members->completed = member->round;
	for (i = 0; i < members->n; i++)
		if (i != index && member_joined(members, i) &&
		    members->member[i].id == member->lost_id) {
			members->lost = i;
			return;
		}
	if (members->set) {
		members->lost = index;
		return;
	}
	*known = *member;
	known->present = known->stale = true;
}

void dfi__members_put(struct barrier_members *members, uint32_t index,
    const struct barrier_member *member)
{
	struct barrier_member *known;
	bool first, stale;

	if (members->lost < members->n || members->disagree)
		return;
	if (is_taken(members, index, member)) {
		members->lost = index;
		return;
	}
	if (index == members->self && member->id != members->id)
		return;
	check_count(members, index, member);
	if (members->disagree || index >= members->n)
		return;
	if (member->lost_id) {
		leave(members, index, member);
		return;
	}
	known = &members->member[index];
	first = !known->present || known->id != member->id;
	if (!first && member->round < known->round)
		return;
	stale = first ? member->round > 0 : known->stale;
	*known = *member;
	known->present = true;
	known->stale = stale;
	if (!members->set)
		join(members);
	else if (known->round && known->set != members->set)
		members->lost = index;
	if (members->set && members->lost == members->n)
		advance(members);
}

void dfi__members_delete(struct barrier_members *members, uint32_t index)
{
	if (index >= members->n || members->lost < members->n)
		return;
	if (member_joined(members, index) && are_in(members))
		members->lost = index;
	members->member[index].present = false;
}
