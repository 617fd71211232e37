/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a journal's folder, and the file with its identity. That file is
 * written under another name, synced and renamed, so it is whole or absent.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "../../common/complain.h"
#include "journal_impl.h"

#define LOCK_WAIT_MS 2000
#define LOCK_PAUSE_MS 10

struct identity_file {
	char magic[8];
	struct journal_identity identity;
	uint64_t checksum; /* of all before */
};

static const char magic[8] = "KVLOG02";
#define FAMILY_SIZE 5 /* of the magic: the rest is a version */

static uint64_t checksum(const struct identity_file *file)
{
	return XXH3_64bits(file, offsetof(struct identity_file, checksum));
}

static int complain_of(const struct journal *journal, const char *what)
{
	int ret = -errno;

	complain("log '%s': %s: %s", journal->setup.dir, what, strerror(errno));
	return ret;
}

int journal_open_file(int dir_fd, const char *dir, const char *name, int flags)
{
	const char *why = NULL;
	struct stat status;
	/* O_NONBLOCK: a FIFO would wait for its other end. */
	int fd = openat(
	    dir_fd, name, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int ret = fd < 0 ? -errno : 0;

	if (ret == -ENOENT &&
	    fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return ret;
	if (ret == -ENOENT)
		why = "it is a symbolic link to a file that does not exist";
	else if (!ret && fstat(fd, &status) < 0)
		ret = -errno;
	else if (!ret ? !S_ISREG(status.st_mode)
		      : ret == -EISDIR || ret == -ENXIO)
		why = "it is no regular file";
	if (!ret && !why)
		return fd;
	complain("log '%s': %s: %s", dir, name, why ? why : strerror(-ret));
	if (fd >= 0)
		close(fd);
	return why ? -EBADMSG : ret;
}

/*
 * A killed replica may have left a child that writes a snapshot and ends a
 * moment later. 0, or -1 with errno.
 */
static int take_lock(int fd)
{
	const struct timespec interval = { .tv_nsec = LOCK_PAUSE_MS * 1000000 };
	int waited;

	for (waited = 0; flock(fd, LOCK_EX | LOCK_NB);
	     waited += LOCK_PAUSE_MS) {
		if (errno != EWOULDBLOCK || waited >= LOCK_WAIT_MS)
			return -1;
		nanosleep(&interval, NULL);
	}
	return 0;
}

static int open_folder(struct journal *journal)
{
	const char *dir = journal->setup.dir;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return complain_of(journal, "making the folder");
	journal->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (journal->dir_fd < 0)
		return complain_of(journal, "opening the folder");
	journal->lock_fd = openat(
	    journal->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (journal->lock_fd < 0)
		return complain_of(journal, "lock");
	if (!take_lock(journal->lock_fd))
		return 0;
	if (errno != EWOULDBLOCK)
		return complain_of(journal, "lock");
	complain("log '%s': another process uses it: each replica needs a "
		 "folder of its own",
	    dir);
	return -EBUSY;
}

static int fail_identity(const struct journal *journal, const char *why)
{
	complain("log '%s': identity, the file that says whose the log is: %s: "
		 "move the folder away, and this replica will join as a new "
		 "one",
	    journal->setup.dir, why);
	return -EBADMSG;
}

static int read_identity(
    struct journal *journal, struct journal_identity *identity, bool *found)
{
	struct identity_file file = { .checksum = 0 };
	int fd = journal_open_file(
	    journal->dir_fd, journal->setup.dir, "identity", O_RDONLY);
	ssize_t size;
	char more;

	*found = fd >= 0;
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	size = read(fd, &file, sizeof(file));
	if (size == (ssize_t)sizeof(file))
		size += read(fd, &more, 1);
	close(fd);
	if (memcmp(file.magic, magic, FAMILY_SIZE) == 0 &&
	    memcmp(file.magic, magic, sizeof(magic)) != 0)
		return fail_identity(
		    journal, "it was written by another version of dfi-kv");
	if (size != (ssize_t)sizeof(file) || checksum(&file) != file.checksum)
		return fail_identity(journal, "it is damaged");
	*identity = file.identity;
	journal->incarnation = file.identity.incarnation;
	return 0;
}

/* Records without an identity belong to no replica, not even a new one. */
static int check_unowned(struct journal *journal)
{
	int ret = files_without_identity(journal);

	return ret > 0 ? fail_identity(journal,
			     "it is missing, but there are a log or snapshot")
		       : ret;
}

int journal_open(const struct journal_setup *setup,
    struct journal_identity *identity, bool *found, struct journal **out)
{
	struct journal *journal = calloc(1, sizeof(*journal));
	int ret;

	if (!journal)
		return -ENOMEM;
	journal->setup = *setup;
	if (!setup->file_size)
		journal->setup.file_size = 16 << 20;
	journal->fd = journal->dir_fd = journal->lock_fd = -1;
	pthread_mutex_init(&journal->lock, NULL);
	pthread_cond_init(&journal->changed, NULL);
	ret = open_folder(journal);
	if (!ret)
		ret = read_identity(journal, identity, found);
	if (!ret)
		ret = *found ? files_find(journal) : check_unowned(journal);
	if (ret < 0) {
		journal_close(journal);
		return ret;
	}
	*out = journal;
	return 0;
}

/* Create the first file before the identity, so that it is never missing. */
int journal_create(
    struct journal *journal, const struct journal_identity *identity)
{
	struct identity_file file;
	int fd;

	journal->incarnation = identity->incarnation;
	if (files_begin(journal) < 0)
		return complain_of(journal, "beginning it");
	memset(&file, 0, sizeof(file));
	memcpy(file.magic, magic, sizeof(magic));
	file.identity = *identity;
	file.checksum = checksum(&file);
	fd = openat(journal->dir_fd, "identity.new",
	    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return complain_of(journal, "identity");
	if (write_all(fd, &file, sizeof(file)) < 0 || fsync(fd) < 0) {
		close(fd);
		return complain_of(journal, "identity");
	}
	close(fd);
	if (renameat(journal->dir_fd, "identity.new", journal->dir_fd,
		"identity") < 0 ||
	    fsync(journal->dir_fd) < 0)
		return complain_of(journal, "identity");
	return 0;
}
