/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replica's disk. Appended records are safe when a sync that began later has
 * ended. A crash leaves the safe records and a prefix of the others. A torn
 * record counts as not written, as its checksum would show.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static struct sim_record *record_at(struct sim_disk *disk, uint64_t position)
{
	return &disk->records[position - disk->first];
}

uint64_t sim_append(void *arg, const struct kv_record *record)
{
	struct sim_replica *replica = arg;
	struct sim_disk *disk = &replica->disk;
	size_t n = (size_t)(disk->end - disk->first), size;
	struct sim_record *kept;

	if (n == disk->capacity) {
		disk->capacity = n ? 2 * n : 256;
		disk->records = realloc(
		    disk->records, disk->capacity * sizeof(*kept));
		if (!disk->records)
			abort();
	}
	kept = &disk->records[n];
	kept->record = *record;
	kept->entry = NULL;
	if (record->type == KV_RECORD_ENTRY) {
		size = kv_entry_size(record->entry);
		kept->entry = malloc(size);
		if (!kept->entry)
			abort();
		memcpy(kept->entry, record->entry, size);
		kept->record.entry = (const struct kv_entry *)kept->entry;
		((struct kv_entry *)kept->entry)->ballot = record->ballot;
	}
	return ++disk->end;
}

/* Begin a sync if there are unsafe records and no sync is under way. */
void sim_sync(struct sim_replica *replica)
{
	struct sim_disk *disk = &replica->disk;
	struct sim *sim = replica->sim;
	uint64_t time = sim->plan.sync;
	struct sim_event event = { .kind = SIM_SYNC,
		.node = (uint16_t)replica->number,
		.generation = replica->generation };

	if (!disk->exists || disk->busy || disk->synced == disk->end)
		return;
	if (!sim->calm && sim_chance(sim, 300))
		time *= 20;
	disk->busy = true;
	disk->syncing = disk->end;
	sim_add(sim, sim->now + 10 * US + sim_below(sim, time), &event);
}

void sim_synced(struct sim_replica *replica)
{
	struct sim_disk *disk = &replica->disk;

	disk->busy = false;
	disk->synced = disk->syncing;
	replica->sim->core->synced(replica, sim_local(replica), disk->synced);
}

/* The store without its sessions, for a planted fault. */
static int save_without_sessions(
    const struct kv_store *store, char **bytes, size_t *size)
{
	struct kv_store *copy;
	char *whole;
	int err = kv_store_save(store, &whole, size);

	if (err)
		return err;
	err = kv_store_load(whole, *size, &copy);
	free(whole);
	if (err)
		return err;
	kv_store_expire(copy, UINT64_MAX);
	err = kv_store_save(copy, bytes, size);
	kv_store_free(copy);
	return err;
}

void sim_save(void *arg, const struct kv_store *store)
{
	struct sim_replica *replica = arg;
	struct sim *sim = replica->sim;
	struct sim_snapshot *saving = &replica->saving;
	struct sim_event event = { .kind = SIM_SAVED,
		.node = (uint16_t)replica->number,
		.generation = replica->generation };
	int err;

	free(saving->bytes);
	saving->bytes = NULL;
	if (sim->bugs & PAXOS_BUG_LOST_SESSIONS)
		err = save_without_sessions(
		    store, &saving->bytes, &saving->size);
	else
		err = kv_store_save(store, &saving->bytes, &saving->size);
	if (err)
		abort();
	saving->slot = kv_store_slot(store);
	saving->mark = replica->disk.end;
	saving->needs = 0;
	trace(sim, "%u saves its store of slot %llu", replica->number,
	    (unsigned long long)saving->slot);
	sim_add(sim, sim->now + 50 * US + sim_below(sim, 3 * MS), &event);
}

static void drop_records(struct sim_disk *disk, uint64_t before)
{
	size_t i, n = (size_t)(before - disk->first);

	if (before <= disk->first)
		return;
	for (i = 0; i < n; i++)
		free(disk->records[i].entry);
	memmove(disk->records, disk->records + n,
	    (size_t)(disk->end - before) * sizeof(*disk->records));
	disk->first = before;
}

/*
 * The snapshot is complete. Drop older records after the records that the core
 * has written again are safe, as a program does.
 */
void sim_saved(struct sim_replica *replica)
{
	struct sim_snapshot *saving = &replica->saving;
	uint64_t slot = saving->slot;
	struct sim_event event = { .kind = SIM_SAVED,
		.node = (uint16_t)replica->number,
		.generation = replica->generation };

	if (!saving->needs && sim_chance(replica->sim, 300)) {
		paxos_snapshot(
		    replica->paxos, sim_local(replica), slot, -ENOSPC);
		return;
	}
	if (!saving->needs)
		saving->needs = replica->disk.end;
	if (replica->disk.exists && replica->disk.synced < saving->needs) {
		sim_sync(replica);
		sim_add(replica->sim, replica->sim->now + 20 * US, &event);
		return;
	}
	free(replica->saved.bytes);
	replica->saved = *saving;
	saving->bytes = NULL;
	if (replica->disk.exists)
		drop_records(&replica->disk, replica->saved.mark);
	paxos_snapshot(replica->paxos, sim_local(replica), slot, 0);
}

size_t sim_snapshot_read(void *arg, uint64_t offset, char *to, size_t size,
    uint64_t *slot, uint64_t *total)
{
	struct sim_replica *replica = arg;
	const struct sim_snapshot *saved = &replica->saved;

	*slot = saved->slot;
	*total = saved->bytes ? saved->size : 0;
	if (offset >= *total)
		return 0;
	if (size > *total - offset)
		size = (size_t)(*total - offset);
	if (size)
		memcpy(to, saved->bytes + offset, size);
	return size;
}

void sim_disk_crash(struct sim_replica *replica, bool forget)
{
	struct sim_disk *disk = &replica->disk;
	uint64_t keep = disk->synced, i;

	free(replica->saving.bytes);
	replica->saving.bytes = NULL;
	disk->busy = false;
	if (forget || !disk->exists) {
		drop_records(disk, disk->end);
		disk->synced = disk->end;
		free(replica->saved.bytes);
		memset(&replica->saved, 0, sizeof(replica->saved));
		return;
	}
	if (disk->end > keep)
		keep += sim_below(replica->sim, disk->end - keep + 1);
	replica->sim->counts.torn += keep < disk->end;
	for (i = keep; i < disk->end; i++)
		free(record_at(disk, i)->entry);
	disk->end = disk->synced = keep;
}

uint64_t sim_known_slot(const struct sim_replica *replica)
{
	const struct sim_disk *disk = &replica->disk;
	uint64_t i, slot = replica->saved.slot;

	if (!disk->exists)
		return replica->life == SIM_DOWN
		    ? 0
		    : kv_store_slot(paxos_store(replica->paxos));
	for (i = disk->first; i < disk->synced; i++) {
		const struct kv_record *record =
		    &disk->records[i - disk->first].record;

		if (record->type == KV_RECORD_COMMIT && record->slot > slot)
			slot = record->slot;
	}
	return slot;
}

int sim_disk_restore(struct sim_replica *replica)
{
	struct sim_disk *disk = &replica->disk;
	uint64_t i;
	int err;

	for (i = disk->first; i < disk->end; i++) {
		err = paxos_restore(
		    replica->paxos, &record_at(disk, i)->record);
		if (err)
			return err;
	}
	replica->sim->core->synced(replica, sim_local(replica), disk->synced);
	return 0;
}

void sim_disk_free(struct sim_replica *replica)
{
	drop_records(&replica->disk, replica->disk.end);
	free(replica->disk.records);
	free(replica->saved.bytes);
	free(replica->saving.bytes);
}
