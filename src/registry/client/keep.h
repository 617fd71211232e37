/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that the client sets again when the connection comes back (keep.c).
 */
#ifndef DFI_REGISTRY_CLIENT_KEEP_H
#define DFI_REGISTRY_CLIENT_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "registry/wire/wire.h"

struct registry_client;
struct registry_watch;

/* A key that is to be set again when the connection comes back. */
struct kept_key {
	TAILQ_ENTRY(kept_key) link;
	char *key;
	void *value;
	size_t size;
	unsigned flags;
	struct registry_watch *watch; /* CLIENT_SHARED: for its deletion */
	bool sent;                    /* in this attempt */
	bool stale;                   /* has changed since */
	uint64_t request;             /* 0: none is unanswered */
	bool leaves;                  /* once it is known to be ours */
};

/* A request has succeeded: keep its key, or do not any more. */
void dfi__keep_note(struct registry_client *client,
    const Dfi__Registry__Request *request, unsigned flags);

/* Do not set the key again. */
void dfi__keep_drop(struct registry_client *client, const char *key);
void dfi__keep_free_all(struct registry_client *client);
/* Another value is to be set again. */
void dfi__keep_change(struct registry_client *client, struct kept_key *kept,
    const void *value, size_t size);
/* NULL: it was never set, or is somebody else's since. */
struct kept_key *dfi__keep_find(
    struct registry_client *client, const char *key);

#endif
