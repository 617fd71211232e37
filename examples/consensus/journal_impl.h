/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files journal*.c. A record in a file:
 *
 *	+-------+------+----------+--------+----------+---------------------+
 *	| magic | type | size (4) | synced | checksum | payload, size bytes |
 *	+-------+------+----------+--------+----------+---------------------+
 *
 * The payload is a ballot, a slot, or an entry; all are multiples of 8 bytes.
 * synced is how much of the file was synced when the record was written. A
 * whole record behind a broken one thus tells damage from the remains of a
 * crash.
 *
 * A file gets its name when its first record, a promise, is synced. So a file
 * without a whole first record is damaged, and so is a folder without a file.
 * Checksums depend on the replica's incarnation and the file's number: the file
 * of another replica, or under another number, has no valid record.
 */
#ifndef KV_JOURNAL_IMPL_H
#define KV_JOURNAL_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "journal.h"

#define RECORD_MAGIC 0x4b4a /* "JK" */

struct record_head {
	uint16_t magic;
	uint16_t type; /* enum kv_record_type */
	uint32_t size;
	uint64_t synced;
	uint64_t checksum; /* of what comes before and behind, by file */
};

/* The first record of a file, and all that a new one has. */
#define FIRST_RECORD_SIZE (sizeof(struct record_head) + sizeof(kv_ballot))

/* Records on their way to the disk. */
struct journal_batch {
	char *bytes;
	size_t size, room;
	uint64_t n;
	kv_ballot promise; /* the last one in it; 0: none */
	uint64_t slot;     /* the highest of its entries */
};

struct journal_file {
	uint64_t number;
	uint64_t slot; /* the highest of its entries */
};

struct journal {
	struct journal_setup setup;
	uint64_t incarnation;
	int dir_fd, lock_fd;
	/* The thread's, once it runs. */
	int fd;                     /* of the last file */
	uint64_t size, synced_size; /* of the last file */
	kv_ballot promise;          /* the last one that was written */
	struct journal_file *files;
	size_t n_files;
	struct journal_batch writing;
	/* The owner's. */
	struct journal_batch filling;
	uint64_t position; /* bytes appended, all files together */
	/* Both. */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct journal_batch pending;
	uint64_t trim; /* a snapshot's slot that is not yet used; 0: none */
	bool stop;
	_Atomic uint64_t synced;
	_Atomic uint64_t n_records, n_bytes, n_syncs, n_kept;
};

/* seed: file_seed(). */
uint64_t record_checksum(
    const struct record_head *head, const void *payload, uint64_t seed);
uint64_t file_seed(const struct journal *journal, uint64_t number);

#define FILE_NAME_SIZE 32
void files_name(char *name, uint64_t number);

/* Find the files. Complains. */
int files_find(struct journal *journal);

/*
 * Whether the folder, without an identity, has files that only a replica with
 * one writes; negative on errors. A first file without records, which a crash
 * may leave, is removed.
 */
int files_without_identity(struct journal *journal);

/* Begin the next file, with the promise that holds; -errno. */
int files_begin(struct journal *journal);
void files_trim(struct journal *journal, uint64_t slot);

/* Add a record to a batch. Returns its size in the file. Ends on ENOMEM. */
size_t batch_add(struct journal_batch *batch, const struct kv_record *record);

/* Fill in the fields of a batch's records that only the writer knows. */
void batch_seal(struct journal_batch *batch, uint64_t synced, uint64_t seed);

#endif
