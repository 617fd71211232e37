/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory may be open to everybody, as /tmp is. So the lock file is never
 * followed through a symbolic link, and counts only if no other user can open
 * it: a process that can open a file can lock it endlessly.
 */
#include "path_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/user.h"

/* The file may be removed between two looks at it. */
#define TRIES 16

static void lock_name(const char *path, char name[PATH_LOCK_SIZE])
{
	snprintf(name, PATH_LOCK_SIZE, "%s" PATH_LOCK_SUFFIX, path);
}

/*
 * Two calls are needed: with O_CREAT alone, sysctl fs.protected_regular makes
 * the kernel refuse another user's file in /tmp, with an unspecific error. A
 * file that was made here is ours, whatever user number its owner has.
 */
static int open_file(const char *name, bool *made)
{
	int fd = file_up(open(
	    name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));

	*made = fd >= 0;
	if (fd >= 0) {
		fchmod(fd, 0600); /* whatever the umask is */
		return fd;
	}
	if (errno != EEXIST)
		return -1;
	return file_up(
	    open(name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

static int fail_foreign(const char *name, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return dfi__fail(-EACCES,
		    "'%s' is not a regular file: remove it, or choose another "
		    "directory",
		    name);
	if (!dfi__user_is_mapped(st->st_uid))
		return dfi__fail(-EACCES,
		    "'%s' belongs to a user that this process's user "
		    "namespace does not map (it is shown as %lu), which may be "
		    "anybody: remove it, or choose a directory that only this "
		    "user may write to",
		    name, (unsigned long)st->st_uid);
	return dfi__fail(-EACCES,
	    "'%s' belongs to user %lu and has mode %04o, so that others can "
	    "lock it; this registry runs as user %lu and needs mode 0600: "
	    "remove it, or choose a directory that only this user may write to",
	    name, (unsigned long)st->st_uid, st->st_mode & 07777u,
	    (unsigned long)geteuid());
}

static int fail_open(const char *name)
{
	int err = errno;
	struct stat st;

	if (lstat(name, &st) == 0)
		return fail_foreign(name, &st);
	return dfi__fail(
	    -err, "'%s' can't be made: %s", name, strerrordesc_np(err));
}

static bool is_ours(const struct stat *st, bool made)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() &&
	    (st->st_mode & 07777) == 0600 &&
	    (made || dfi__user_is_mapped(st->st_uid));
}

/* Returns 0: locked; -ESTALE: the name has another file now. */
static int lock(int fd, const char *name, bool made)
{
	struct stat st, now;

	if (fstat(fd, &st))
		return dfi__fail(
		    -errno, "'%s': %s", name, strerrordesc_np(errno));
	if (!is_ours(&st, made))
		return fail_foreign(name, &st);
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno == EWOULDBLOCK)
			return dfi__fail(-EAGAIN,
			    "another process holds the lock of '%s'", name);
		dfi__fail(-errno,
		    "the file system of '%s' has no locks (flock: %s)", name,
		    strerrordesc_np(errno));
		unlink(name); /* the lock could not be used */
		return -ENOLCK;
	}
	if (lstat(name, &now) || now.st_dev != st.st_dev ||
	    now.st_ino != st.st_ino)
		return -ESTALE;
	return 0;
}

int dfi__path_lock_try(const char *path)
{
	char name[PATH_LOCK_SIZE];
	int fd, i, ret = -ESTALE;
	bool made;

	lock_name(path, name);
	for (i = 0; i < TRIES && ret == -ESTALE; i++) {
		fd = open_file(name, &made);
		if (fd < 0 && errno == ENOENT && i + 1 < TRIES)
			continue;
		if (fd < 0)
			return fail_open(name);
		ret = lock(fd, name, made);
		if (!ret)
			ret = dfi__fork_add_unmapped(fd);
		if (!ret)
			return fd;
		close(fd);
	}
	if (ret == -ESTALE)
		return dfi__fail(-EAGAIN, "'%s' comes and goes", name);
	return ret;
}

void dfi__path_lock_drop(const char *path, int fd)
{
	char name[PATH_LOCK_SIZE];
	struct stat st, now;

	lock_name(path, name);
	if (fstat(fd, &st) == 0 && lstat(name, &now) == 0 &&
	    now.st_dev == st.st_dev && now.st_ino == st.st_ino)
		unlink(name);
	dfi__fork_close(fd);
}

int dfi__path_lock_exists(const char *path)
{
	char name[PATH_LOCK_SIZE];
	struct stat st;

	lock_name(path, name);
	return lstat(name, &st) == 0;
}
