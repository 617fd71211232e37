/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on keys that are sent without waiting (keys.c). */
#ifndef DFI_REGISTRY_CLIENT_KEYS_H
#define DFI_REGISTRY_CLIENT_KEYS_H

#include <stdint.h>

struct registry_client;

/* Delete a key if its revision matches (0: any), without an answer. */
int dfi__client_send_delete(
    struct registry_client *client, const char *key, uint64_t revision);

/* Stop keeping a key, and delete it without waiting for an answer. */
void dfi__client_send_withdrawal(
    struct registry_client *client, const char *key);

/* The same, if the key is ours; while restoring, once that is known. */
void dfi__client_withdraw(struct registry_client *client, const char *key);

#endif
