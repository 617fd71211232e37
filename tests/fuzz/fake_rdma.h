/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that is made by hand, and as much of rdma_cm as accepts and ends
 * connections: the functions of libibverbs and librdmacm that are called then,
 * which come before those of the libraries. Nothing is connected: what a
 * connection posts is shown to the target, which makes up what arrives.
 *
 * And in place of a context's control thread (base/loop.h), a loop that turns
 * when the target says so.
 */
#ifndef DFI_TESTS_FAKE_RDMA_H
#define DFI_TESTS_FAKE_RDMA_H

#include "transport/verbs/connection/connection.h"
#include "transport/verbs/connection/handshake.h"
#include "transport/verbs/data/message.h"
#include "transport/verbs/data/ring.h"

#define FAKE_RKEY 4711

/* What becomes of what a connection has posted. */
enum fake_sends {
	FAKE_COMPLETE,
	FAKE_WAIT,
	FAKE_FAIL,
};

extern struct ibv_context fake_context;
extern struct ibv_cq fake_arrivals;
extern struct ibv_srq fake_receives;

/* Of the objects that devices have: how many there are. */
extern unsigned fake_objects;

/* For the target to set. A request was posted to a connection; one is freed. */
extern void (*fake_posted)(
    struct verbs_conn *conn, const struct ibv_send_wr *wr);
extern void (*fake_freed)(struct verbs_conn *conn);
/* Who wants to connect is accepted, or not. */
extern void (*fake_answered)(
    struct rdma_cm_id *id, const struct verbs_handshake *answer, bool accepted);

/* What rdma_cm gives for a connection that is about to be made. */
struct rdma_cm_id *fake_id(void);

/* What rdma_cm says next, with that much private data. */
void fake_event(enum rdma_cm_event_type type, struct rdma_cm_id *id,
    const void *data, uint8_t size);

void fake_complete(struct verbs_conn *conn, enum fake_sends sends);

/* This is the next completion of what arrives. */
void fake_arrive(struct ibv_wc wc);

/* The control thread does what there is to do. */
void fake_turn(void);

#endif
