/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's thread, and its state shared with the owner: three batches of
 * records. One is filled, one waits, one is written. They only change places,
 * so nothing is copied. One fdatasync() covers all records that have come
 * during the last one.
 */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "../../common/complain.h"
#include "journal_impl.h"

size_t batch_add(struct journal_batch *batch, const struct kv_record *record)
{
	const void *payload = &record->ballot;
	size_t size = sizeof(record->ballot), need;
	struct record_head *head;

	if (record->type == KV_RECORD_ENTRY) {
		payload = record->entry;
		size = kv_entry_size(record->entry);
	} else if (record->type == KV_RECORD_COMMIT) {
		payload = &record->slot;
	}
	need = sizeof(*head) + size;
	if (batch->size + need > batch->room) {
		batch->room = (batch->size + need) * 2;
		batch->bytes = realloc(batch->bytes, batch->room);
		if (!batch->bytes) {
			complain("no memory for the log");
			_exit(EX_OSERR);
		}
	}
	head = (struct record_head *)(void *)(batch->bytes + batch->size);
	*head = (struct record_head){
		.magic = RECORD_MAGIC,
		.type = record->type,
		.size = (uint32_t)size,
	};
	memcpy(head + 1, payload, size);
	batch->size += need;
	batch->n++;
	if (record->type == KV_RECORD_PROMISE)
		batch->promise = record->ballot;
	if (record->type == KV_RECORD_ENTRY &&
	    record->entry->slot > batch->slot)
		batch->slot = record->entry->slot;
	return need;
}

void batch_seal(struct journal_batch *batch, uint64_t synced, uint64_t seed)
{
	struct record_head *head;
	size_t at;

	for (at = 0; at < batch->size; at += sizeof(*head) + head->size) {
		head = (struct record_head *)(void *)(batch->bytes + at);
		head->synced = synced;
		head->checksum = record_checksum(head, head + 1, seed);
	}
}

/* After any failure here, the content of the disk is unknown. */
static void fail(const struct journal *journal, const char *what)
{
	complain("log '%s': %s failed: %s; the replica ends, as it can't keep "
		 "its promises",
	    journal->setup.dir, what, strerror(errno));
	_exit(EX_IOERR);
}

static void write_batch(struct journal *journal, struct journal_batch *batch)
{
	struct journal_file *file = &journal->files[journal->n_files - 1];

	batch_seal(
	    batch, journal->synced_size, file_seed(journal, file->number));
	if (write_all(journal->fd, batch->bytes, batch->size) < 0)
		fail(journal, "write");
	journal->size += batch->size;
	if (batch->promise)
		journal->promise = batch->promise;
	if (batch->slot > file->slot)
		file->slot = batch->slot;
}

static void sync_batch(struct journal *journal)
{
	struct journal_batch *batch = &journal->writing;

	if (journal->size >= journal->setup.file_size &&
	    files_begin(journal) < 0)
		fail(journal, "beginning a file");
	write_batch(journal, batch);
	if (fdatasync(journal->fd) < 0)
		fail(journal, "fdatasync");
	journal->synced_size = journal->size;
	atomic_fetch_add(&journal->synced, batch->size);
	atomic_fetch_add(&journal->n_syncs, 1);
	atomic_fetch_add(&journal->n_records, batch->n);
	atomic_fetch_add(&journal->n_bytes, batch->size);
	batch->size = 0;
	batch->n = 0;
	batch->promise = batch->slot = 0;
	journal->setup.synced(journal->setup.arg);
}

static void swap(struct journal_batch *a, struct journal_batch *b)
{
	struct journal_batch other = *a;

	*a = *b;
	*b = other;
}

static void *journal_main(void *arg)
{
	struct journal *journal = arg;
	uint64_t trim;

	pthread_mutex_lock(&journal->lock);
	for (;;) {
		while (
		    !journal->pending.size && !journal->trim && !journal->stop)
			pthread_cond_wait(&journal->changed, &journal->lock);
		trim = journal->trim;
		journal->trim = 0;
		if (!journal->pending.size && !trim)
			break;
		swap(&journal->writing, &journal->pending);
		pthread_mutex_unlock(&journal->lock);
		if (journal->writing.size)
			sync_batch(journal);
		if (trim)
			files_trim(journal, trim);
		pthread_mutex_lock(&journal->lock);
	}
	pthread_mutex_unlock(&journal->lock);
	return NULL;
}

int journal_start(struct journal *journal)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&journal->thread, NULL, journal_main, journal);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret) {
		complain("log '%s': no thread: %s", journal->setup.dir,
		    strerror(ret));
		return -ret;
	}
	journal->running = true;
	return 0;
}

uint64_t journal_append(struct journal *journal, const struct kv_record *record)
{
	journal->position += batch_add(&journal->filling, record);
	return journal->position;
}

void journal_submit(struct journal *journal)
{
	if (!journal->filling.size)
		return;
	pthread_mutex_lock(&journal->lock);
	if (!journal->pending.size) {
		swap(&journal->filling, &journal->pending);
		pthread_cond_signal(&journal->changed);
	}
	/* Otherwise it follows when the thread has written its batch. */
	pthread_mutex_unlock(&journal->lock);
}

uint64_t journal_synced(const struct journal *journal)
{
	return atomic_load(&journal->synced);
}

void journal_trim(struct journal *journal, uint64_t slot)
{
	pthread_mutex_lock(&journal->lock);
	if (slot > journal->trim)
		journal->trim = slot;
	pthread_cond_signal(&journal->changed);
	pthread_mutex_unlock(&journal->lock);
}

void journal_query(const struct journal *journal, struct journal_stats *stats)
{
	*stats = (struct journal_stats){
		.records = atomic_load(&journal->n_records),
		.bytes = atomic_load(&journal->n_bytes),
		.syncs = atomic_load(&journal->n_syncs),
		.files = atomic_load(&journal->n_kept),
	};
}

void journal_close(struct journal *journal)
{
	if (!journal)
		return;
	while (journal->running && journal->filling.size) {
		journal_submit(journal);
		sched_yield();
	}
	if (journal->running) {
		pthread_mutex_lock(&journal->lock);
		journal->stop = true;
		pthread_cond_signal(&journal->changed);
		pthread_mutex_unlock(&journal->lock);
		pthread_join(journal->thread, NULL);
	}
	if (journal->fd >= 0)
		close(journal->fd);
	close(journal->lock_fd);
	close(journal->dir_fd);
	free(journal->filling.bytes);
	free(journal->pending.bytes);
	free(journal->writing.bytes);
	free(journal->files);
	pthread_mutex_destroy(&journal->lock);
	pthread_cond_destroy(&journal->changed);
	free(journal);
}
