/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose processes and files are trusted. A user that this process's user
 * namespace does not map has the same number there as all others like it
 * (kernel.overflowuid): that number stands for nobody in particular, and is
 * never trusted, not even if it is this process's own.
 */
#ifndef DFI_BASE_USER_H
#define DFI_BASE_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Whether a number that the kernel gave stands for one user. */
bool dfi__user_is_mapped(uid_t user);

/* Whether a text such as /proc/self/uid_map maps all users; for tests. */
bool dfi__user_map_is_whole(const char *map);

/* NULL if what this user owns is trusted as our own or root's, or why not. */
const char *dfi__user_refusal(uid_t owner);

/*
 * The other end of a Unix socket, as it was when it connected, or listened.
 * pid is 0 if it is in a PID namespace that can't be seen from here. 0, or
 * -EIO.
 */
int dfi__user_peer(int socket, const char *name, struct ucred *peer);

/*
 * Whether that is a process of this user, of root, or of one of n others. 0, or
 * -EACCES; name is for the texts, and advice ends the one about another user.
 */
int dfi__user_check(const struct ucred *peer, const char *name,
    const uid_t *others, size_t n, const char *advice);

#endif
