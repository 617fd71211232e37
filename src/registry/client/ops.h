/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an implementation of the registry's client provides. client.h has the
 * contracts: a call of an implementation has that of the calls which client.c
 * makes of it, and client.c has done the checks that are common to all.
 */
#ifndef DFI_REGISTRY_CLIENT_OPS_H
#define DFI_REGISTRY_CLIENT_OPS_H

#include "client.h"

/* Further flags of a put. */
enum {
	CLIENT_CREATE = 1 << 8,  /* -EEXIST if the key exists, */
	CLIENT_RECLAIM = 1 << 9, /* and its last put was by another client */
};

struct registry_put {
	const char *key;
	const void *value;
	size_t size;
	unsigned flags;
	bool (*over)(void *arg); /* see dfi__client_put_unless(), or NULL */
	void *over_arg;
};

/*
 * No call gets NULL for a client or a watch. Calls with a deadline do not come
 * from the loop's thread. Calls without a result leave dfi_errmsg() alone.
 */
struct registry_list;

struct registry_ops {
	void (*revoke)(struct registry_client *client);
	/* Frees the client. */
	void (*close)(struct registry_client *client);
	void (*set_grace)(struct registry_client *client, uint32_t ms);
	/* revision may be NULL. */
	int (*put)(struct registry_client *client,
	    const struct registry_put *put, int64_t deadline,
	    uint64_t *revision);
	int (*get)(struct registry_client *client, const char *key,
	    int64_t deadline, struct registry_value *value);
	int (*list)(struct registry_client *client, const char *prefix,
	    int64_t deadline, struct registry_list *list);
	int (*delete_key)(struct registry_client *client, const char *key,
	    uint64_t revision, int64_t deadline);
	void (*renew)(struct registry_client *client, const char *key,
	    const void *value, size_t size);
	void (*retire)(struct registry_client *client, const char *key,
	    const void *value, size_t size);
	/* n is at most CLIENT_INTERESTS. */
	int (*join)(struct registry_client *client,
	    struct registry_interest *interests, size_t n,
	    struct registry_entry *entry, int64_t deadline);
	void (*unwatch)(struct registry_watch *watch);
	void (*leave)(struct registry_watch *watch, const char *key);
};

/* The first member of an implementation's client. */
struct registry_client {
	const struct registry_ops *ops;
	struct loop *loop;
};

/* The first member of an implementation's watch. */
struct registry_watch {
	struct registry_client *client;
};

/* What a list has gathered. The caller of the list frees it, also if it fails.
 */
struct registry_list {
	struct registry_value *values;
	size_t count;
};

/* -ENOMEM: nothing was added. */
int dfi__registry_list_add(
    struct registry_list *list, const struct registry_value *value);

void dfi__registry_list_free(struct registry_list *list);

/* Copy a value whose memory is lent. -ENOMEM. */
int dfi__registry_value_copy(
    const struct registry_value *from, struct registry_value *to);

#endif
