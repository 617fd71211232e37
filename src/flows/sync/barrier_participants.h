/* SPDX-License-Identifier: Apache-2.0 */
/* The participants of a barrier, as the registry reports them in order. */
#ifndef DFI_FLOWS_SYNC_BARRIER_PARTICIPANTS_H
#define DFI_FLOWS_SYNC_BARRIER_PARTICIPANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "flows/descriptor/descriptor.h"

/* The entry of a participant. */
struct barrier_participant {
	struct node node;
	uint64_t id;    /* random, unique for each opened handle */
	uint64_t round; /* the round it has arrived at, or, if lost_id is set,
			   the last complete round; 0: none */
	uint64_t set; /* hash of the participants it waits for; 0 in round 0 */
	uint64_t lost_id;        /* a participant it has lost; it then leaves */
	uint32_t n_participants; /* the number of participants it expects */
	bool present;            /* not in the registry */
	/*
	 * It belongs to an earlier use of the name, and counts as absent. Not
	 * in the registry.
	 */
	bool stale;
};

struct barrier_participants {
	struct barrier_participant *participant;
	uint32_t n, self;
	uint64_t id;        /* of self */
	uint64_t set;       /* 0: not all were attached at once so far */
	uint64_t completed; /* rounds */
	/* If one of these is set, the rounds end. */
	uint32_t lost; /* the participant that left, or n */
	bool disagree;
	struct barrier_participant other; /* one that disagrees about n */
	uint32_t other_index;
};

/* NULL: no memory. Freed with free(). */
void *dfi__participant_encode(
    const struct barrier_participant *participant, size_t *size);
/* -EBADMSG, -ENOMEM. present and stale are false. */
int dfi__participant_decode(
    const void *data, size_t size, struct barrier_participant *participant);

/*
 * The key of participant index, "barriers/<name>/<index>", and the common
 * prefix of all.
 */
void dfi__participant_key(char key[KEY_SIZE], const char *name, uint32_t index);
void dfi__participant_prefix(char key[KEY_SIZE], const char *name);

/* -ENOMEM, without a text. */
int dfi__participants_init(struct barrier_participants *participants,
    uint32_t n, uint32_t self, uint64_t id);

/* The entry of a participant was created or changed. */
void dfi__participants_put(struct barrier_participants *participants,
    uint32_t index, const struct barrier_participant *participant);

/* The entry of a participant was deleted. */
void dfi__participants_delete(
    struct barrier_participants *participants, uint32_t index);

/* Whether a participant is attached, in this use of the name. */
static inline bool participant_joined(
    const struct barrier_participants *participants, uint32_t index)
{
	return participants->participant[index].present &&
	    !participants->participant[index].stale;
}

#endif
