/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry as a whole: its clients, its table, its limits. All of it
 * belongs to the registry's loop thread.
 *
 * A session is never freed while a callback uses it: it is doomed, and
 * dfi__server_settle(), the last step of every event callback, frees it.
 * Freeing a session ends its lease, which notifies other sessions, and may doom
 * them. That step also writes what the callback queued for its own client and
 * for others.
 */
#ifndef DFI_REGISTRY_SERVER_SERVER_H
#define DFI_REGISTRY_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <dfi/registry.h>

#include "base/log.h"
#include "key_tree.h"
#include "listen.h"
#include "table.h"
#include "turns.h"
#include "visitors.h"

struct acceptor;
struct event;
struct loop;
struct pending_auth;
struct session;
struct sync;

TAILQ_HEAD(session_list, session);

/* Why the registry refuses a connection before its greeting is accepted. */
enum refusal {
	REFUSED_USER,    /* its process runs as another user */
	REFUSED_CROWDED, /* too many connections have not greeted yet */
	REFUSED_FULL,    /* max_connections clients are connected */
	REFUSED_VERSION, /* it greets with another version, or asks first */
	REFUSED_GARBAGE, /* its bytes are not a message of the protocol */
	REFUSED_QUIET,   /* it sends no greeting in time */
	N_REFUSALS,
};

struct server {
	struct loop *loop;
	struct listen_socket listen;
	struct sync *sync; /* NULL: nothing is kept on disk */
	uint64_t store;    /* see Reply in dfi_registry.proto */
	uint32_t grace_ms; /* for clients to come back after a restart */
	struct acceptor *acceptor;
	struct pending_auth *pending_auth; /* NULL: there is no TLS */
	struct event *expiry_timer;
	struct table *table;
	struct session_list live, closing, doomed, unsent;
	struct visitor_room strangers; /* live, before their greeting */
	size_t n_sessions;             /* live, after it */
	size_t n_closing;
	struct tree members; /* by id, see session_lease.c */
	struct log_throttle refusals[N_REFUSALS];
	size_t max_connections;
	size_t max_output;
	size_t max_untold; /* bytes: above it, changes must wait */
	struct turns turns;
	uint32_t users[DFI_MAX_REGISTRY_USERS]; /* also served */
	uint32_t n_users;
	bool has_expired; /* live sessions may have expired, see expired_at */
	bool accept_failing;
	int64_t expiry_due; /* when expiry_timer fires; INT64_MAX: not set */
};

/* How long the start and the stop wait for the thread; only tests change it. */
extern uint32_t dfi__server_loop_ms;

/* Set the timer for the lease that is due next. */
void dfi__server_next_expiry(struct server *server);

/* A lease was granted that expires then: the timer fires no later. */
void dfi__server_arm_expiry(struct server *server, int64_t expiry);

#endif
