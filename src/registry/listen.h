/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry's listening socket, and the file that a Unix socket leaves.
 */
#ifndef DFI_REGISTRY_LISTEN_H
#define DFI_REGISTRY_LISTEN_H

#include <sys/types.h>

#include "address.h"

struct listen_socket {
	int fd;
	char text[ADDRESS_TEXT_SIZE]; /* the address, with its port if TCP */
	char path[108];               /* "": no file */
	dev_t dev;                    /* which file is ours */
	ino_t ino;
};

/*
 * Listen at the address text, or NULL: at a fresh abstract Unix socket. A
 * socket file that nobody listens at is replaced. Whether the address may be
 * used is the caller's affair. -EINVAL: as dfi__address_parse(). -EEXIST:
 * somebody else is there. -EBUSY: somebody else is replacing the same file.
 * -ENOENT, -EACCES: of the directory. -EMFILE, -ENOMEM, -EIO.
 */
int dfi__listen_open(
    const char *text, mode_t mode, struct listen_socket *listen);

/* Close, and remove the file if it is still ours. */
void dfi__listen_close(struct listen_socket *listen);

#endif
