/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of struct registry_ops, except for closing (open.c). */
#ifndef DFI_REGISTRY_ETCD_CALL_H
#define DFI_REGISTRY_ETCD_CALL_H

#include "operation.h"
#include "registry/client/ops.h"

int dfi__etcd_put(struct registry_client *base, const struct registry_put *put,
    int64_t deadline, uint64_t *revision);
int dfi__etcd_get(struct registry_client *base, const char *key,
    int64_t deadline, struct registry_value *value);
int dfi__etcd_list(struct registry_client *base, const char *prefix,
    int64_t deadline, struct registry_list *list);
int dfi__etcd_delete(struct registry_client *base, const char *key,
    uint64_t revision, int64_t deadline);
void dfi__etcd_renew(struct registry_client *base, const char *key,
    const void *value, size_t size);
void dfi__etcd_retire(struct registry_client *base, const char *key,
    const void *value, size_t size);
int dfi__etcd_join(struct registry_client *base,
    struct registry_interest *interests, size_t n, struct registry_entry *entry,
    int64_t deadline);
void dfi__etcd_unwatch(struct registry_watch *base);
void dfi__etcd_leave(struct registry_watch *base, const char *key);
void dfi__etcd_revoke(struct registry_client *base);

/* A waiter without an operation, for dfi__etcd_open(). */
void dfi__waiter_init(struct waiter *waiter);
/* Wait without having entered: whether it is done. */
bool dfi__waiter_wait(
    struct etcd_client *client, struct waiter *waiter, int64_t deadline);

#endif
