/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction of a journal. The fresh file gets the state, in records as large
 * as the caller makes them, then the records that were committed meanwhile. It
 * is complete and synced before it takes the journal's name.
 */
#include "journal_impl.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"

bool dfi__journal_is_compacting(const struct journal *journal)
{
	return journal->fresh.fd >= 0 || journal->switching;
}

bool dfi__journal_is_switching(const struct journal *journal)
{
	return journal->switching;
}

void dfi__journal_compact_abandon(struct journal *journal)
{
	const struct journal_files *files = &journal->files;

	if (journal->fresh.fd >= 0) {
		files->ops->close(files->arg, journal->fresh.fd);
		files->ops->remove(files->arg, JOURNAL_NEW);
	}
	journal->fresh.fd = -1;
	journal->slice.size = 0;
	dfi__journal_bytes_free(&journal->tail);
}

/* An error ends the compaction. */
static int settle(struct journal *journal, int ret)
{
	if (!ret)
		return 0;
	dfi__journal_compact_abandon(journal);
	if (journal->broken)
		journal->broken = ret;
	return dfi__journal_fail(journal, ret);
}

int dfi__journal_compact_begin(struct journal *journal)
{
	struct journal_file fresh = { .fd = -1 };
	int ret = dfi__journal_make(journal, JOURNAL_NEW, &fresh);

	journal->fresh = fresh;
	return settle(journal, ret);
}

/* Write the slice as a record. */
static int write_slice(struct journal *journal)
{
	struct journal_file *fresh = &journal->fresh;
	struct journal_bytes *slice = &journal->slice;
	int ret;

	if (!slice->size)
		return 0;
	dfi__journal_seal(journal->store, fresh->n, slice->at, slice->size);
	ret = dfi__journal_write(journal, fresh, slice->at, slice->size);
	slice->size = 0;
	fresh->n++;
	return ret;
}

int dfi__journal_compact_write(struct journal *journal)
{
	const struct journal_files *files = &journal->files;
	int ret = write_slice(journal);

	if (!ret)
		ret = files->ops->sync(files->arg, journal->fresh.fd);
	return settle(journal, ret);
}

/* Give the records of the tail the numbers that they have in this file. */
static void number_tail(struct journal *journal)
{
	struct journal_bytes *tail = &journal->tail;
	struct journal_head head;
	size_t at = 0, size;

	while (at < tail->size) {
		memcpy(&head, tail->at + at, sizeof(head));
		size = sizeof(head) + le32toh(head.size);
		dfi__journal_seal(
		    journal->store, journal->fresh.n++, tail->at + at, size);
		at += size;
	}
}

int dfi__journal_compact_switch(struct journal *journal)
{
	const struct journal_files *files = &journal->files;
	int ret = write_slice(journal);

	journal->least = journal->fresh.size;
	number_tail(journal);
	if (!ret)
		ret = dfi__journal_write(journal, &journal->fresh,
		    journal->tail.at, journal->tail.size);
	if (!ret)
		ret = files->ops->sync(files->arg, journal->fresh.fd);
	if (!ret)
		ret = files->ops->rename(files->arg, JOURNAL_NEW, JOURNAL_NAME);
	if (ret)
		return settle(journal, ret);
	files->ops->close(files->arg, journal->file.fd);
	journal->file = journal->fresh;
	journal->fresh.fd = -1;
	journal->switching = true;
	journal->broken = 0;
	dfi__journal_compact_abandon(journal); /* frees the rest */
	return 0;
}

int dfi__journal_compact_finish(struct journal *journal)
{
	const struct journal_files *files = &journal->files;
	int ret = files->ops->sync_names(files->arg);

	journal->switching = false;
	/* After a loss of power, the name may be that of the former file. */
	if (ret)
		dfi__journal_break(journal, ret);
	return dfi__journal_check(journal);
}
