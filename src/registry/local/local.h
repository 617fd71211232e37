/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry inside a process: a table that the clients of one address
 * "local:NAME" share. It begins with the first client and ends with the last
 * one. There is no socket and no thread: the calling thread changes the table,
 * and the loops of the clients deliver the events.
 *
 * A forked child has none of its parent's registries: it begins with new ones.
 */
#ifndef DFI_REGISTRY_LOCAL_LOCAL_H
#define DFI_REGISTRY_LOCAL_LOCAL_H

#include "registry/client/client.h"

#define LOCAL_SCHEME "local:"

/*
 * dfi__client_open() for an address that begins with LOCAL_SCHEME. A lease ends
 * when its client is closed, and with the process.
 */
int dfi__local_open(
    struct loop *loop, const char *address, struct registry_client **client);

#endif
