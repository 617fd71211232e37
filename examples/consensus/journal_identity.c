/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a journal's folder, and the file that says whose it is. That file is
 * written beside, synced and renamed, so that it is there whole or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "../../common/complain.h"
#include "journal_impl.h"

struct identity_file {
	char magic[8];
	struct journal_identity identity;
	uint64_t checksum; /* of all before */
};

static const char magic[8] = "KVLOG01";

static uint64_t checksum(const struct identity_file *file)
{
	return XXH3_64bits(file, offsetof(struct identity_file, checksum));
}

static int complain_of(const struct journal *journal, const char *what)
{
	int ret = -errno;

	complain("log %s: %s: %s", journal->setup.dir, what, strerror(errno));
	return ret;
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
	if (!flock(journal->lock_fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno != EWOULDBLOCK)
		return complain_of(journal, "lock");
	complain("log %s: another process uses it: each replica needs a folder "
		 "of its own",
	    dir);
	return -EBUSY;
}

static int read_identity(
    struct journal *journal, struct journal_identity *identity, bool *found)
{
	struct identity_file file = { .checksum = 0 };
	int fd = openat(journal->dir_fd, "identity", O_RDONLY | O_CLOEXEC);
	ssize_t size;

	*found = false;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return complain_of(journal, "identity");
	size = read(fd, &file, sizeof(file));
	close(fd);
	if (size != (ssize_t)sizeof(file) ||
	    memcmp(file.magic, magic, sizeof(magic)) != 0 ||
	    checksum(&file) != file.checksum) {
		complain("log %s: the file identity is damaged, or of another "
			 "version: move the folder away, and this replica will "
			 "join as a new one",
		    journal->setup.dir);
		return -EBADMSG;
	}
	*identity = file.identity;
	*found = true;
	return 0;
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
	if (!ret && *found)
		ret = files_find(journal);
	if (ret < 0) {
		journal_close(journal);
		return ret;
	}
	*out = journal;
	return 0;
}

int journal_create(
    struct journal *journal, const struct journal_identity *identity)
{
	struct identity_file file;
	int fd;

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
