/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that a watch has reported, by which an implementation can tell what
 * has changed when its registry comes back, or leaves something out.
 */
#ifndef DFI_REGISTRY_CLIENT_REPORTED_H
#define DFI_REGISTRY_CLIENT_REPORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reported_key {
	struct reported_key *next; /* in expired */
	uint64_t hash;             /* of its value */
	/* Of its last change, and of its creation; if the watch needs them. */
	uint64_t revision, created;
	bool missing; /* the registry has not named it since it is back */
	bool seen;    /* in an answer that is being read */
	char key[];
};

struct reported_keys {
	void *tree; /* by key */
	struct reported_key *expired;
};

/* Find a key, or add it if requested. NULL: not found, or no memory. */
struct reported_key *dfi__reported(
    struct reported_keys *keys, const char *key, bool add);

void dfi__reported_forget(
    struct reported_keys *keys, struct reported_key *reported);

/* All are missing from now on. */
void dfi__reported_miss(struct reported_keys *keys);

/* Move all missing keys to expired. */
void dfi__reported_expire(struct reported_keys *keys);

/* Take the first expired key, for the caller to free; NULL: none is left. */
struct reported_key *dfi__reported_take(struct reported_keys *keys);

void dfi__reported_free(struct reported_keys *keys);

#endif
