/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DFI_REGISTRY_CLIENT_CONNECT_H
#define DFI_REGISTRY_CLIENT_CONNECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct address;

/*
 * A connected non-blocking socket to the registry at an address, as text and
 * parsed. The process at the other end of a Unix socket is trusted: it runs as
 * this one's user, as root, or as user (NO_USER: nobody). Or a
 * negative errno value, see dfi__client_open(). A forked child closes it from
 * the start, or it would hide this process's death from the registry: it is
 * closed by dfi__fork_close().
 */
int dfi__connect(const char *text, const struct address *address, uid_t user,
    int64_t deadline);

/*
 * The same without waiting: 0 and *fd, or -EINPROGRESS and *fd, which is
 * writable when it is connected or has failed, or another error. In any case
 * dfi__connect_finish() is next. It leaves fd open.
 */
int dfi__connect_begin(
    const char *text, const struct address *address, int *fd);
int dfi__connect_finish(
    const char *text, const struct address *address, uid_t user, int fd);

/*
 * Whether a socket's path is a mount of that file alone, as in a container: it
 * stays the socket of one registry, and never becomes that of the next.
 */
bool dfi__connect_is_mounted(const struct address *address);

#endif
