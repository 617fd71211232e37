/* SPDX-License-Identifier: Apache-2.0 */
/* Reliable queue pairs: how they are made, broken and ended. */
#ifndef DFI_TRANSPORT_VERBS_CONNECTION_CONNECTION_H
#define DFI_TRANSPORT_VERBS_CONNECTION_CONNECTION_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include "transport/transport.h"
#include "transport/verbs/verbs.h"

struct verbs_conn;
struct handshake;

/* connection/connection.c */

/* NULL: out of memory. It isn't listed yet. */
struct verbs_conn *dfi__verbs_new_conn(
    struct verbs *verbs, struct rdma_cm_id *id, bool accepted);

/* Create the queue pair. Call it once the id has a device. */
int dfi__verbs_create_qp(struct verbs_conn *conn);

/*
 * Set what rdma_cm has no option for. Call it once the queue pair is connected.
 */
void dfi__verbs_tune(struct verbs_conn *conn);

struct rdma_conn_param dfi__verbs_conn_param(
    const struct verbs *verbs, const struct handshake *handshake);

/* Free a connection that isn't listed. */
void dfi__verbs_destroy_conn(struct verbs_conn *conn);

/* Free a connection; both locks are held, or nobody else is left. */
void dfi__verbs_free_conn(struct verbs_conn *conn);

/* connection/accept.c */

/*
 * Handle events of rdma_cm, until none are handled any more and so no new
 * connections come. Both on the control thread. -ENOMEM: quiet() is still to be
 * called.
 */
int dfi__verbs_listen_watch(struct verbs *verbs);
void dfi__verbs_unlisten_quiet(struct verbs *verbs);

/*
 * Make an id with a channel of its own, and bind it to an address and any port,
 * which opens the device there. false, with errno: it is not bound; *id is NULL
 * if none was made.
 */
bool dfi__verbs_open_id(const union ip *at, struct rdma_cm_id **id);

/*
 * Keep the device open until rdma_destroy_id(verbs->hold): librdmacm closes one
 * that was removed when the last id on it goes.
 */
int dfi__verbs_hold(struct verbs *verbs);
/* Listen; connections come once events are handled. */
int dfi__verbs_listen(struct verbs *verbs);
/* Frees all connections, which are drained. */
void dfi__verbs_unlisten(struct verbs *verbs);

/* connection/connect.c */

/* A connection to the process at an address for this writer alone. */
int dfi__verbs_connect(struct verbs *verbs, const void *writer,
    const char *address, const struct wait_limit *wait_limit,
    struct verbs_conn **conn);

/* connection/remote.c: the transport's operations. */

int dfi__verbs_remote_room(
    struct transport *transport, uint64_t size, uint64_t locked);
int dfi__verbs_remote_open(struct transport *transport, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct send_buffer *send_buffer,
    const struct wait_limit *wait_limit, struct remote **out);
void dfi__verbs_remote_close(struct remote *base);

/* connection/break.c */

int dfi__verbs_breaks_start(struct verbs *verbs);
/*
 * The control thread watches connections, until it stops that and they may be
 * freed. Both on that thread. -ENOMEM: quiet() is still to be called.
 */
int dfi__verbs_breaks_watch(struct verbs *verbs);
void dfi__verbs_breaks_quiet(struct verbs *verbs);
void dfi__verbs_breaks_stop(struct verbs *verbs);

/* connection/drain.c */

/* Have the queue pair end what is under way. The table lock is held, and nobody
 * posts to it any more. */
void dfi__verbs_stop_conn(struct verbs_conn *conn);

/* Whether all that was under way has ended, or the time for it has passed. */
bool dfi__verbs_is_drained(struct verbs_conn *conn);

/*
 * Wait until the writers whose end marks are here have gone, or are lost; a
 * third of the time that queue pairs try, 2 s, and the deadline, at most.
 */
void dfi__verbs_see_off(struct verbs *verbs, int64_t deadline);

/* Stop all connections, and wait until they are drained; a few ms, and 0.2 s at
 * most. No new ones come, but devices' reports still do. */
void dfi__verbs_drain_all(struct verbs *verbs);

#endif
