/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a client of etcd. Each file has a header with its operations:
 * exchange.h, operation.h, lease.h, keep.h, watch.h, restore.h.
 *
 * The thread that has entered the client owns all of it, unless a comment says
 * otherwise. (loop) marks functions for the loop's thread, which alone uses
 * libcurl and libevent. Other threads queue operations, and post to the loop.
 */
#ifndef DFI_REGISTRY_ETCD_STATE_H
#define DFI_REGISTRY_ETCD_STATE_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "base/loop.h"
#include "endpoints.h"
#include "etcd.h"
#include "exchange.h"
#include "http.h"

#define ETCD_KEY_MAX 512
#define ETCD_VALUE_MAX 65536

/*
 * What stands in front of each value: who has put it, the number of that put,
 * and a 0 byte. Big-endian, so that etcd, which compares values bytewise, can
 * tell whose a key is: id < value < id + 1.
 */
#define VALUE_ID 8
#define VALUE_PUT 16
#define VALUE_HEADER 17

struct etcd_operation;
struct etcd_watch;
struct event;
struct kept_key;
struct waiter;
struct watched;

TAILQ_HEAD(exchange_list, exchange);
TAILQ_HEAD(operation_list, etcd_operation); /* operation.h */
TAILQ_HEAD(kept_list, kept_key);            /* keep.h */
TAILQ_HEAD(etcd_watch_list, etcd_watch);    /* watch.h */

/* The stream of all changes of DFI's keys (stream.c). */
struct stream {
	struct http_request http;
	char *body;
	struct event *timer; /* starts it again */
	uint64_t first;      /* the revision that it has begun with */
	uint64_t next;       /* the first revision that it has not reported */
	uint64_t seen;       /* the last one that it has reported */
	unsigned endpoint;
	unsigned n_failed;
	bool wanted; /* a revision to begin at is known */
};

/*
 * The fence: a key that is bound to the lease, with a number. Each change is
 * made only if the fence has the number that the client knows. If it does not
 * know whether a change was made, it raises the number first: from then on, a
 * request that was sent before has no effect.
 */
struct fence {
	char name[64]; /* of the lease */
	uint64_t number;
	bool rising;
	struct exchange exchange;
};

struct lease {
	uint64_t id;        /* 0: none */
	uint32_t wanted_ms; /* as dfi__client_open() got it */
	uint32_t ttl_ms;    /* as etcd granted it */
	int64_t renewed_at; /* when the last renewal that succeeded was sent */
	struct exchange exchange;
	struct event *timer; /* renews it */
	struct event *end;   /* when it may have ended */
};

#define RESTORE_BATCH 32 /* of etcd's 128 operations of a transaction */

/* What brings a client back whose lease has ended (restore.c). */
enum restore_step {
	RESTORE_NOTHING,
	RESTORE_GRANT,    /* a new lease */
	RESTORE_FENCE,    /* its fence; then the stream begins */
	RESTORE_REVISION, /* the lease lives: where the stream begins */
	RESTORE_WATCHES,  /* what has changed meanwhile */
	RESTORE_KEYS,     /* the keys of this client */
};

struct restore {
	enum restore_step step;
	struct waiter *opener; /* of dfi__etcd_open(), or NULL */
	bool leased;           /* the lease lives: keys are not set again */
	bool anew;             /* etcd has lost its data */
	bool gap;              /* there was no memory for a change */
	uint64_t seen;         /* the greatest revision before */
	struct exchange exchange;
	struct etcd_watch *watches[RESTORE_BATCH];
	char *keys[RESTORE_BATCH];
	unsigned n;          /* in this batch */
	struct event *timer; /* for the next attempt */
	struct event *grace_timer;
};

struct etcd_client {
	struct registry_client base;
	struct etcd_endpoints at;
	struct http_files files;
	char *file_names[3];   /* of files */
	char *user, *password; /* NULL: none */
	struct http *http;
	uint64_t id; /* random; who has put a key */
	uint64_t n_puts;
	uint64_t hash_seed; /* random: others choose the values */
	uint64_t revision;  /* the greatest that it has named */

	/* exchange.c */
	unsigned endpoint; /* where requests go */
	int64_t heard_at;  /* when an endpoint last did anything */
	char *token;       /* NULL: none yet */
	struct exchange authentication;
	struct exchange_list exchanges;

	struct fence fence;
	struct lease lease;
	struct stream stream;
	struct restore restore;

	bool open;    /* dfi__etcd_open() has succeeded */
	bool lost;    /* calls fail; see lost_err */
	bool cut;     /* and nothing was heard for a lease's time */
	bool revoked; /* the lease was given back */
	bool closing;
	int lost_err;
	char lost_text[ERROR_TEXT_SIZE];

	struct operation_list operations; /* in the order of their calls */
	unsigned n_running;
	bool starting;         /* in dfi__operation_start_all() */
	struct loop_post post; /* makes the loop start them */
	struct loop_post end;  /* makes it free the client */

	struct kept_list kept;
	void *kept_tree; /* the same, by key */
	struct etcd_watch_list watches;
	void *watched_tree; /* the same, by what they watch */
	/* How many watched prefixes have this length. */
	unsigned n_prefixes[ETCD_KEY_MAX + 1];
	/* Where a walk that runs functions of watches goes on; or NULL. */
	struct etcd_watch *next_watch, *next_heard;
	struct etcd_watch *filling; /* the one whose function runs, or NULL */
	_Atomic uint32_t grace_ms;

	pthread_mutex_t entrance; /* recursive; held while inside */
	pthread_mutex_t lock; /* protects the calls' results and n_callers */
	pthread_cond_t no_caller;
	unsigned n_callers; /* threads that wait for an operation */
};

static inline struct etcd_client *etcd_of(struct registry_client *base)
{
	return (struct etcd_client *)base;
}

static inline void etcd_enter(struct etcd_client *client)
{
	pthread_mutex_lock(&client->entrance);
}

static inline void etcd_exit(struct etcd_client *client)
{
	pthread_mutex_unlock(&client->entrance);
}

#endif
