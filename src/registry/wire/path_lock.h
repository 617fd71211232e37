/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a Unix socket's path: a file PATH.lock beside it. The registry at
 * PATH holds it as long as it lives, and the kernel drops it when the process
 * dies. Only its holder may replace a socket that nobody listens at.
 */
#ifndef DFI_REGISTRY_WIRE_PATH_LOCK_H
#define DFI_REGISTRY_WIRE_PATH_LOCK_H

#define PATH_LOCK_SUFFIX ".lock"
#define PATH_LOCK_SIZE (108 + sizeof(PATH_LOCK_SUFFIX))

/*
 * Try to take the lock. Returns its descriptor, which a forked child closes.
 * -EAGAIN: another process holds it. Other errors have a text that says why
 * there is no lock: the file is not a regular one of this user with mode 0600,
 * or may be another user's (base/user.h), or the file system has no locks.
 */
int dfi__path_lock_try(const char *path);

/* Remove the file and drop the lock. */
void dfi__path_lock_drop(const char *path, int fd);

/* Tells whether the file is there: a registry lives, starts, or was killed. */
int dfi__path_lock_exists(const char *path);

#endif
