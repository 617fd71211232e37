/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DFI_REGISTRY_REMOTE_CONNECT_H
#define DFI_REGISTRY_REMOTE_CONNECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct address;

/*
 * Connect to the registry at an address, given as text and parsed: a
 * non-blocking socket, or a negative errno value, see dfi__client_open(). The
 * process at the other end of a Unix socket must run as our user, as root, or
 * as user (NO_USER: no other). A forked child closes the socket, as it would
 * hide this process's death from the registry. dfi__fork_close() closes it.
 */
int dfi__connect(const char *text, const struct address *address, uid_t user,
    int64_t deadline);

/*
 * The same without waiting: 0 and *fd, or -EINPROGRESS and *fd, which becomes
 * writable when it is connected or has failed, or another error.
 * dfi__connect_finish() must follow; it leaves fd open.
 */
int dfi__connect_begin(
    const char *text, const struct address *address, int *fd);
int dfi__connect_finish(
    const char *text, const struct address *address, uid_t user, int fd);

/*
 * Tells whether the socket alone is mounted at its path, as in a container: the
 * path then leads to this registry's socket only, never to that of the next
 * registry.
 */
bool dfi__connect_is_mounted(const struct address *address);

#endif
