/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one watch that a client has in etcd: a stream of all changes of DFI's
 * keys, in order. It goes on at another member when one ends it.
 */
#ifndef DFI_REGISTRY_ETCD_STREAM_H
#define DFI_REGISTRY_ETCD_STREAM_H

#include <stdint.h>

struct etcd_client;

/* Begin with the changes of this revision. (loop) */
void dfi__stream_begin(struct etcd_client *client, uint64_t revision);
/* End it until the next beginning. (loop) */
void dfi__stream_end(struct etcd_client *client);
/* If it is at this endpoint, which does not answer, go to the next. (loop) */
void dfi__stream_blame(struct etcd_client *client, unsigned endpoint);
/* There is a new token. (loop) */
void dfi__stream_token(struct etcd_client *client);
/* Free what it has. (loop) */
void dfi__stream_free(struct etcd_client *client);

#endif
