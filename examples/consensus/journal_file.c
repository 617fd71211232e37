/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and checks the files of a journal at a start. */
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

struct reader {
	struct journal *journal;
	const char *bytes;
	uint64_t size, file, seed;
	bool last; /* file: a crash may have cut it */
	int (*restore)(void *arg, const struct kv_record *record);
	void *arg;
	uint64_t slot; /* the highest of its entries */
};

uint64_t file_seed(const struct journal *journal, uint64_t number)
{
	return journal->incarnation ^ number;
}

uint64_t record_checksum(
    const struct record_head *head, const void *payload, uint64_t seed)
{
	uint64_t of_head = XXH3_64bits_withSeed(
	    head, offsetof(struct record_head, checksum), seed);

	return XXH3_64bits_withSeed(payload, head->size, of_head);
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
	    record_checksum(head, head + 1, reader->seed) != head->checksum ||
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
 * Bytes behind the last whole record were never synced, unless a later whole
 * record says that they were.
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

static int damaged(const struct reader *reader, const char *where)
{
	complain(
	    "log '%s': log-%010llu is %s; this replica can't know its "
	    "promises: move the folder away, and it will join as a new one",
	    reader->journal->setup.dir, (unsigned long long)reader->file,
	    where);
	return -EBADMSG;
}

/* Returns how much of the file is whole, or an error. */
static int64_t read_records(struct reader *reader)
{
	const struct record_head *head;
	char where[80];
	uint64_t at = 0;
	int ret;

	while (at < reader->size && (head = record_at(reader, at))) {
		ret = restore_record(reader, head);
		if (ret < 0)
			return ret;
		at += sizeof(*head) + head->size;
	}
	if (!at)
		return damaged(reader,
		    "damaged at its beginning, or the file of another replica");
	if (at == reader->size || is_torn(reader, at))
		return (int64_t)at;
	snprintf(where, sizeof(where),
	    "damaged at byte %llu, which had been synced",
	    (unsigned long long)at);
	return damaged(reader, where);
}

static int64_t read_file(struct reader *reader, int fd)
{
	struct stat status;
	int64_t ret;
	void *bytes;

	if (fstat(fd, &status) < 0)
		return -errno;
	if (!status.st_size)
		return damaged(reader, "empty");
	reader->size = (uint64_t)status.st_size;
	bytes = mmap(NULL, reader->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	reader->bytes = bytes;
	ret = read_records(reader);
	munmap(bytes, reader->size);
	return ret;
}

/* The last file continues behind its whole records. */
static int go_on(struct journal *journal, int fd, int64_t size)
{
	if (ftruncate(fd, size) < 0 || fsync(fd) < 0)
		return -errno;
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = fd;
	journal->size = journal->synced_size = (uint64_t)size;
	return 0;
}

static int replay_file(struct reader *reader, struct journal_file *file)
{
	struct journal *journal = reader->journal;
	char name[FILE_NAME_SIZE];
	int64_t size;
	int fd, ret;

	files_name(name, file->number);
	reader->file = file->number;
	reader->seed = file_seed(journal, file->number);
	reader->last = file == &journal->files[journal->n_files - 1];
	reader->slot = 0;
	fd = journal_open_file(
	    journal->dir_fd, journal->setup.dir, name, O_RDWR | O_APPEND);
	if (fd < 0)
		return fd;
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

static int missing(const struct journal *journal, uint64_t number)
{
	complain("log '%s': log-%010llu is missing; this replica can't know "
		 "its promises: move the folder away, and it will join as a "
		 "new one",
	    journal->setup.dir, (unsigned long long)number);
	return -EBADMSG;
}

static int check_numbers(const struct journal *journal)
{
	const struct journal_file *files = journal->files;
	size_t i;

	if (!journal->n_files)
		return missing(journal, 1);
	for (i = 1; i < journal->n_files; i++)
		if (files[i].number != files[i - 1].number + 1)
			return missing(journal, files[i - 1].number + 1);
	return 0;
}

int journal_replay(struct journal *journal,
    int (*restore)(void *arg, const struct kv_record *record), void *arg)
{
	struct reader reader = {
		.journal = journal,
		.restore = restore,
		.arg = arg,
	};
	int ret = check_numbers(journal);
	size_t i;

	for (i = 0; !ret && i < journal->n_files; i++)
		ret = replay_file(&reader, &journal->files[i]);
	if (ret < 0 && ret != -EBADMSG)
		complain("log '%s': reading it: %s", journal->setup.dir,
		    strerror(-ret));
	return ret;
}
