/* SPDX-License-Identifier: Apache-2.0 */
/* The client's watches, and the keys that each has reported (watch.c). */
#ifndef DFI_REGISTRY_REMOTE_WATCH_H
#define DFI_REGISTRY_REMOTE_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "registry/client/ops.h"
#include "registry/client/reported.h"
#include "registry/wire/wire.h"

struct remote_client;

struct remote_watch {
	struct registry_watch base;
	TAILQ_ENTRY(remote_watch) link;
	uint64_t id; /* of the request that made it; in the tree by it */
	bool made;   /* the registry has confirmed it */
	/* What it was last notified of: LOST, CUT or BACK. */
	enum registry_event_type reported;
	bool sent;  /* it must be made again in this attempt */
	bool asked; /* its request was sent and not answered */
	bool own;   /* made by dfi__watch_follow(): it may be refused */
	bool exact; /* only of the key that prefix is */
	char *prefix;
	struct reported_keys keys;
	void (*fn)(void *arg, const struct registry_event *event);
	void *arg;
};

/* Make a watch that is not requested yet; NULL: no memory. */
struct remote_watch *dfi__watch_new(
    struct remote_client *client, const struct registry_interest *interest);

/* Fill in the request that makes it. */
void dfi__watch_fill(const struct remote_watch *watch,
    Dfi__Registry__Request *request, Dfi__Registry__Watch *op);

void dfi__watch_free(struct remote_watch *watch);

void dfi__watch_deliver(
    struct remote_client *client, const Dfi__Registry__Event *event);
/* Report LOST, CUT or BACK to each watch whose last report differs. (loop) */
void dfi__watch_notify(
    struct remote_client *client, enum registry_event_type type);

/*
 * Put the watch, with the id of its request, at the end of the list and into
 * the tree. -ENOMEM: neither, and the watch is ended at the registry.
 */
int dfi__watch_add(
    struct remote_client *client, struct remote_watch *watch, uint64_t id);
/* Take it out of both. A walk that would go on there goes on behind it. */
void dfi__watch_remove(
    struct remote_client *client, struct remote_watch *watch);
/* NULL: there is none, or not any more. */
struct remote_watch *dfi__watch_find(
    const struct remote_client *client, uint64_t id);

/* Make the watch of a key's put; id is its request's. NULL: no memory. */
struct remote_watch *dfi__watch_follow(struct remote_client *client,
    uint64_t id, const struct registry_interest *interest);

/* End a watch at the registry, which may not have it. */
void dfi__client_send_unwatch(struct remote_client *client, uint64_t id);

/* Request it again; its keys count as missing until they are seen. */
int dfi__watch_renew(struct remote_client *client, struct remote_watch *watch);

/* The registry refused this watch: none of its keys count as missing. */
void dfi__watch_refused(struct remote_watch *watch);

/* The grace is over: delete what is still missing. (loop) */
void dfi__watch_expire_missing(struct remote_client *client);

/* Their contracts are those of struct registry_ops. */
void dfi__remote_unwatch(struct registry_watch *base);
void dfi__remote_leave(struct registry_watch *base, const char *key);

/* Free the watches that are made; a call owns one that is not. */
void dfi__watch_free_all(struct remote_client *client);

#endif
