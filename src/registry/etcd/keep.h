/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that a client sets again when its lease has ended. */
#ifndef DFI_REGISTRY_ETCD_KEEP_H
#define DFI_REGISTRY_ETCD_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct etcd_client;

struct kept_key {
	TAILQ_ENTRY(kept_key) link;
	char *key;
	void *value;
	size_t size;
	unsigned flags;  /* CLIENT_LEASED, CLIENT_SHARED, CLIENT_ONCE */
	uint64_t put;    /* of its next restoration */
	bool sent;       /* in this restoration */
	int64_t gone_at; /* when the stream reported its end; 0: it is there */
};

/* A put has succeeded: keep the key, or with flags 0 stop keeping it. */
void dfi__etcd_keep(struct etcd_client *client, const char *key,
    const void *value, size_t size, unsigned flags);
void dfi__etcd_keep_drop(struct etcd_client *client, const char *key);
void dfi__etcd_keep_free_all(struct etcd_client *client);
/* Change the value that is set again. */
void dfi__etcd_keep_change(struct etcd_client *client, struct kept_key *kept,
    const void *value, size_t size);
/* NULL: it was never set, or was deleted, or belongs to another client. */
struct kept_key *dfi__etcd_keep_find(
    const struct etcd_client *client, const char *key);

/*
 * The stream tells that a key is gone. If others may delete it, it was theirs,
 * or the lease has ended: dfi__etcd_keep_settle() drops those that were gone
 * before a renewal of the lease was sent, which has succeeded.
 */
void dfi__etcd_keep_gone(struct etcd_client *client, const char *key);
void dfi__etcd_keep_settle(struct etcd_client *client, int64_t sent_at);

#endif
