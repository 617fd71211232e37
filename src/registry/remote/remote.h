/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of a registry in another process, or behind a socket of this one:
 * over a Unix socket, or over TCP with or without TLS.
 */
#ifndef DFI_REGISTRY_REMOTE_REMOTE_H
#define DFI_REGISTRY_REMOTE_REMOTE_H

#include "registry/client/client.h"

/* dfi__client_open() for the address of a socket. */
int dfi__remote_open(struct loop *loop, const char *address,
    const struct registry_security *security, uint32_t lease_ttl_ms,
    int64_t deadline, struct registry_client **client);

#endif
