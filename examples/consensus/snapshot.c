/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forked child makes no call of DFI, as it lacks the handles, and takes no
 * lock that another thread may hold: glibc's allocator works after a fork.
 * Otherwise it only writes, syncs and renames.
 */
#include "snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../common/complain.h"
#include "journal.h"

/* An overloaded replica gets the processor before its child. */
#define CHILD_NICE 10

struct snapshots {
	const char *dir;
	int dir_fd; /* -1: in memory */
	int fd;     /* of the last complete one; -1: none */
	uint64_t slot, size;
	pid_t child; /* 0: none */
	int new_fd;
	uint64_t new_slot;
};

int snapshots_open(const char *dir, struct snapshots **out)
{
	struct snapshots *snapshots = calloc(1, sizeof(*snapshots));
	int ret;

	if (!snapshots)
		return -ENOMEM;
	snapshots->dir = dir;
	snapshots->dir_fd = snapshots->fd = snapshots->new_fd = -1;
	if (dir) {
		snapshots->dir_fd = open(
		    dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (snapshots->dir_fd < 0) {
			ret = -errno;
			complain("%s: %s", dir, strerror(errno));
			free(snapshots);
			return ret;
		}
	}
	*out = snapshots;
	return 0;
}

void snapshots_close(struct snapshots *snapshots)
{
	if (!snapshots)
		return;
	if (snapshots->child) {
		kill(snapshots->child, SIGKILL);
		waitpid(snapshots->child, NULL, 0);
		close(snapshots->new_fd);
	}
	if (snapshots->fd >= 0)
		close(snapshots->fd);
	if (snapshots->dir_fd >= 0)
		close(snapshots->dir_fd);
	free(snapshots);
}

/* The whole file in memory, to be unmapped; NULL with errno. */
static void *map_file(int fd, size_t *size)
{
	struct stat status;
	void *bytes;

	if (fstat(fd, &status) < 0)
		return NULL;
	*size = (size_t)status.st_size;
	if (!*size) {
		errno = EBADMSG;
		return NULL;
	}
	bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
	return bytes == MAP_FAILED ? NULL : bytes;
}

int snapshots_load(struct snapshots *snapshots, struct kv_store **store)
{
	size_t size = 0;
	void *bytes;
	int fd, ret;

	*store = NULL;
	if (snapshots->dir_fd < 0)
		return 0;
	fd = journal_open_file(
	    snapshots->dir_fd, snapshots->dir, "snapshot", O_RDONLY);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	bytes = map_file(fd, &size);
	ret = bytes ? kv_store_load(bytes, size, store) : -errno;
	if (bytes)
		munmap(bytes, size);
	if (ret < 0) {
		complain("log '%s': snapshot: %s", snapshots->dir,
		    ret == -EBADMSG
			? "it is damaged, or of another version: move the "
			  "folder away, and this replica will join as a new one"
			: strerror(-ret));
		close(fd);
		return ret;
	}
	snapshots->fd = fd;
	snapshots->size = size;
	snapshots->slot = kv_store_slot(*store);
	return 0;
}

/* In the child. Returns its exit status: an errno value. */
static int write_snapshot(
    const struct snapshots *snapshots, const struct kv_store *store)
{
	size_t size;
	char *bytes;

	setpriority(PRIO_PROCESS, 0, CHILD_NICE);
	if (kv_store_save(store, &bytes, &size) < 0)
		return ENOMEM;
	if (write_all(snapshots->new_fd, bytes, size) < 0)
		return errno;
	if (snapshots->dir_fd < 0)
		return 0;
	if (fsync(snapshots->new_fd) < 0 ||
	    renameat(snapshots->dir_fd, "snapshot.new", snapshots->dir_fd,
		"snapshot") < 0 ||
	    fsync(snapshots->dir_fd) < 0)
		return errno;
	return 0;
}

static int open_new(const struct snapshots *snapshots)
{
	if (snapshots->dir_fd < 0)
		return memfd_create("snapshot", MFD_CLOEXEC);
	/* Remove the file of a child that ended before it was complete. */
	unlinkat(snapshots->dir_fd, "snapshot.new", 0);
	return openat(snapshots->dir_fd, "snapshot.new",
	    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

int snapshots_begin(struct snapshots *snapshots, const struct kv_store *store)
{
	pid_t parent = getpid();
	int ret;

	if (snapshots->child)
		return -EBUSY;
	snapshots->new_fd = open_new(snapshots);
	if (snapshots->new_fd < 0)
		return -errno;
	snapshots->new_slot = kv_store_slot(store);
	snapshots->child = fork();
	if (!snapshots->child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(ECANCELED);
		_exit(write_snapshot(snapshots, store));
	}
	if (snapshots->child > 0)
		return 0;
	ret = -errno;
	snapshots->child = 0;
	close(snapshots->new_fd);
	return ret;
}

bool snapshots_busy(const struct snapshots *snapshots)
{
	return snapshots->child;
}

/*
 * Whether the child has ended; then *err has its result. -ECHILD: the kernel
 * dropped it, as it does where SIGCHLD is ignored.
 */
static bool has_ended(pid_t child, int *err)
{
	pid_t ret;
	int code;

	do
		ret = waitpid(child, &code, WNOHANG);
	while (ret < 0 && errno == EINTR);
	if (ret == 0)
		return false;
	if (ret < 0)
		*err = -errno;
	else
		*err = WIFEXITED(code) ? -WEXITSTATUS(code) : -EINTR;
	return true;
}

bool snapshots_check(struct snapshots *snapshots, uint64_t *slot, int *err)
{
	struct stat status;

	if (!snapshots->child || !has_ended(snapshots->child, err))
		return false;
	snapshots->child = 0;
	*slot = snapshots->new_slot;
	if (!*err && fstat(snapshots->new_fd, &status) < 0)
		*err = -errno;
	if (*err) {
		complain("snapshot of slot %llu: %s; the log is kept",
		    (unsigned long long)*slot,
		    *err == -ECHILD ? "SIGCHLD is ignored, so it is not known "
				      "whether all of it was written"
				    : strerror(-*err));
		close(snapshots->new_fd);
		return true;
	}
	if (snapshots->fd >= 0)
		close(snapshots->fd);
	snapshots->fd = snapshots->new_fd;
	snapshots->slot = snapshots->new_slot;
	snapshots->size = (uint64_t)status.st_size;
	return true;
}

size_t snapshots_read(struct snapshots *snapshots, uint64_t offset, char *to,
    size_t size, uint64_t *slot, uint64_t *total)
{
	ssize_t n;

	*slot = snapshots->fd < 0 ? 0 : snapshots->slot;
	*total = snapshots->fd < 0 ? 0 : snapshots->size;
	if (offset >= *total)
		return 0;
	n = pread(snapshots->fd, to, size, (off_t)offset);
	return n < 0 ? 0 : (size_t)n;
}
