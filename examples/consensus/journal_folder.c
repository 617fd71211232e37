/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds, begins and removes the files of a journal's folder. After the start,
 * only the journal's thread calls this.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/complain.h"
#include "journal_impl.h"

#define NEW_NAME "log.new" /* of a file whose first record is not synced */

void files_name(char *name, uint64_t number)
{
	snprintf(
	    name, FILE_NAME_SIZE, "log-%010llu", (unsigned long long)number);
}

static int by_number(const void *a, const void *b)
{
	const struct journal_file *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static int add_file(struct journal *journal, uint64_t number)
{
	struct journal_file *files;

	files = reallocarray(
	    journal->files, journal->n_files + 1, sizeof(files[0]));
	if (!files)
		return -ENOMEM;
	files[journal->n_files++] = (struct journal_file){ .number = number };
	journal->files = files;
	atomic_store(&journal->n_kept, journal->n_files);
	return 0;
}

/* Files with other names, such as somebody's copies, are not the journal's. */
static bool is_file_name(const char *text, uint64_t *number)
{
	unsigned long long value;
	char name[FILE_NAME_SIZE];

	if (sscanf(text, "log-%llu", &value) != 1)
		return false;
	files_name(name, value);
	*number = value;
	return strcmp(name, text) == 0;
}

static int read_names(struct journal *journal, DIR *dir)
{
	struct dirent *entry;
	uint64_t number;
	int ret = 0;

	rewinddir(dir);
	while (!ret && (entry = readdir(dir)))
		if (is_file_name(entry->d_name, &number))
			ret = add_file(journal, number);
	return ret;
}

int files_find(struct journal *journal)
{
	int fd = fcntl(journal->dir_fd, F_DUPFD_CLOEXEC, 0);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int ret = dir ? read_names(journal, dir) : -errno;

	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	if (ret < 0)
		complain("log '%s': reading the folder: %s", journal->setup.dir,
		    strerror(-ret));
	if (journal->n_files)
		qsort(journal->files, journal->n_files,
		    sizeof(journal->files[0]), by_number);
	return ret;
}

int files_without_identity(struct journal *journal)
{
	struct stat status;
	char name[FILE_NAME_SIZE];
	int ret = files_find(journal);

	if (ret < 0)
		return ret;
	if (fstatat(
		journal->dir_fd, "snapshot", &status, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	if (!journal->n_files)
		return false;
	files_name(name, journal->files[0].number);
	if (journal->n_files > 1 || journal->files[0].number != 1 ||
	    fstatat(journal->dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(status.st_mode) ||
	    status.st_size > (off_t)FIRST_RECORD_SIZE)
		return true;
	journal->n_files = 0;
	return unlinkat(journal->dir_fd, name, 0) < 0 ? -errno : false;
}

/* The promise that holds; -errno. */
static int write_first(const struct journal *journal, int fd, uint64_t number)
{
	const struct kv_record record = {
		.type = KV_RECORD_PROMISE,
		.ballot = journal->promise,
	};
	struct journal_batch batch = { .bytes = NULL };
	int ret;

	batch_add(&batch, &record);
	batch_seal(&batch, 0, file_seed(journal, number));
	ret = write_all(fd, batch.bytes, batch.size) < 0 || fsync(fd) < 0
	    ? -errno
	    : 0;
	free(batch.bytes);
	return ret;
}

static int name_file(struct journal *journal, uint64_t number)
{
	char name[FILE_NAME_SIZE];

	files_name(name, number);
	if (renameat(journal->dir_fd, NEW_NAME, journal->dir_fd, name) < 0 ||
	    fsync(journal->dir_fd) < 0)
		return -errno;
	return add_file(journal, number);
}

int files_begin(struct journal *journal)
{
	uint64_t number = 1;
	int fd, ret;

	if (journal->n_files)
		number = journal->files[journal->n_files - 1].number + 1;
	fd = openat(journal->dir_fd, NEW_NAME,
	    O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ret = write_first(journal, fd, number);
	if (!ret)
		ret = name_file(journal, number);
	if (ret < 0) {
		close(fd);
		errno = -ret;
		return ret;
	}
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = fd;
	journal->size = journal->synced_size = FIRST_RECORD_SIZE;
	return 0;
}

void files_trim(struct journal *journal, uint64_t slot)
{
	char name[FILE_NAME_SIZE];
	size_t n = 0;

	while (n + 1 < journal->n_files && journal->files[n].slot <= slot) {
		files_name(name, journal->files[n].number);
		if (unlinkat(journal->dir_fd, name, 0) < 0) {
			complain(
			    "log '%s': removing %s: %s; it only takes room",
			    journal->setup.dir, name, strerror(errno));
			break;
		}
		n++;
	}
	journal->n_files -= n;
	memmove(journal->files, journal->files + n,
	    journal->n_files * sizeof(journal->files[0]));
	atomic_store(&journal->n_kept, journal->n_files);
}
