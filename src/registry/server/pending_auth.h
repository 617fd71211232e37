/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pending authentication of a registry with TLS: connections that have not
 * yet proved who they are. They cost the registry little: their number is
 * limited, they have a deadline, and what is wrong with them is logged once a
 * minute for each cause. A connection that has passed becomes a session.
 */
#ifndef DFI_REGISTRY_SERVER_PENDING_AUTH_H
#define DFI_REGISTRY_SERVER_PENDING_AUTH_H

#include <stdbool.h>

struct pending_auth;
struct server;
struct tls;

/* -ENOMEM; takes tls, if it succeeds. The rest runs on the registry's loop. */
int dfi__pending_auth_create(
    struct server *server, struct tls *tls, struct pending_auth **pending_auth);

/* Disconnects who waits at it. NULL is allowed. */
void dfi__pending_auth_destroy(struct pending_auth *pending_auth);

/* A new connection, which becomes the pending authentication's, or is closed.
 */
void dfi__pending_auth_admit(struct pending_auth *pending_auth, int fd);

/* End one of them, so that its descriptor is free; or false. pending_auth: or
 * NULL. */
bool dfi__pending_auth_evict(struct pending_auth *pending_auth);

#endif
