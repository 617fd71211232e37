/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a registry with TLS: connections that have not yet proved who
 * they are. They cost the registry little: they are limited by themselves, have
 * a deadline, and what is wrong with them is logged, not more than once a
 * minute for each cause. Who has passed becomes a session.
 */
#ifndef DFI_REGISTRY_GATE_H
#define DFI_REGISTRY_GATE_H

struct gate;
struct server;
struct tls;

/* -ENOMEM; takes tls, if it succeeds. The rest runs on the registry's loop. */
int dfi__gate_create(
    struct server *server, struct tls *tls, struct gate **gate);

/* Disconnects who waits at it. NULL is allowed. */
void dfi__gate_destroy(struct gate *gate);

/*
 * A new connection, which becomes the gate's, or is closed. Children close it
 * already (base/fork_files.h).
 */
void dfi__gate_admit(struct gate *gate, int fd);

#endif
