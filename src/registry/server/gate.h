/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a registry with TLS: connections that have not yet proved who
 * they are. They cost the registry little: their number is limited, they have a
 * deadline, and what is wrong with them is logged once a minute for each cause.
 * A connection that has passed becomes a session.
 */
#ifndef DFI_REGISTRY_SERVER_GATE_H
#define DFI_REGISTRY_SERVER_GATE_H

#include <stdbool.h>

struct gate;
struct server;
struct tls;

/* -ENOMEM; takes tls, if it succeeds. The rest runs on the registry's loop. */
int dfi__gate_create(
    struct server *server, struct tls *tls, struct gate **gate);

/* Disconnects who waits at it. NULL is allowed. */
void dfi__gate_destroy(struct gate *gate);

/* A new connection, which becomes the gate's, or is closed. */
void dfi__gate_admit(struct gate *gate, int fd);

/* End one of them, so that its descriptor is free; or false. gate: or NULL. */
bool dfi__gate_evict(struct gate *gate);

#endif
