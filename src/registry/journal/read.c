/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a journal. Each record was synced before the next one was written, so
 * an interrupted write can only damage the last one: that one is dropped. If a
 * whole record follows a damaged one, what was synced has been lost since, and
 * the file is refused.
 */
#include "journal_impl.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

/* What a record is read into. */
struct reading {
	struct journal *journal;
	const struct journal_hooks *hooks;
	uint8_t *changes;
	size_t room;
};

/* Returns how many bytes there were, or a negative errno value. */
static int64_t read_all(struct journal *journal, void *to, size_t size)
{
	const struct journal_files *files = &journal->files;
	size_t done = 0;
	int64_t n;

	while (done < size) {
		n = files->ops->read(files->arg, journal->file.fd,
		    (uint8_t *)to + done, size - done);
		if (n < 0)
			return n;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (int64_t)done;
}

static int fail_damaged(const struct journal *journal, const char *what)
{
	return dfi__fail(-EBADMSG,
	    "'%s/" JOURNAL_NAME "': %s at byte %llu: put a copy of the file "
	    "there, or move it away to begin with an empty registry",
	    journal->files.path, what, (unsigned long long)journal->file.size);
}

static int read_start(
    struct journal *journal, const struct journal_start *start)
{
	if (memcmp(start->magic, "DFI-JRNL", sizeof(start->magic)) != 0 ||
	    le64toh(start->checksum) !=
		dfi__journal_checksum(
		    0, 0, start, offsetof(struct journal_start, checksum)))
		return fail_damaged(journal, "it is not a registry's journal");
	if (le32toh(start->version) != JOURNAL_VERSION)
		return dfi__fail(-EBADMSG,
		    "'%s/" JOURNAL_NAME "' has version %u, and this registry "
		    "reads version %d: start the release that wrote it, or "
		    "move the file away to begin with an empty registry",
		    journal->files.path, le32toh(start->version),
		    JOURNAL_VERSION);
	journal->store = le64toh(start->store);
	journal->file.size = journal->least = sizeof(*start);
	return 0;
}

static int apply(struct reading *reading, size_t size)
{
	const uint8_t *at = reading->changes, *end = at + size;
	struct journal_change change;
	int ret = 0;

	while (!ret && at < end) {
		if (dfi__journal_decode(&at, end, &change))
			return fail_damaged(
			    reading->journal, "a change can't be decoded");
		ret = reading->hooks->apply(reading->hooks->arg, &change);
	}
	return ret;
}

static int make_room(struct reading *reading, size_t size)
{
	uint8_t *changes;

	if (reading->changes && size <= reading->room)
		return 0;
	/* A record without changes is also one. */
	changes = realloc(reading->changes, size + 1);
	if (!changes)
		return dfi__fail(
		    -ENOMEM, "no memory for the registry's journal");
	reading->changes = changes;
	reading->room = size;
	return 0;
}

/* Whether a whole record follows the damaged one that was just read. */
static int look_behind(struct reading *reading)
{
	struct journal *journal = reading->journal;
	struct journal_head head;
	int64_t n = read_all(journal, &head, sizeof(head));

	if (n < 0)
		return dfi__journal_fail(journal, (int)n);
	if (n == sizeof(head) &&
	    dfi__journal_head_is_whole(
		journal->store, journal->file.n + 1, &head))
		return fail_damaged(journal,
		    "it is damaged, and whole records follow: a disk has lost "
		    "what was stored,");
	return 0;
}

/* Read and apply a record: 1, or 0 if it is not whole. */
static int read_record(struct reading *reading)
{
	struct journal *journal = reading->journal;
	struct journal_file *file = &journal->file;
	struct journal_head head;
	size_t size;
	int64_t n;
	int ret;

	n = read_all(journal, &head, sizeof(head));
	if (n < 0)
		return dfi__journal_fail(journal, (int)n);
	if (n < (int64_t)sizeof(head) ||
	    !dfi__journal_head_is_whole(journal->store, file->n, &head))
		return 0;
	size = le32toh(head.size);
	ret = make_room(reading, size);
	if (ret)
		return ret;
	n = read_all(journal, reading->changes, size);
	if (n < 0)
		return dfi__journal_fail(journal, (int)n);
	if (n < (int64_t)size)
		return 0;
	if (le64toh(head.checksum) !=
	    dfi__journal_checksum(
		journal->store, file->n, reading->changes, size))
		return look_behind(reading);
	ret = apply(reading, size);
	if (ret)
		return ret;
	file->n++;
	file->size += sizeof(head) + size;
	return 1;
}

/* Drop what is behind the last whole record, if there is any. */
static int cut(struct journal *journal)
{
	const struct journal_files *files = &journal->files;
	struct journal_file *file = &journal->file;
	int64_t size = files->ops->size(files->arg, file->fd);
	int ret;

	if (size < 0)
		return dfi__journal_fail(journal, (int)size);
	if ((uint64_t)size <= file->size)
		return 0;
	dfi__log(DFI_LOG_WARN,
	    "'%s/" JOURNAL_NAME "': its last %llu bytes are not a whole "
	    "record, and are dropped: the registry was interrupted before it "
	    "had stored, or acknowledged, what they say",
	    files->path, (unsigned long long)size - file->size);
	ret = files->ops->truncate(files->arg, file->fd, file->size);
	if (!ret)
		ret = files->ops->sync(files->arg, file->fd);
	return ret ? dfi__journal_fail(journal, ret) : 0;
}

int dfi__journal_read(
    struct journal *journal, const struct journal_hooks *hooks)
{
	struct reading reading = { .journal = journal, .hooks = hooks };
	struct journal_start start;
	int64_t n = read_all(journal, &start, sizeof(start));
	int ret;

	if (n < 0)
		return dfi__journal_fail(journal, (int)n);
	if (n < (int64_t)sizeof(start))
		return fail_damaged(
		    journal, "it is too short to be a registry's journal");
	ret = read_start(journal, &start);
	if (ret)
		return ret;
	do
		ret = read_record(&reading);
	while (ret > 0);
	free(reading.changes);
	return ret ? ret : cut(journal);
}
