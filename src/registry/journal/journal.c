/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See journal.h. Here records are written. A record's checksum depends on its
 * number and on the journal's own number, so that a record of another file, or
 * at another place, does not count.
 */
#include "journal_impl.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"
#include "base/log.h"

/* It is not compacted below that, */
#define DUE_SIZE (1 << 20)
/* nor before it has grown by this factor. */
#define DUE_FACTOR 4

_Static_assert(sizeof(struct journal_start) == 32, "as in a file");
_Static_assert(sizeof(struct journal_head) == 16, "as in a file");

uint64_t dfi__journal_checksum(
    uint64_t store, uint64_t number, const void *changes, size_t size)
{
	return XXH3_64bits_withSeed(changes, size, store + number);
}

static uint32_t check_of(uint64_t store, uint64_t number, uint32_t size)
{
	return (uint32_t)XXH3_64bits_withSeed(
	    &size, sizeof(size), store ^ ~number);
}

bool dfi__journal_head_is_whole(
    uint64_t store, uint64_t number, const struct journal_head *head)
{
	return le32toh(head->check) == check_of(store, number, head->size) &&
	    le32toh(head->size) <= JOURNAL_RECORD_MAX;
}

void dfi__journal_seal(
    uint64_t store, uint64_t number, uint8_t *record, size_t size)
{
	struct journal_head head;

	head.size = htole32((uint32_t)(size - sizeof(head)));
	head.check = htole32(check_of(store, number, head.size));
	head.checksum = htole64(dfi__journal_checksum(
	    store, number, record + sizeof(head), size - sizeof(head)));
	memcpy(record, &head, sizeof(head));
}

int dfi__journal_write(struct journal *journal, struct journal_file *file,
    const void *from, size_t size)
{
	const struct journal_files *files = &journal->files;
	size_t done = 0;
	int64_t n;

	while (done < size) {
		n = files->ops->write(files->arg, file->fd,
		    (const uint8_t *)from + done, size - done);
		if (n <= 0)
			return n ? (int)n : -EIO;
		done += (size_t)n;
	}
	file->size += size;
	return 0;
}

int dfi__journal_make(
    struct journal *journal, const char *name, struct journal_file *file)
{
	const struct journal_files *files = &journal->files;
	struct journal_start start = {
		.magic = "DFI-JRNL",
		.version = htole32(JOURNAL_VERSION),
		.store = htole64(journal->store),
	};
	int fd = files->ops->open(
	    files->arg, name, O_RDWR | O_APPEND | O_CREAT | O_TRUNC);

	if (fd < 0)
		return fd;
	start.checksum = htole64(dfi__journal_checksum(
	    0, 0, &start, offsetof(struct journal_start, checksum)));
	*file = (struct journal_file){ .fd = fd };
	return dfi__journal_write(journal, file, &start, sizeof(start));
}

int dfi__journal_fail(const struct journal *journal, int err)
{
	const char *path = journal->files.path;

	if (err == -ENOSPC || err == -EDQUOT || err == -EFBIG)
		return dfi__fail(-ENOSPC,
		    "the registry's state directory '%s' can't be written: %s: "
		    "make room there; meanwhile, the registry refuses changes "
		    "that it can't store",
		    path, strerrordesc_np(-err));
	if (err == -ENOMEM)
		return dfi__fail(-ENOMEM,
		    "no memory for the journal in the registry's state "
		    "directory '%s'",
		    path);
	return dfi__fail(-EIO,
	    "the registry's state directory '%s' can't be read or written: %s: "
	    "look after its file system; meanwhile, the registry refuses "
	    "changes that it can't store",
	    path, strerrordesc_np(-err));
}

static int begin_record(struct journal_bytes *bytes)
{
	static const struct journal_head none;

	return bytes->size ? 0
			   : dfi__journal_bytes_add(bytes, &none, sizeof(none));
}

static int add_to(
    struct journal_bytes *bytes, const struct journal_change *change)
{
	int ret = begin_record(bytes);

	if (!ret)
		ret = dfi__journal_encode(bytes, change);
	return ret ? dfi__fail(ret, "no memory for the registry's journal") : 0;
}

static size_t added_to(const struct journal_bytes *bytes)
{
	return bytes->size ? bytes->size - sizeof(struct journal_head) : 0;
}

int dfi__journal_add(
    struct journal *journal, const struct journal_change *change)
{
	return add_to(&journal->next, change);
}

size_t dfi__journal_added(const struct journal *journal)
{
	return added_to(&journal->next);
}

int dfi__journal_compact_add(
    struct journal *journal, const struct journal_change *change)
{
	return add_to(&journal->slice, change);
}

size_t dfi__journal_compact_added(const struct journal *journal)
{
	return added_to(&journal->slice);
}

uint64_t dfi__journal_store(const struct journal *journal)
{
	return journal->store;
}

int dfi__journal_check(const struct journal *journal)
{
	return journal->broken ? dfi__journal_fail(journal, journal->broken)
			       : 0;
}

void dfi__journal_break(struct journal *journal, int err)
{
	dfi__journal_compact_abandon(journal);
	if (!journal->broken) {
		dfi__journal_fail(journal, err);
		dfi__log(DFI_LOG_ERROR, "%s", dfi_errmsg());
	}
	journal->broken = err;
}

bool dfi__journal_is_due(const struct journal *journal)
{
	return journal->broken ||
	    (journal->file.size > DUE_SIZE &&
		journal->file.size / DUE_FACTOR > journal->least);
}

/* Write the next record to the file; what of it was written is taken back. */
static int store(struct journal *journal)
{
	const struct journal_files *files = &journal->files;
	struct journal_file *file = &journal->file;
	uint64_t before = file->size;
	int ret;

	if (journal->broken)
		return journal->broken;
	dfi__journal_seal(
	    journal->store, file->n, journal->next.at, journal->next.size);
	ret = dfi__journal_write(
	    journal, file, journal->next.at, journal->next.size);
	if (!ret)
		ret = files->ops->sync(files->arg, file->fd);
	if (!ret) {
		file->n++;
		return 0;
	}
	/*
	 * If this works, a registry that is killed now does not come back with
	 * changes that it has refused.
	 */
	file->size = before;
	if (!files->ops->truncate(files->arg, file->fd, before))
		files->ops->sync(files->arg, file->fd);
	dfi__journal_break(journal, ret);
	return ret;
}

/* The file that is being made gets the record when it has the state. */
static void follow(struct journal *journal)
{
	if (journal->fresh.fd < 0)
		return;
	if (dfi__journal_bytes_add(
		&journal->tail, journal->next.at, journal->next.size))
		dfi__journal_compact_abandon(journal);
}

int dfi__journal_commit(struct journal *journal)
{
	int ret;

	if (!dfi__journal_added(journal))
		return dfi__journal_check(journal);
	/* Its head tells its size to the one who reads the tail. */
	dfi__journal_seal(
	    journal->store, 0, journal->next.at, journal->next.size);
	ret = store(journal);
	/* Of a broken one, only what is carried out anyway is committed. */
	if (!ret || journal->fresh.fd >= 0)
		follow(journal);
	journal->next.size = 0;
	return ret ? dfi__journal_fail(journal, ret) : 0;
}

static int make_first(struct journal *journal)
{
	const struct journal_files *files = &journal->files;
	int ret;

	if (getrandom(&journal->store, sizeof(journal->store), 0) !=
	    sizeof(journal->store))
		return -errno;
	journal->store |= 1; /* 0: no journal */
	ret = dfi__journal_make(journal, JOURNAL_NEW, &journal->file);
	if (!ret)
		ret = files->ops->sync(files->arg, journal->file.fd);
	if (!ret)
		ret = files->ops->rename(files->arg, JOURNAL_NEW, JOURNAL_NAME);
	if (!ret)
		ret = files->ops->sync_names(files->arg);
	return ret;
}

static int open_file(struct journal *journal, const struct journal_hooks *hooks)
{
	const struct journal_files *files = &journal->files;
	int fd, ret;

	/* Of a compaction that was not finished. */
	ret = files->ops->remove(files->arg, JOURNAL_NEW);
	if (ret && ret != -ENOENT)
		return dfi__journal_fail(journal, ret);
	fd = files->ops->open(files->arg, JOURNAL_NAME, O_RDWR | O_APPEND);
	if (fd >= 0) {
		journal->file.fd = fd;
		/* A registry that was killed may have just renamed it. */
		ret = files->ops->sync_names(files->arg);
		return ret ? dfi__journal_fail(journal, ret)
			   : dfi__journal_read(journal, hooks);
	}
	ret = fd == -ENOENT ? make_first(journal) : fd;
	return ret ? dfi__journal_fail(journal, ret) : 0;
}

int dfi__journal_open(const struct journal_files *files,
    const struct journal_hooks *hooks, struct journal **journal)
{
	struct journal *new = calloc(1, sizeof(*new));
	int ret;

	if (!new)
		return dfi__fail(-ENOMEM, "no memory for a journal");
	new->files = *files;
	new->file.fd = new->fresh.fd = -1;
	ret = open_file(new, hooks);
	if (ret) {
		dfi__journal_close(new);
		return ret;
	}
	*journal = new;
	return 0;
}

void dfi__journal_close(struct journal *journal)
{
	if (!journal)
		return;
	dfi__journal_compact_abandon(journal);
	if (journal->file.fd >= 0)
		journal->files.ops->close(journal->files.arg, journal->file.fd);
	dfi__journal_bytes_free(&journal->next);
	dfi__journal_bytes_free(&journal->slice);
	dfi__journal_bytes_free(&journal->tail);
	free(journal);
}
