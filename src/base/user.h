/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which users' processes and files are trusted. Users that this process's user
 * namespace does not map all have the same number here (kernel.overflowuid).
 * That number stands for no single user and is never trusted, even if this
 * process has it.
 */
#ifndef DFI_BASE_USER_H
#define DFI_BASE_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Whether a number from the kernel stands for one user. */
bool dfi__user_is_mapped(uid_t user);

/* Whether a text such as /proc/self/uid_map maps all users; for tests. */
bool dfi__user_map_is_whole(const char *map);

/*
 * Why files of this user are not trusted, or NULL if they are trusted as our
 * own or root's.
 */
const char *dfi__user_refusal(uid_t owner);

/*
 * The process at the other end of a Unix socket when it connected, or listened.
 * pid is 0 if it is in a PID namespace that is not visible here. 0, or -EIO.
 */
int dfi__user_peer(int socket, const char *name, struct ucred *peer);

/*
 * Check that the peer runs as this user, as root, or as one of n other users:
 * 0, or -EACCES. name is for the texts; advice ends the text about another
 * user.
 */
int dfi__user_check(const struct ucred *peer, const char *name,
    const uid_t *others, size_t n, const char *advice);

#endif
