/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replica's disk: what it has promised and accepted, in files of one folder.
 *
 *	identity          who this is: written once
 *	log-0000000001    records, in their order; the last file grows
 *	snapshot          the store at some slot: see snapshot.h
 *
 * A thread of the journal writes and syncs all waiting records in one batch
 * (group commit). If that fails, the content of the disk is unknown. Then the
 * process ends, as the replica may send nothing more.
 *
 * A record has a checksum. A start cuts off a half-written record at the end of
 * the last file. Damage to synced records, a missing file, and a file of
 * another replica are errors: a replica that forgets a promise could contradict
 * itself.
 *
 * One thread, the owner's. Functions return 0 or a negative errno value and say
 * why on stderr.
 */
#ifndef KV_JOURNAL_H
#define KV_JOURNAL_H

#include "paxos.h"

struct journal;

struct journal_identity {
	uint64_t cluster, incarnation;
	uint32_t self, n_replicas;
	struct kv_config config; /* of the first slot; all 0: not known */
};

/*
 * Open a regular file of the folder. Never waits for another process, as a FIFO
 * would. -ENOENT, without a complaint: there is none. Other errors complain.
 */
int journal_open_file(int dir_fd, const char *dir, const char *name, int flags);

struct journal_setup {
	const char *dir; /* made if it does not exist */
	/* More is synced: called in the journal's thread. */
	void (*synced)(void *arg);
	void *arg;
	uint64_t file_size; /* a new file is begun behind it; 0: 64 MiB */
};

/*
 * Lock the folder and read its identity. *found: it has one; otherwise call
 * journal_create() next. -EBUSY: another process uses it. -EBADMSG: damaged, or
 * a part is missing.
 */
int journal_open(const struct journal_setup *setup,
    struct journal_identity *identity, bool *found, struct journal **journal);

/* Make this replica's identity durable. Once, in a folder without one. */
int journal_create(
    struct journal *journal, const struct journal_identity *identity);

/*
 * Read all records in their order. -EBADMSG: a file is damaged or missing.
 * Returns a negative result of restore().
 */
int journal_replay(struct journal *journal,
    int (*restore)(void *arg, const struct kv_record *record), void *arg);

/* Start the thread. Appends are allowed from now on. */
int journal_start(struct journal *journal);

/* Append a record. Returns the position behind it. Never waits. */
uint64_t journal_append(
    struct journal *journal, const struct kv_record *record);

/* Pass appended records to the thread: once for each turn of a loop. */
void journal_submit(struct journal *journal);

/* All records up to this position are on the disk. */
uint64_t journal_synced(const struct journal *journal);

/* A snapshot covers all up to the slot: remove files without later records. */
void journal_trim(struct journal *journal, uint64_t slot);

struct journal_stats {
	uint64_t records, bytes, syncs, files;
};
void journal_query(const struct journal *journal, struct journal_stats *stats);

/* Sync what was appended, end the thread, and free. */
void journal_close(struct journal *journal);

#endif
