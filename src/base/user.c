/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the kernel's files about user namespaces: user_namespaces(7). */
#include "user.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "error.h"
#include "kernel_file.h"

/* The kernel's default, also used where it can't be read. */
#define OVERFLOW_USER 65534

/* The number of user numbers; the last number is no user. */
#define ALL_USERS UINT32_MAX

#define UNMAPPED \
	"runs as a user that this process's user namespace does not map"

/*
 * Lines are FIRST OUTSIDE COUNT. The kernel takes no overlapping lines, and
 * none for users that the outer namespace lacks. So a map with as many users as
 * there are maps all of them. There are at most 5 lines before Linux 4.15, and
 * 340 since; one is usual.
 */
bool dfi__user_map_is_whole(const char *map)
{
	uint64_t n, all = 0;
	int length;

	while (sscanf(map, " %*u %*u %" SCNu64 "%n", &n, &length) == 1) {
		all += n;
		map += length;
	}
	return all >= ALL_USERS;
}

static bool all_are_mapped(void)
{
	char *map = dfi__kernel_text("/proc/self/uid_map");
	bool whole = map && dfi__user_map_is_whole(map);

	free(map);
	/* The kernel may have no user namespaces; but /proc must be there. */
	return whole ||
	    (access("/proc/self/uid_map", F_OK) < 0 &&
		access("/proc/self/stat", F_OK) == 0);
}

static uid_t overflow_user(void)
{
	uint64_t user;

	return dfi__kernel_number(&user, "/proc/sys/kernel/overflowuid")
	    ? (uid_t)user
	    : OVERFLOW_USER;
}

bool dfi__user_is_mapped(uid_t user)
{
	return user != overflow_user() || all_are_mapped();
}

const char *dfi__user_refusal(uid_t owner)
{
	if (!dfi__user_is_mapped(owner))
		return "it belongs to a user that this process's user "
		       "namespace does not map, which may be anybody";
	/* Root may decide whose files it uses. */
	if (owner != geteuid() && owner != 0 && geteuid() != 0)
		return "it belongs to another user, who could change it";
	return NULL;
}

int dfi__user_peer(int socket, const char *name, struct ucred *peer)
{
	socklen_t size = sizeof(*peer);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, peer, &size) == 0)
		return 0;
	return dfi__fail(
	    -EIO, "who %s is can't be read: %s", name, strerrordesc_np(errno));
}

static void name_pid(const struct ucred *peer, char text[48])
{
	if (peer->pid)
		snprintf(text, 48, "pid %ld", (long)peer->pid);
	else
		snprintf(text, 48, "its pid is not visible here");
}

int dfi__user_check(const struct ucred *peer, const char *name,
    const uid_t *others, size_t n, const char *advice)
{
	uid_t self = geteuid();
	char pid[48];
	size_t i;

	name_pid(peer, pid);
	/* This process knows itself by its number. */
	if (!dfi__user_is_mapped(peer->uid) && peer->pid != getpid())
		return dfi__fail(-EACCES,
		    "%s (%s) " UNMAPPED " (it is shown as %lu), so it may be "
		    "anybody: run both as users that their user namespace "
		    "maps",
		    name, pid, (unsigned long)peer->uid);
	if (peer->uid == self || peer->uid == 0)
		return 0;
	for (i = 0; i < n; i++)
		if (peer->uid == others[i])
			return 0;
	return dfi__fail(-EACCES,
	    "%s (%s) runs as user %lu, this process as user %lu%s", name, pid,
	    (unsigned long)peer->uid, (unsigned long)self, advice);
}
