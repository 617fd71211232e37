/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded room for connections that have not proved their identity. If there
 * are too many, one is closed: a random one, so that nobody can predict it, and
 * preferably one of an origin (a user, an address) with many. No origin has
 * more than half of the entries.
 */
#ifndef DFI_REGISTRY_SERVER_VISITORS_H
#define DFI_REGISTRY_SERVER_VISITORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Origins with the same number share its entries. */
#define VISITOR_ORIGINS 1024

/* Part of the connection. */
struct visitor_entry {
	uint32_t index;  /* in the room */
	uint32_t origin; /* below VISITOR_ORIGINS */
	bool spent;      /* refused: the first to go */
};

struct visitor_room {
	struct visitor_entry **entries;
	uint32_t n, max;
	uint32_t n_of[VISITOR_ORIGINS];
	uint64_t seed;   /* of origins' numbers, */
	uint64_t random; /* and of the entry that is freed */
};

/* Make room for max, or as many as the process has descriptors for. -ENOMEM. */
int dfi__visitors_init(struct visitor_room *room, uint32_t max);
void dfi__visitors_free(struct visitor_room *room);

/*
 * Get the number of a user, or of the peer's address of a TCP socket: false if
 * the socket is not connected any more.
 */
uint32_t dfi__visitors_user(const struct visitor_room *room, uint32_t user);
bool dfi__visitors_address(
    const struct visitor_room *room, int fd, uint32_t *origin);

/*
 * Returns the one to close before another of this origin may enter, or NULL.
 * The caller closes that connection, and calls dfi__visitors_leave() for it.
 */
struct visitor_entry *dfi__visitors_excess(
    struct visitor_room *room, uint32_t origin);

/* Returns one to close for its descriptor; NULL: the room is empty. */
struct visitor_entry *dfi__visitors_any(struct visitor_room *room);

/* Enter a room that is not full. */
void dfi__visitors_enter(
    struct visitor_room *room, struct visitor_entry *entry, uint32_t origin);
void dfi__visitors_leave(
    struct visitor_room *room, struct visitor_entry *entry);

#endif
