/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's watches, and the keys that each of them has told of (watch.c).
 */
#ifndef DFI_REGISTRY_CLIENT_WATCH_H
#define DFI_REGISTRY_CLIENT_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client.h"
#include "registry/wire/wire.h"

struct known_key;

struct registry_watch {
	TAILQ_ENTRY(registry_watch) link;
	struct registry_client *client;
	uint64_t id; /* of the request that made it */
	bool made;   /* the registry has confirmed it */
	/* What it was told last of the connection: LOST, CUT or BACK. */
	enum registry_event_type told;
	bool sent;  /* again, in this attempt to connect again */
	bool asked; /* and not yet answered */
	bool own;   /* of dfi__watch_follow(): it may be refused */
	bool exact; /* of the key that is the prefix */
	char *prefix;
	void *known;               /* a tree of known_key, by key */
	struct known_key *expired; /* out of the tree, and not told yet */
	void (*fn)(void *arg, const struct registry_event *event);
	void *arg;
};

/* As dfi__client_watch() makes it, not yet asked for; NULL: no memory. */
struct registry_watch *dfi__watch_new(
    struct registry_client *client, const struct registry_interest *interest);

/* The request that makes it. */
void dfi__watch_fill(const struct registry_watch *watch,
    Dfi__Registry__Request *request, Dfi__Registry__Watch *op);

void dfi__watch_free(struct registry_watch *watch);

void dfi__watch_deliver(
    struct registry_client *client, const Dfi__Registry__Event *event);
/* LOST, CUT or BACK, to each watch that wasn't told that last. (loop) */
void dfi__watch_tell(
    struct registry_client *client, enum registry_event_type type);

/* The watch that came with the put of a key, its request's id. NULL: no memory.
 */
struct registry_watch *dfi__watch_follow(struct registry_client *client,
    uint64_t id, const struct registry_interest *interest);

/* End a watch at the registry, which may not know it. */
void dfi__client_send_unwatch(struct registry_client *client, uint64_t id);

/* Send it again; what it knew is missing until it is heard of. */
int dfi__watch_renew(
    struct registry_client *client, struct registry_watch *watch);

/* One that may be was refused: it hears nothing, so that nothing is missing. */
void dfi__watch_refused(struct registry_watch *watch);

/* The grace is over: what is still missing is deleted. (loop) */
void dfi__watch_expire_missing(struct registry_client *client);

/* Those that are made; one that is being made belongs to its call. */
void dfi__watch_free_all(struct registry_client *client);

#endif
