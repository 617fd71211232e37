/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries are written at the head. Room is made at the tail: replaced and
 * applied entries are dropped, and needed ones move to the head. So a part of
 * the ring always stays free.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

/* This part stays free: the unused end, and one entry that moves. */
#define RESERVE (3 * (offsetof(struct kv_entry, command) + KV_MAX_COMMAND))

static size_t usable(size_t size)
{
	return (size < KV_LOG_MIN ? KV_LOG_MIN : size) & ~(size_t)7;
}

/* Places of the index. */
static uint64_t places_for(size_t size)
{
	uint64_t n = 64;

	while (n < size / sizeof(struct kv_entry))
		n *= 2;
	return n;
}

uint64_t kv_log_needs(size_t size, bool disk)
{
	size = usable(size);
	return size +
	    places_for(size) *
	    (sizeof(uint32_t) + (disk ? sizeof(uint64_t) : 0));
}

int kv_log_open(struct kv_log *log, size_t size, bool disk, uint64_t slot)
{
	uint64_t n;

	memset(log, 0, sizeof(*log));
	log->size = usable(size);
	n = places_for(log->size);
	log->mask = n - 1;
	log->first = slot + 1;
	log->last = slot;
	log->bytes = malloc(log->size);
	log->index = calloc(n, sizeof(*log->index));
	if (disk)
		log->positions = calloc(n, sizeof(*log->positions));
	if (!log->bytes || !log->index || (disk && !log->positions)) {
		kv_log_close(log);
		return -ENOMEM;
	}
	return 0;
}

void kv_log_close(struct kv_log *log)
{
	free(log->bytes);
	free(log->index);
	free(log->positions);
	memset(log, 0, sizeof(*log));
}

void kv_log_drop(struct kv_log *log, uint64_t slot)
{
	if (slot < log->first)
		return;
	log->first = slot + 1;
	if (log->last > slot)
		return;
	log->last = slot;
	log->head = log->tail = log->used = 0;
}

/* Room for size bytes at the head; there is enough. */
static struct kv_entry *take(struct kv_log *log, size_t size)
{
	size_t rest = log->size - log->head;
	struct kv_entry *entry;

	if (rest < size) {
		if (rest)
			((struct kv_entry *)(void *)(log->bytes + log->head))
			    ->slot = 0;
		log->used += rest;
		log->head = 0;
	}
	entry = (void *)(log->bytes + log->head);
	log->head += size;
	log->used += size;
	return entry;
}

static void index_entry(struct kv_log *log, const struct kv_entry *entry)
{
	log->index[entry->slot & log->mask] =
	    (uint32_t)((size_t)((const char *)entry - log->bytes) / 8);
}

/* Drop the oldest bytes. Returns how many were moved instead. */
static size_t reclaim(struct kv_log *log, uint64_t applied)
{
	struct kv_entry *entry = (void *)(log->bytes + log->tail), *moved;
	size_t size;

	if (log->tail == log->size || entry->slot == 0) {
		log->used -= log->size - log->tail;
		log->tail = 0;
		return 0;
	}
	size = kv_entry_size(entry);
	log->tail += size;
	log->used -= size;
	if (!kv_log_has(log, entry->slot) ||
	    kv_log_at(log, entry->slot) != entry)
		return 0;
	if (entry->slot <= applied) {
		log->first = entry->slot + 1;
		return 0;
	}
	moved = take(log, size);
	memmove(moved, entry, size);
	index_entry(log, moved);
	return size;
}

static bool make_room(struct kv_log *log, uint64_t applied, size_t size)
{
	size_t moved = 0;

	while (log->size - log->used < size + RESERVE) {
		moved += reclaim(log, applied);
		if (moved > log->size)
			return false;
	}
	while (log->last - log->first + 1 > log->mask) {
		if (log->first > applied)
			return false;
		log->first++;
	}
	return true;
}

struct kv_entry *kv_log_put(struct kv_log *log, uint64_t applied, uint64_t slot,
    const struct kv_command *command, size_t size)
{
	struct kv_entry *at = NULL;

	if (slot > log->last + 1)
		return NULL;
	if (kv_log_has(log, slot)) {
		at = kv_log_at(log, slot);
		if (at->size != size)
			at = NULL;
	}
	if (!at) {
		size_t bytes = offsetof(struct kv_entry, command) + size;

		if (!make_room(log, applied, bytes))
			return NULL;
		at = take(log, bytes);
		at->slot = slot;
		at->size = (uint32_t)size;
		index_entry(log, at);
	}
	if (command != &at->command)
		memcpy(&at->command, command, size);
	if (slot > log->last)
		log->last = slot;
	return at;
}

struct kv_entry *kv_log_put_entry(
    struct kv_log *log, uint64_t applied, const struct kv_entry *entry)
{
	struct kv_entry *own = kv_log_put(
	    log, applied, entry->slot, &entry->command, entry->size);

	if (own) {
		own->ballot = entry->ballot;
		own->decided = entry->decided;
	}
	return own;
}

bool kv_log_takes(const struct kv_log *log, uint64_t applied)
{
	size_t at;

	if (!kv_log_has(log, applied + 1))
		return true;
	at = (size_t)log->index[(applied + 1) & log->mask] * 8;
	at = log->head > at ? log->head - at : log->size - at + log->head;
	return at <= log->size / 2;
}

void kv_log_measure(const struct kv_log *log, uint64_t from, uint64_t to,
    size_t room, struct kv_run *run)
{
	const char *next = (const char *)kv_log_at(log, from);

	*run = (struct kv_run){ .first = from, .whole = true };
	for (; from <= to && run->count < UINT16_MAX; from++) {
		const struct kv_entry *entry = kv_log_at(log, from);
		size_t size = kv_entry_size(entry);

		if (run->count && run->bytes + size > room)
			break;
		if ((const char *)entry != next)
			run->whole = false;
		next = (const char *)entry + size;
		run->bytes += size;
		run->count++;
	}
}

void kv_log_copy(const struct kv_log *log, const struct kv_run *run, char *to)
{
	unsigned i;

	if (run->whole) {
		memcpy(to, kv_log_at(log, run->first), run->bytes);
		return;
	}
	for (i = 0; i < run->count; i++) {
		const struct kv_entry *entry = kv_log_at(log, run->first + i);

		memcpy(to, entry, kv_entry_size(entry));
		to += kv_entry_size(entry);
	}
}
