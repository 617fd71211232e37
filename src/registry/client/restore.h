/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a lost connection back, and setting again what went with it
 * (restore.c).
 */
#ifndef DFI_REGISTRY_CLIENT_RESTORE_H
#define DFI_REGISTRY_CLIENT_RESTORE_H

#include <stdbool.h>

#include "registry/wire/wire.h"

struct kept_key;
struct registry_client;

/* Before the connection is used: what restoring needs. -ENOMEM. (loop) */
int dfi__restore_init(struct registry_client *client);
void dfi__restore_free(struct registry_client *client);

/* The connection is lost: get it back. (loop) */
void dfi__restore_begin(struct registry_client *client);

/* What has come of an attempt; the stream is closed. (loop) */
void dfi__restore_failed(struct registry_client *client, const char *why);

/* While restoring: there is progress, be it part of an answer. (loop) */
void dfi__restore_heard(struct registry_client *client);

/* A reply has come while the client restores. (loop) */
void dfi__restore_answer(
    struct registry_client *client, const Dfi__Registry__Reply *reply);

/* An unanswered request of restoring does not matter any more. (loop) */
void dfi__restore_forget(struct registry_client *client);

/* While restoring: a kept key has changed. */
void dfi__restore_renew(struct registry_client *client, struct kept_key *kept);

/*
 * While restoring: a key is to go. Whether it is known to be ours; else it is
 * not set again, or goes if it turns out to be.
 */
bool dfi__restore_leave(struct registry_client *client, struct kept_key *kept);

/* Take the next steps, soon: client.kicked was set. (loop) */
void dfi__restore_go_on(struct registry_client *client);

#endif
