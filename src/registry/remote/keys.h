/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on keys (keys.c). */
#ifndef DFI_REGISTRY_REMOTE_KEYS_H
#define DFI_REGISTRY_REMOTE_KEYS_H

#include "registry/client/ops.h"

struct remote_client;

/* Delete a key if its revision matches (0: any), without an answer. */
int dfi__client_send_delete(
    struct remote_client *client, const char *key, uint64_t revision);

/* Stop keeping a key, and delete it without waiting for an answer. */
void dfi__client_send_withdrawal(struct remote_client *client, const char *key);

/*
 * The same, if the key is ours. While the client restores, that is not known
 * yet, and the key is deleted later.
 */
void dfi__client_withdraw(struct remote_client *client, const char *key);

/* Their contracts are those of struct registry_ops. */
int dfi__remote_put(struct registry_client *base,
    const struct registry_put *put, int64_t deadline, uint64_t *revision);
int dfi__remote_get(struct registry_client *base, const char *key,
    int64_t deadline, struct registry_value *value);
int dfi__remote_list(struct registry_client *base, const char *prefix,
    int64_t deadline, struct registry_list *list);
int dfi__remote_delete(struct registry_client *base, const char *key,
    uint64_t revision, int64_t deadline);
void dfi__remote_renew(struct registry_client *base, const char *key,
    const void *value, size_t size);
void dfi__remote_retire(struct registry_client *base, const char *key,
    const void *value, size_t size);

#endif
