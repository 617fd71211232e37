/* SPDX-License-Identifier: Apache-2.0 */
/* A client's lease and its fence, and what their end means. */
#ifndef DFI_REGISTRY_ETCD_LEASE_H
#define DFI_REGISTRY_ETCD_LEASE_H

#include <jansson.h>
#include <stdint.h>

struct etcd_client;

/* -ENOMEM. (loop) */
int dfi__lease_init(struct etcd_client *client);
/* (loop) */
void dfi__lease_free(struct etcd_client *client);

/* The body of a request for a new lease, whose id is drawn. */
json_t *dfi__lease_grant(struct etcd_client *client);
/* It was granted: give signs of life. (loop) */
void dfi__lease_begin(
    struct etcd_client *client, const json_t *answer, int64_t sent_at);
/* The body of a request that gives it back. */
json_t *dfi__lease_revoke(const struct etcd_client *client);

/* The body of a request that sets the fence of a new lease. */
json_t *dfi__fence_set(struct etcd_client *client);
/* Raise its number; no change starts until then. (loop) */
void dfi__fence_raise(struct etcd_client *client);

/* etcd has no such lease any more: take a new one. (loop) */
void dfi__lease_end(struct etcd_client *client);
/* Calls fail, and watches get LOST. (loop) */
void dfi__etcd_lose(struct etcd_client *client, int err, const char *text);

#endif
