/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client asks of etcd. Operations wait in a queue, in the order of the
 * calls that made them. Several run at once, but one that concerns a key only
 * after the earlier changes of that key.
 */
#ifndef DFI_REGISTRY_ETCD_OPERATION_H
#define DFI_REGISTRY_ETCD_OPERATION_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "exchange.h"
#include "registry/client/ops.h"

struct etcd_client;
struct etcd_watch;

enum operation_kind {
	/* Changes. */
	OP_PUT,
	OP_CREATE,  /* if the key doesn't exist; and reads watches */
	OP_RECLAIM, /* if it doesn't exist, or this client has put it last */
	OP_RENEW,   /* put, if this client has put it last */
	OP_RETIRE,  /* delete, if this client has put it last */
	OP_DELETE,  /* if it has the revision, or 0 */
	OP_UNDO,    /* delete, if it is from the put of this number */
	/* No changes. */
	OP_GET,
	OP_LIST,
	OP_JOIN,   /* reads watches */
	OP_REVOKE, /* the lease */
};

static inline bool operation_changes(enum operation_kind kind)
{
	return kind <= OP_UNDO;
}

/* A thread that waits for an operation; on its stack. */
struct waiter {
	pthread_cond_t ended;
	bool done; /* all members: protected by client->lock */
	int ret;
	char text[ERROR_TEXT_SIZE];
	uint64_t revision;
	struct registry_list list; /* of GET and LIST */
};

struct etcd_operation {
	TAILQ_ENTRY(etcd_operation) link;
	struct etcd_client *client;
	enum operation_kind kind;
	char *key; /* LIST: a prefix; JOIN: NULL */
	void *value;
	size_t size;
	unsigned flags;    /* of struct registry_put */
	uint64_t revision; /* of DELETE */
	uint64_t put;      /* its number; UNDO: of the other one */
	struct etcd_watch *watches[CLIENT_INTERESTS];
	size_t n_watches;
	struct waiter *waiter; /* NULL: nobody waits */
	bool running;
	bool abandoned; /* its waiter has left */
	bool repeated;  /* an earlier request may have taken effect */
	uint64_t fence; /* of the running request: the number, */
	uint64_t lease; /* and whose fence it is */
	struct registry_list list;
	struct exchange exchange;
};

/* NULL, with dfi_errmsg(): no memory. Copies key and value. Any thread. */
struct etcd_operation *dfi__operation_new(struct etcd_client *client,
    enum operation_kind kind, const char *key, const void *value, size_t size);
void dfi__operation_free(struct etcd_operation *operation);

/* Queue it; it is freed when it has ended. The loop starts it. */
void dfi__operation_queue(
    struct etcd_client *client, struct etcd_operation *operation);

/* Start what may run. (loop) */
void dfi__operation_start_all(struct etcd_client *client);

/* The waiter has left: a key that it wanted to create must not stay. */
void dfi__operation_abandon(
    struct etcd_client *client, struct etcd_operation *operation);

/* The client is lost: all that wait get this error, with dfi_errmsg(). */
void dfi__operation_fail_all(struct etcd_client *client, int err);

/* Free all; nobody waits. (loop) */
void dfi__operation_free_all(struct etcd_client *client);

#endif
