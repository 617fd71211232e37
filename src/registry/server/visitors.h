/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded room for connections that have not proved who they are. When there
 * are too many, one of them has to go: a random one, so that nobody can tell
 * how long to stay, and rather one of an origin (a user, an address) that has
 * many. No origin has more than half of the places.
 */
#ifndef DFI_REGISTRY_SERVER_VISITORS_H
#define DFI_REGISTRY_SERVER_VISITORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Origins with the same number share its places. */
#define VISITOR_ORIGINS 1024

/* Part of the connection. */
struct visitor_place {
	uint32_t index;  /* in the room */
	uint32_t origin; /* below VISITOR_ORIGINS */
	bool spent;      /* refused: the first to go */
};

struct visitor_room {
	struct visitor_place **places;
	uint32_t n, max;
	uint32_t n_of[VISITOR_ORIGINS];
	uint64_t seed;   /* of origins' numbers, */
	uint64_t random; /* and of the one that goes */
};

/* With room for max, or as many as the process has descriptors for. -ENOMEM. */
int dfi__visitors_init(struct visitor_room *room, uint32_t max);
void dfi__visitors_free(struct visitor_room *room);

/*
 * The number of a user, or of the peer's address of a TCP socket: false if it
 * is not connected any more.
 */
uint32_t dfi__visitors_user(const struct visitor_room *room, uint32_t user);
bool dfi__visitors_address(
    const struct visitor_room *room, int fd, uint32_t *origin);

/*
 * The one that has to go before another of this origin may enter, or NULL. The
 * caller ends that connection, and calls dfi__visitors_leave() for it.
 */
struct visitor_place *dfi__visitors_excess(
    struct visitor_room *room, uint32_t origin);

/* One that goes so that its descriptor is free; NULL: the room is empty. */
struct visitor_place *dfi__visitors_any(struct visitor_room *room);

/* The room is not full. */
void dfi__visitors_enter(
    struct visitor_room *room, struct visitor_place *place, uint32_t origin);
void dfi__visitors_leave(
    struct visitor_room *room, struct visitor_place *place);

#endif
