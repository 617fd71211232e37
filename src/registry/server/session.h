/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client's connection (session.c) as its requests see it (operations.c).
 */
#ifndef DFI_REGISTRY_SERVER_SESSION_H
#define DFI_REGISTRY_SERVER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "table.h"
#include "registry/wire/wire.h"

struct session;

/* When no more than that waits for a client, it is sent more. */
#define OUTPUT_RESUME (256 << 10)

/* Carry out what it has sent, as long as it may; returns how many requests. */
int dfi__session_read(struct session *session);

/* Read from its socket, or not, as its state says. */
void dfi__session_set_reading(struct session *session);

/* Carry out a request, which is a sign of life, and reply. */
void dfi__session_request(
    struct session *session, const Dfi__Registry__Request *request);

/* Whether it is one that changes keys. */
bool dfi__session_request_changes(const Dfi__Registry__Request *request);

void dfi__session_reply(struct session *session, Dfi__Registry__Reply *reply);

/*
 * Reply err and the current error text to request id (0: to none), log it, and
 * disconnect when the reply is written.
 */
void dfi__session_refuse(struct session *session, uint64_t id, int err);

/*
 * The client speaks this version: it may take its time from now on, and what it
 * still says on earlier connections is dropped. -ESTALE: this is one of those.
 */
int dfi__session_greeted(
    struct session *session, const Dfi__Registry__Hello *hello);

/* End what the client's earlier connections still hold, and them. */
void dfi__session_end_past(struct session *session);

/* A sign of life, for the client's lease. */
void dfi__session_lives(struct session *session);

void dfi__session_event(struct session *session, uint64_t watch,
    enum table_event_type type, const struct table_item *item);

/* The last bytes of the output were asked for: they don't count as unread. */
void dfi__session_snapshot(struct session *session, size_t bytes);

#endif
