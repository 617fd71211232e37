/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread may use the client, and writing its requests (enter.c). A thread
 * enters to send a request, and writes it to the socket itself, so that a
 * request wakes no thread of this process. While only libevent may write, the
 * thread leaves it to the loop and does not wait.
 */
#ifndef DFI_REGISTRY_REMOTE_ENTER_H
#define DFI_REGISTRY_REMOTE_ENTER_H

#include <stdbool.h>

#include "registry/wire/wire.h"

struct remote_client;

/*
 * Wait until no other thread has entered. Leaving writes the requests that were
 * sent meanwhile. Between the two, do not wait for another thread.
 */
void dfi__client_enter(struct remote_client *client);
void dfi__client_exit(struct remote_client *client);

/* Tells whether requests go to client->unsent because libevent is writing. */
bool dfi__client_uses_unsent(const struct remote_client *client);

/* The function of client->post. (loop) */
void dfi__client_on_post(void *client);

/* Run fn(arg) entered and return what it returned. */
int dfi__client_do(
    struct remote_client *client, int (*fn)(void *arg), void *arg);

/* The same for what can't fail; leaves dfi_errmsg() alone. */
void dfi__client_do_infallible(
    struct remote_client *client, int (*fn)(void *arg), void *arg);

/* Give the request a number and write it. */
int dfi__client_send(
    struct remote_client *client, Dfi__Registry__Request *request);

#endif
