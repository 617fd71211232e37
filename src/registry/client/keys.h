/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other files of the client ask about keys without waiting (keys.c).
 */
#ifndef DFI_REGISTRY_CLIENT_KEYS_H
#define DFI_REGISTRY_CLIENT_KEYS_H

struct registry_client;

/* Do not keep a key, and delete it without waiting for an answer. */
void dfi__client_send_withdrawal(
    struct registry_client *client, const char *key);

/* The same, if the key is ours; while restoring, as soon as that is known. */
void dfi__client_withdraw(struct registry_client *client, const char *key);

#endif
