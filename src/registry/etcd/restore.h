/* SPDX-License-Identifier: Apache-2.0 */
/* How a client begins, and how it comes back when its lease has ended. */
#ifndef DFI_REGISTRY_ETCD_RESTORE_H
#define DFI_REGISTRY_ETCD_RESTORE_H

#include <stdint.h>

struct etcd_client;

/* -ENOMEM. (loop) */
int dfi__etcd_restore_start(struct etcd_client *client);
/* (loop) */
void dfi__etcd_restore_end(struct etcd_client *client);

/* Take a new lease, and read and set all again; also the first time. (loop) */
void dfi__etcd_restore_all(struct etcd_client *client);
/* The stream has a gap: read what is watched again. (loop) */
void dfi__etcd_restore_watches(struct etcd_client *client);
/* There was no memory for a change: as before, in a moment. (loop) */
void dfi__etcd_restore_gap(struct etcd_client *client);
/* The fence was raised. (loop) */
void dfi__etcd_restore_go_on(struct etcd_client *client);
/* The lease of a lost client lives. (loop) */
void dfi__etcd_restore_alive(struct etcd_client *client);

#endif
