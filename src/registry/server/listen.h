/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry's listening socket, and the file that a Unix socket leaves.
 */
#ifndef DFI_REGISTRY_SERVER_LISTEN_H
#define DFI_REGISTRY_SERVER_LISTEN_H

#include <sys/types.h>

#include "registry/wire/address.h"

struct listen_socket {
	int fd;
	int lock; /* of the path, see path_lock.h; -1: none */
	char text[ADDRESS_TEXT_SIZE]; /* the address, with its port if TCP */
	char path[108];               /* "": no file */
	dev_t dev;                    /* identify our file */
	ino_t ino;
};

/*
 * Listen at the address text, or NULL: at a new abstract Unix socket. A socket
 * file without a listener is replaced under the lock of its path. The caller
 * decides whether the address may be used. -EINVAL: as dfi__address_parse().
 * -EEXIST: another process listens there, or the lock of a stale file can't be
 * had. -EBUSY: another process holds the lock for 2 s, and nobody answers.
 * -ENOENT, -EACCES: of the directory. -EMFILE, -ENOMEM, -EIO.
 */
int dfi__listen_open(
    const char *text, mode_t mode, struct listen_socket *listen);

/* Close, and remove our file and that of the lock. */
void dfi__listen_close(struct listen_socket *listen);

#endif
