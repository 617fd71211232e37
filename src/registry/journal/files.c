/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See files.h. Files are opened relative to the directory's descriptor, so the
 * directory that was checked is the one that is used.
 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/user.h"

#define LOCK_NAME "lock"

struct journal_directory {
	int fd;
	int lock;
	char *path;
};

static int real_open(void *arg, const char *name, int flags)
{
	const struct journal_directory *directory = arg;
	int fd = file_up(
	    openat(directory->fd, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600));

	if (fd < 0)
		return -errno;
	if (dfi__fork_add_unmapped(fd)) {
		close(fd);
		return -ENOMEM;
	}
	return fd;
}

static void real_close(void *arg, int fd)
{
	(void)arg;
	dfi__fork_close(fd);
}

static int64_t real_read(void *arg, int fd, void *to, size_t size)
{
	ssize_t n;

	(void)arg;
	do
		n = read(fd, to, size);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int64_t real_write(void *arg, int fd, const void *from, size_t size)
{
	ssize_t n;

	(void)arg;
	do
		n = write(fd, from, size);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int64_t real_size(void *arg, int fd)
{
	struct stat st;

	(void)arg;
	return fstat(fd, &st) ? -errno : st.st_size;
}

static int real_truncate(void *arg, int fd, uint64_t size)
{
	(void)arg;
	return ftruncate(fd, (off_t)size) ? -errno : 0;
}

static int real_sync(void *arg, int fd)
{
	(void)arg;
	return fdatasync(fd) ? -errno : 0;
}

static int real_sync_names(void *arg)
{
	const struct journal_directory *directory = arg;

	return fsync(directory->fd) ? -errno : 0;
}

static int real_rename(void *arg, const char *from, const char *to)
{
	const struct journal_directory *directory = arg;

	return renameat(directory->fd, from, directory->fd, to) ? -errno : 0;
}

static int real_remove(void *arg, const char *name)
{
	const struct journal_directory *directory = arg;

	return unlinkat(directory->fd, name, 0) ? -errno : 0;
}

struct journal_file_ops dfi__journal_file_ops = {
	.open = real_open,
	.close = real_close,
	.read = real_read,
	.write = real_write,
	.size = real_size,
	.truncate = real_truncate,
	.sync = real_sync,
	.sync_names = real_sync_names,
	.rename = real_rename,
	.remove = real_remove,
};

static int fail_path(const char *path, int err)
{
	switch (err) {
	case ENOENT:
		return dfi__fail(-ENOENT,
		    "state directory '%s': the directory that it would be in "
		    "does not exist: make that one first, or name another",
		    path);
	case ENOTDIR:
	case ELOOP:
		return dfi__fail(-ENOTDIR,
		    "state directory '%s': it, or a part of its path, is not a "
		    "directory: name a directory that only this registry uses",
		    path);
	case EACCES:
	case EPERM:
		return dfi__fail(-EACCES,
		    "state directory '%s': user %lu may not open or make it: "
		    "name one in a directory that this user may write to",
		    path, (unsigned long)geteuid());
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return dfi__fail_files(
		    err, 1, "open", "state directory '%s'", path);
	default:
		return dfi__fail(-err,
		    "state directory '%s' can't be opened or made: %s: make "
		    "room there, or name a directory on another file system",
		    path, strerrordesc_np(err));
	}
}

static int check_owner(const char *path, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return fail_path(path, errno);
	if (st.st_uid != geteuid() || !dfi__user_is_mapped(st.st_uid))
		return dfi__fail(-EACCES,
		    "state directory '%s' belongs to user %lu%s, and this "
		    "registry runs as user %lu: what is in it lets its reader "
		    "act as any member: name a directory of this user",
		    path, (unsigned long)st.st_uid,
		    dfi__user_is_mapped(st.st_uid)
			? ""
			: " (which stands for all users that this process's "
			  "user namespace does not map)",
		    (unsigned long)geteuid());
	if ((st.st_mode & 07777) != 0700)
		return dfi__fail(-EACCES,
		    "state directory '%s' has mode %04o, and needs 0700: what "
		    "is in it lets its reader act as any member: chmod 0700 "
		    "it, or name another one",
		    path, st.st_mode & 07777u);
	return 0;
}

static int open_directory(const char *path)
{
	bool made = mkdir(path, 0700) == 0;
	int err = made ? 0 : errno, fd, ret;

	fd = file_up(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	/* The reason is that of the first call, if that failed for good. */
	if (fd < 0)
		return fail_path(path,
		    err && err != EEXIST && errno == ENOENT ? err : errno);
	if (made)
		fchmod(fd, 0700); /* whatever the umask is */
	ret = check_owner(path, fd);
	if (!ret)
		ret = dfi__fork_add_unmapped(fd);
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

static int lock_directory(const struct journal_directory *directory)
{
	int fd = real_open((void *)directory, LOCK_NAME, O_RDWR | O_CREAT);
	int err;

	if (fd < 0)
		return fail_path(directory->path, -fd);
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return fd;
	err = errno;
	dfi__fork_close(fd);
	if (err == EWOULDBLOCK)
		return dfi__fail(-EBUSY,
		    "state directory '%s' is used by another registry, which "
		    "is running: stop that one, or name another directory",
		    directory->path);
	return dfi__fail(-ENOLCK,
	    "state directory '%s': its file system has no locks (flock: %s): "
	    "name one on another file system",
	    directory->path, strerrordesc_np(err));
}

int dfi__journal_directory_open(const char *path,
    struct journal_directory **directory, struct journal_files *files)
{
	struct journal_directory *new = calloc(1, sizeof(*new));
	int ret;

	if (new)
		new->path = strdup(path);
	if (!new || !new->path) {
		free(new);
		return dfi__fail(
		    -ENOMEM, "no memory for the state of a registry");
	}
	new->lock = -1;
	ret = new->fd = open_directory(path);
	if (ret >= 0)
		ret = new->lock = lock_directory(new);
	if (ret < 0) {
		dfi__journal_directory_close(new);
		return ret;
	}
	files->ops = &dfi__journal_file_ops;
	files->arg = new;
	files->path = new->path;
	*directory = new;
	return 0;
}

void dfi__journal_directory_close(struct journal_directory *directory)
{
	if (!directory)
		return;
	if (directory->lock >= 0)
		dfi__fork_close(directory->lock);
	if (directory->fd >= 0)
		dfi__fork_close(directory->fd);
	free(directory->path);
	free(directory);
}
