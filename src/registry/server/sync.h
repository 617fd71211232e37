/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of a registry that keeps its state on disk. Requests that change keys
 * wait until the loop has read those of the other clients that are ready: they
 * are a sync group, which is stored by one fdatasync, then carried out, and
 * then acknowledged. So nobody sees a change that a crash could take back.
 *
 * If a group can't be stored, its requests are refused, with the reason, and
 * nothing has changed. The ends of leases, and of keys that are bound to one,
 * are carried out nevertheless: their owners are gone, or delete them again
 * after a restart.
 *
 * A registry without state has none of this (server.sync is NULL): then calls
 * that get a session or a server do what is to be done at once. All of it runs
 * on the registry's thread.
 */
#ifndef DFI_REGISTRY_SERVER_SYNC_H
#define DFI_REGISTRY_SERVER_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "registry/wire/wire.h"

struct event_base;
struct server;
struct session;
struct sync;

/*
 * Open the state directory, and restore the table and the leases. Errors: see
 * dfi__journal_directory_open() and dfi__journal_open().
 */
int dfi__sync_create(struct server *server, const char *path);

/* Begin: end the leases of processes that are gone. -ENOMEM. */
int dfi__sync_start(struct server *server, struct event_base *base);

/* Store the ends of leases so far. From now on, leases stay in the journal. */
void dfi__sync_stop(struct server *server);
void dfi__sync_destroy(struct server *server);

/* Tells whether the message must wait for its group. */
bool dfi__sync_takes(
    const struct session *session, const Dfi__Registry__Message *message);

/* The session has held a change: it is for the next group. */
void dfi__sync_enqueue(struct session *session);
void dfi__sync_dequeue(struct session *session);

/* The session has got a lease, or taken one over. */
void dfi__sync_granted(struct session *session);

/* End a lease and its keys, once that is stored. */
void dfi__sync_end_lease(struct server *server, uint64_t lease);

/* Expire leases that are due, once that is stored. */
void dfi__sync_expire(struct server *server);

/* Clients whose requests wait for their group are alive. */
void dfi__sync_keep_alive(struct server *server);

#endif
