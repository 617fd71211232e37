/* SPDX-License-Identifier: Apache-2.0 */
/* A barrier's members, as the registry tells of them in order. */
#ifndef DFI_FLOWS_SYNC_BARRIER_MEMBERS_H
#define DFI_FLOWS_SYNC_BARRIER_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "flows/descriptor/descriptor.h"

/* A member's entry. */
struct barrier_member {
	struct node node;
	uint64_t id;      /* random, unique for each opened handle */
	uint64_t round;   /* it has arrived at, or, if lost_id is set, the last
			   * that was complete; 0: none */
	uint64_t set;     /* hash of the members it waits for; 0 in round 0 */
	uint64_t lost_id; /* of whom it has lost; so it is about to leave */
	uint32_t n_members; /* that it counts on */
	bool present;       /* not in the registry */
	/*
	 * It belongs to an earlier use of the name, of which we are not a
	 * member: it counts as absent. Not in the registry.
	 */
	bool stale;
};

struct barrier_members {
	struct barrier_member *member;
	uint32_t n, self;
	uint64_t id;        /* of self */
	uint64_t set;       /* 0: not all were there at once so far */
	uint64_t completed; /* rounds */
	/* Once one of these is set the rounds end. */
	uint32_t lost; /* the member that left, or n */
	bool disagree;
	struct barrier_member other; /* who disagrees about n */
	uint32_t other_index;
};

/* NULL: no memory. Freed with free(). */
void *dfi__member_encode(const struct barrier_member *member, size_t *size);
/* -EBADMSG, -ENOMEM. present and stale are false. */
int dfi__member_decode(
    const void *data, size_t size, struct barrier_member *member);

/*
 * The key of member index, "barriers/<name>/<index>", and without the index the
 * prefix of all.
 */
void dfi__member_key(char key[KEY_SIZE], const char *name, uint32_t index);
void dfi__member_prefix(char key[KEY_SIZE], const char *name);

/* -ENOMEM, without a text. */
int dfi__members_init(
    struct barrier_members *members, uint32_t n, uint32_t self, uint64_t id);

/* The entry of a member has been made or changed. */
void dfi__members_put(struct barrier_members *members, uint32_t index,
    const struct barrier_member *member);

/* It is gone. */
void dfi__members_delete(struct barrier_members *members, uint32_t index);

/* Whether a member is there, and of our use of the name. */
static inline bool member_joined(
    const struct barrier_members *members, uint32_t index)
{
	return members->member[index].present && !members->member[index].stale;
}

#endif
