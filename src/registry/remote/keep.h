/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that the client sets again after a lost connection (keep.c). */
#ifndef DFI_REGISTRY_REMOTE_KEEP_H
#define DFI_REGISTRY_REMOTE_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "registry/wire/wire.h"

struct remote_client;
struct remote_watch;

/* A key that is set again after a lost connection. */
struct kept_key {
	TAILQ_ENTRY(kept_key) link;
	char *key;
	void *value;
	size_t size;
	unsigned flags;
	struct remote_watch *watch; /* CLIENT_SHARED: its deletion */
	bool sent;                  /* in this attempt */
	bool stale;                 /* it has changed since */
	uint64_t request;           /* 0: no request is unanswered */
	bool leaves;                /* delete it once it is known to be ours */
	bool found; /* while resuming: the registry has it, see resume.c */
};

/* A request has succeeded: keep its key, or stop keeping it. */
void dfi__keep_note(struct remote_client *client,
    const Dfi__Registry__Request *request, unsigned flags);

/* Stop keeping the key. */
void dfi__keep_drop(struct remote_client *client, const char *key);
void dfi__keep_free_all(struct remote_client *client);
/* Change the value that is set again. */
void dfi__keep_change(struct remote_client *client, struct kept_key *kept,
    const void *value, size_t size);
/* NULL: it was never set, or belongs to another client since. */
struct kept_key *dfi__keep_find(struct remote_client *client, const char *key);

#endif
