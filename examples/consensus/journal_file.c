/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a journal: finding, reading, beginning and removing them. After
 * a start, only the journal's thread is here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "../../common/complain.h"
#include "journal_impl.h"

#define NAME_SIZE 32

struct reader {
	struct journal *journal;
	const char *bytes;
	uint64_t size, file;
	bool last; /* file: a crash may have cut it */
	int (*restore)(void *arg, const struct kv_record *record);
	void *arg;
	uint64_t slot; /* the highest of its entries */
};

static void file_name(char *name, uint64_t number)
{
	snprintf(name, NAME_SIZE, "log-%010llu", (unsigned long long)number);
}

uint64_t record_checksum(
    const struct record_head *head, const void *payload, uint64_t file)
{
	uint64_t seed = XXH3_64bits_withSeed(
	    head, offsetof(struct record_head, checksum), file);

	return XXH3_64bits_withSeed(payload, head->size, seed);
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

int files_find(struct journal *journal)
{
	unsigned long long number;
	struct dirent *entry;
	int fd = dup(journal->dir_fd), ret = 0;
	char end;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		ret = -errno;
		if (fd >= 0)
			close(fd);
		return ret;
	}
	rewinddir(dir);
	while (!ret && (entry = readdir(dir)))
		if (sscanf(entry->d_name, "log-%llu%c", &number, &end) == 1)
			ret = add_file(journal, number);
	closedir(dir);
	if (journal->n_files)
		qsort(journal->files, journal->n_files,
		    sizeof(journal->files[0]), by_number);
	return ret;
}

int files_begin(struct journal *journal)
{
	uint64_t number = 1;
	char name[NAME_SIZE];
	int fd;

	if (journal->n_files)
		number = journal->files[journal->n_files - 1].number + 1;
	file_name(name, number);
	fd = openat(journal->dir_fd, name,
	    O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (add_file(journal, number) < 0 || fsync(journal->dir_fd) < 0) {
		close(fd);
		return -errno;
	}
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = fd;
	journal->size = journal->synced_size = 0;
	return 0;
}

void files_trim(struct journal *journal, uint64_t slot)
{
	char name[NAME_SIZE];
	size_t n = 0;

	while (n + 1 < journal->n_files && journal->files[n].slot <= slot) {
		file_name(name, journal->files[n].number);
		if (unlinkat(journal->dir_fd, name, 0) < 0) {
			complain("log %s: removing %s: %s; it only takes room",
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

static bool payload_valid(const struct record_head *head, const void *payload)
{
	const struct kv_entry *entry = payload;

	if (head->type != KV_RECORD_ENTRY)
		return head->size == sizeof(uint64_t) &&
		    (head->type == KV_RECORD_PROMISE ||
			head->type == KV_RECORD_COMMIT);
	return head->size >= offsetof(struct kv_entry, command) &&
	    entry->size == head->size - offsetof(struct kv_entry, command) &&
	    kv_command_valid(&entry->command, entry->size);
}

/* The whole record at an offset of the file, or NULL. */
static const struct record_head *record_at(
    const struct reader *reader, uint64_t at)
{
	const struct record_head *head;

	if (reader->size - at < sizeof(*head))
		return NULL;
	head = (const struct record_head *)(const void *)(reader->bytes + at);
	if (head->magic != RECORD_MAGIC || head->size % 8 ||
	    head->size > reader->size - at - sizeof(*head) ||
	    record_checksum(head, head + 1, reader->file) != head->checksum ||
	    !payload_valid(head, head + 1))
		return NULL;
	return head;
}

static int restore_record(struct reader *reader, const struct record_head *head)
{
	struct kv_record record = { .type = (uint8_t)head->type };

	if (head->type == KV_RECORD_ENTRY) {
		record.entry = (const void *)(head + 1);
		if (record.entry->slot > reader->slot)
			reader->slot = record.entry->slot;
	} else if (head->type == KV_RECORD_PROMISE) {
		memcpy(&record.ballot, head + 1, sizeof(record.ballot));
		reader->journal->promise = record.ballot;
	} else {
		memcpy(&record.slot, head + 1, sizeof(record.slot));
	}
	return reader->restore(reader->arg, &record);
}

/*
 * What is behind the last whole record was never synced, if no whole record
 * further behind says that it was.
 */
static bool is_torn(const struct reader *reader, uint64_t end)
{
	const struct record_head *head;
	uint64_t at;

	for (at = end + 8; at < reader->size; at += 8) {
		head = record_at(reader, at);
		if (head && head->synced > end)
			return false;
	}
	return reader->last;
}

/* Returns how much of the file is whole, or an error. */
static int64_t read_records(struct reader *reader)
{
	const struct record_head *head;
	uint64_t at = 0;
	int ret;

	while (at < reader->size && (head = record_at(reader, at))) {
		ret = restore_record(reader, head);
		if (ret < 0)
			return ret;
		at += sizeof(*head) + head->size;
	}
	if (at == reader->size || is_torn(reader, at))
		return (int64_t)at;
	complain("log %s: log-%010llu is damaged at byte %llu, which had been "
		 "synced; this replica can't know its promises: move the "
		 "folder away, and it will join as a new one",
	    reader->journal->setup.dir, (unsigned long long)reader->file,
	    (unsigned long long)at);
	return -EBADMSG;
}

static int64_t read_file(struct reader *reader, int fd)
{
	struct stat status;
	int64_t ret;
	void *bytes;

	if (fstat(fd, &status) < 0)
		return -errno;
	if (!status.st_size)
		return 0;
	reader->size = (uint64_t)status.st_size;
	bytes = mmap(NULL, reader->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	reader->bytes = bytes;
	ret = read_records(reader);
	munmap(bytes, reader->size);
	return ret;
}

/* The last file goes on behind what is whole. */
static int go_on(struct journal *journal, int fd, int64_t size)
{
	if (ftruncate(fd, size) < 0 || fsync(fd) < 0)
		return -errno;
	journal->fd = fd;
	journal->size = journal->synced_size = (uint64_t)size;
	return 0;
}

static int replay_file(struct reader *reader, struct journal_file *file)
{
	struct journal *journal = reader->journal;
	char name[NAME_SIZE];
	int64_t size;
	int fd, ret;

	file_name(name, file->number);
	reader->file = file->number;
	reader->last = file == &journal->files[journal->n_files - 1];
	reader->slot = 0;
	fd = openat(journal->dir_fd, name, O_RDWR | O_APPEND | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	size = read_file(reader, fd);
	file->slot = reader->slot;
	if (size < 0 || !reader->last) {
		close(fd);
		return size < 0 ? (int)size : 0;
	}
	ret = go_on(journal, fd, size);
	if (ret < 0)
		close(fd);
	return ret;
}

int journal_replay(struct journal *journal,
    int (*restore)(void *arg, const struct kv_record *record), void *arg)
{
	struct reader reader = {
		.journal = journal,
		.restore = restore,
		.arg = arg,
	};
	int ret = 0;
	size_t i;

	for (i = 0; !ret && i < journal->n_files; i++)
		ret = replay_file(&reader, &journal->files[i]);
	if (!ret && !journal->n_files)
		ret = files_begin(journal);
	if (ret < 0 && ret != -EBADMSG)
		complain("log %s: reading it: %s", journal->setup.dir,
		    strerror(-ret));
	return ret;
}
