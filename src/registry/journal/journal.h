/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a registry: a file of records, each of which has the changes
 * that were synced together. A record is whole or does not count: it has its
 * length and a checksum that also covers its number.
 *
 * The file is compacted by writing the present state beside it, and then
 * renaming. Changes go on meanwhile: they are added to both files. Each call
 * syncs once at most.
 *
 * A write that fails leaves it broken: it takes no record until a compaction
 * succeeds, so that no record follows a damaged one. One thread at a time.
 */
#ifndef DFI_REGISTRY_JOURNAL_JOURNAL_H
#define DFI_REGISTRY_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "files.h"
#include "record.h"

struct journal;

/* A longer record is not read. */
#define JOURNAL_RECORD_MAX (256 << 20)

/* apply gets each change that the file has, in order; not 0: the open fails. */
struct journal_hooks {
	int (*apply)(void *arg, const struct journal_change *change);
	void *arg;
};

/*
 * Open the journal of a directory, and read it; without one, make one. What
 * follows the last whole record is dropped, and logged, if an interrupted write
 * can have left it. -EBADMSG: it is damaged in its middle, or no journal, or
 * has another version. -ENOSPC, -EIO, -ENOMEM, and those of apply.
 */
int dfi__journal_open(const struct journal_files *files,
    const struct journal_hooks *hooks, struct journal **journal);
/* NULL is allowed. */
void dfi__journal_close(struct journal *journal);

/* The random number of this state, from when its directory was made. */
uint64_t dfi__journal_store(const struct journal *journal);

/* Add a change to the next record. -ENOMEM: it is not added. */
int dfi__journal_add(
    struct journal *journal, const struct journal_change *change);

/* The bytes that the next record has. */
size_t dfi__journal_added(const struct journal *journal);

/*
 * Write the next record, and sync. If that fails, with a text that says why,
 * the record is dropped and the journal is broken.
 */
int dfi__journal_commit(struct journal *journal);

/*
 * A change that was not stored has been carried out, or one that was stored has
 * not: break the journal until a compaction.
 */
void dfi__journal_break(struct journal *journal, int err);

/* 0, or why it is broken, with the text. */
int dfi__journal_check(const struct journal *journal);

/* Tells whether to compact it: it is broken, or large for what it has. */
bool dfi__journal_is_due(const struct journal *journal);

/*
 * A compaction begins, gets the whole present state, and is written as often as
 * added() has grown large. Then it is switched to and finished: no record is
 * committed between these two. Each may fail; then the compaction is abandoned,
 * and the journal is as before, or broken.
 */
int dfi__journal_compact_begin(struct journal *journal);
int dfi__journal_compact_add(
    struct journal *journal, const struct journal_change *change);
size_t dfi__journal_compact_added(const struct journal *journal);
int dfi__journal_compact_write(struct journal *journal);
int dfi__journal_compact_switch(struct journal *journal);
int dfi__journal_compact_finish(struct journal *journal);
void dfi__journal_compact_abandon(struct journal *journal);

/* It has begun, and is neither finished nor abandoned; it is switched to. */
bool dfi__journal_is_compacting(const struct journal *journal);
bool dfi__journal_is_switching(const struct journal *journal);

#endif
