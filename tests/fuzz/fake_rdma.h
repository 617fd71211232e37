/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A made-up device, with the part of rdma_cm that accepts and ends connections.
 * It defines the functions of libibverbs and librdmacm that are called then,
 * and the linker prefers them to the libraries'. Nothing is connected: the fuzz
 * target sees what a connection posts, and makes up what arrives.
 *
 * It also replaces a context's control thread (base/loop.h) by a loop that
 * turns when the fuzz target says so.
 */
#ifndef DFI_TESTS_FAKE_RDMA_H
#define DFI_TESTS_FAKE_RDMA_H

#include "transport/verbs/connection/connection.h"
#include "transport/verbs/connection/handshake.h"
#include "transport/verbs/data/message.h"
#include "transport/verbs/data/ring.h"

#define FAKE_RKEY 4711

/* What happens to a posted request. */
enum fake_sends {
	FAKE_COMPLETE,
	FAKE_WAIT,
	FAKE_FAIL,
};

extern struct ibv_context fake_context;
extern struct ibv_cq fake_arrivals;
extern struct ibv_srq fake_receives;

/* The number of objects that the devices have. */
extern unsigned fake_objects;

/* Callbacks of the fuzz target. A request was posted to a connection. */
extern void (*fake_posted)(
    struct verbs_conn *conn, const struct ibv_send_wr *wr);
extern void (*fake_freed)(struct verbs_conn *conn);
/* A connection request was accepted or refused. */
extern void (*fake_answered)(
    struct rdma_cm_id *id, const struct handshake *answer, bool accepted);

/* An id as rdma_cm gives it for a connection that is about to be made. */
struct rdma_cm_id *fake_id(void);

/* The next event of rdma_cm, with its private data. */
void fake_event(enum rdma_cm_event_type type, struct rdma_cm_id *id,
    const void *data, uint8_t size);

void fake_complete(struct verbs_conn *conn, enum fake_sends sends);

/* Add the next completion of a receive. */
void fake_arrive(struct ibv_wc wc);

/* Run the control thread's loop once. */
void fake_turn(void);

#endif
