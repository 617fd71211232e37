/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A registry that reads these bytes as its journal, in memory. The first byte
 * says how: as the whole file, or as the changes of records, whose lengths and
 * checksums are then right; the byte before each record is its length. What was
 * read is then changed, compacted, and read again: it must be the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <dfi/log.h>

#include "base/clock.h"
#include "fuzz.h"
#include "registry/journal/journal_impl.h"
#include "registry/server/server.h"
#include "registry/server/session.h"
#include "registry/server/sync_impl.h"

/* The journal, and the one that is made anew. */
static struct fuzz_file {
	uint8_t *at;
	size_t size, read;
	bool there;
} files[2];

static int number_of(const char *name)
{
	return strcmp(name, JOURNAL_NAME) == 0 ? 0 : 1;
}

static int file_open(void *arg, const char *name, int flags)
{
	struct fuzz_file *file = &files[number_of(name)];

	(void)arg;
	if (!file->there && !(flags & O_CREAT))
		return -ENOENT;
	file->there = true;
	file->read = 0;
	if (flags & O_TRUNC)
		file->size = 0;
	return number_of(name);
}

static void file_close(void *arg, int fd)
{
	(void)arg;
	(void)fd;
}

static int64_t file_read(void *arg, int fd, void *to, size_t size)
{
	struct fuzz_file *file = &files[fd];
	size_t left = file->size - file->read;

	(void)arg;
	size = size < left ? size : left;
	if (size)
		memcpy(to, file->at + file->read, size);
	file->read += size;
	return (int64_t)size;
}

static int64_t file_write(void *arg, int fd, const void *from, size_t size)
{
	struct fuzz_file *file = &files[fd];

	(void)arg;
	file->at = realloc(file->at, file->size + size + 1);
	fuzz_check(file->at);
	memcpy(file->at + file->size, from, size);
	file->size += size;
	return (int64_t)size;
}

static int64_t file_size(void *arg, int fd)
{
	(void)arg;
	return (int64_t)files[fd].size;
}

static int file_truncate(void *arg, int fd, uint64_t size)
{
	(void)arg;
	fuzz_check(size <= files[fd].size);
	files[fd].size = size;
	return 0;
}

static int file_sync(void *arg, int fd)
{
	(void)arg;
	(void)fd;
	return 0;
}

static int file_sync_names(void *arg)
{
	(void)arg;
	return 0;
}

/* The open file keeps its number, as it is read no more. */
static int file_rename(void *arg, const char *from, const char *to)
{
	struct fuzz_file file = files[1];

	(void)arg;
	fuzz_check(number_of(from) == 1 && number_of(to) == 0);
	files[1] = files[0];
	files[1].there = false;
	files[0] = file;
	return 0;
}

static int file_remove(void *arg, const char *name)
{
	struct fuzz_file *file = &files[number_of(name)];

	(void)arg;
	if (!file->there)
		return -ENOENT;
	file->there = false;
	return 0;
}

static const struct journal_file_ops ops = {
	.open = file_open,
	.close = file_close,
	.read = file_read,
	.write = file_write,
	.size = file_size,
	.truncate = file_truncate,
	.sync = file_sync,
	.sync_names = file_sync_names,
	.rename = file_rename,
	.remove = file_remove,
};

static const struct journal_files memory = { .ops = &ops, .path = "fuzz" };

static void ignore_line(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static void start(struct server *server)
{
	static const struct table_limits limits = {
		.max_keys = 1,
		.max_bytes = 1,
		.max_leases = 1,
		.max_lease_keys = 1,
		.max_watches = 1,
	};
	static const struct table_hooks hooks = { .arg = NULL };

	memset(server, 0, sizeof(*server));
	TAILQ_INIT(&server->live);
	TAILQ_INIT(&server->closing);
	TAILQ_INIT(&server->doomed);
	TAILQ_INIT(&server->unsent);
	fuzz_check(dfi__table_create(&limits, &hooks, &server->table) == 0);
	server->sync = calloc(1, sizeof(*server->sync));
	fuzz_check(server->sync);
	server->sync->server = server;
	server->sync->location = 1;
	TAILQ_INIT(&server->sync->queue);
}

static void stop(struct server *server)
{
	dfi__restored_free(server);
	dfi__table_destroy(server->table);
	free(server->sync);
}

static int read_journal(struct server *server)
{
	struct journal_hooks hooks = {
		.apply = dfi__restored_apply,
		.arg = server,
	};

	start(server);
	return dfi__journal_open(&memory, &hooks, &server->sync->journal);
}

/* Make records of what the bytes say. */
static void write_records(const uint8_t *data, size_t size)
{
	uint8_t record[sizeof(struct journal_head) + 255];
	struct journal_hooks hooks = { .apply = NULL };
	struct journal *journal;
	uint64_t n = 0;
	size_t length;

	fuzz_check(dfi__journal_open(&memory, &hooks, &journal) == 0);
	while (size > 1) {
		length = data[0] < size - 1 ? data[0] : size - 1;
		memcpy(record + sizeof(struct journal_head), data + 1, length);
		length += sizeof(struct journal_head);
		dfi__journal_seal(
		    dfi__journal_store(journal), n++, record, length);
		file_write(NULL, 0, record, length);
		length -= sizeof(struct journal_head);
		data += 1 + length;
		size -= 1 + length;
	}
	dfi__journal_close(journal);
}

/* A sum of all that a table has. */
static uint64_t digest(const struct server *server)
{
	uint64_t sum = dfi__table_revision(server->table);
	const struct session *session;
	struct table_item item;
	int found = dfi__table_next(server->table, "", "", &item);

	for (; found; found = dfi__table_step("", &item))
		sum = sum * 31 + item.revision + 7 * item.owner +
		    17 * item.lease + item.size +
		    dfi__wire_digest(sum, item.value, item.size) +
		    dfi__wire_digest(sum, item.key, strlen(item.key));
	TAILQ_FOREACH(session, &server->live, link)
	{
		/* They are in the order of the leases, or not. */
		sum += session->lease * 1000003 + session->client;
	}
	return sum;
}

static void compact(struct server *server)
{
	struct journal *journal = server->sync->journal;

	server->sync->retry_at = 0;
	dfi__journal_break(journal, -EIO);
	while (
	    dfi__journal_check(journal) || dfi__journal_is_compacting(journal))
		dfi__sync_compact_step(server->sync);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct server server;
	uint64_t before;
	int i;

	if (!size)
		return 0;
	dfi_log_set(DFI_LOG_ERROR, ignore_line, NULL);
	if (data[0] & 1) {
		write_records(data + 1, size - 1);
	} else {
		file_write(NULL, 0, data + 1, size - 1);
		files[0].there = true;
	}
	if (read_journal(&server) == 0) {
		before = digest(&server);
		compact(&server);
		dfi__journal_close(server.sync->journal);
		stop(&server);
		fuzz_check(read_journal(&server) == 0);
		fuzz_check(digest(&server) == before);
		dfi__journal_close(server.sync->journal);
	}
	stop(&server);
	for (i = 0; i < 2; i++) {
		free(files[i].at);
		files[i] = (struct fuzz_file){ .at = NULL };
	}
	return 0;
}
