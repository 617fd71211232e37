/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread may touch the client, and writing what it has to say (enter.c).
 * A thread enters to ask something, and writes it to the socket itself, so that
 * asking wakes no thread of this process. While libevent is needed for that, it
 * leaves it to the loop, and does not wait.
 */
#ifndef DFI_REGISTRY_CLIENT_ENTER_H
#define DFI_REGISTRY_CLIENT_ENTER_H

#include <stdbool.h>

#include "registry/wire/wire.h"

struct registry_client;

/*
 * Wait until nobody else has entered. On leaving, the requests that were sent
 * meanwhile are written. Between the two no other thread may be waited for.
 */
void dfi__client_enter(struct registry_client *client);
void dfi__client_exit(struct registry_client *client);

/* Whether requests go to client->unsent, as libevent is at the output. */
bool dfi__client_uses_unsent(const struct registry_client *client);

/* What client->post runs. (loop) */
void dfi__client_on_post(void *client);

/* Run fn(arg) entered and return what it returned. */
int dfi__client_do(
    struct registry_client *client, int (*fn)(void *arg), void *arg);

/* The same for what can't fail, which leaves dfi_errmsg() alone. */
void dfi__client_tell(
    struct registry_client *client, int (*fn)(void *arg), void *arg);

/* Give the request a number and write it. */
int dfi__client_send(
    struct registry_client *client, Dfi__Registry__Request *request);

#endif
