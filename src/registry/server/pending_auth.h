/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to a registry with TLS that have not yet proved their identity.
 * They cost the registry little: their number is limited, they have a deadline,
 * and the log reports each cause of failure once a minute. A connection that
 * has passed becomes a session.
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

/* Disconnects all that wait. NULL is allowed. */
void dfi__pending_auth_destroy(struct pending_auth *pending_auth);

/* Admit a new connection, or close it. */
void dfi__pending_auth_admit(struct pending_auth *pending_auth, int fd);

/*
 * End one of them, to free its descriptor; false: there is none. pending_auth
 * may be NULL.
 */
bool dfi__pending_auth_evict(struct pending_auth *pending_auth);

#endif
