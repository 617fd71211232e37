/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last entries of a replica's log, in bounded memory: a ring of bytes, and
 * an index by slot. The slots first..last are there, without holes.
 */
#ifndef KV_LOG_H
#define KV_LOG_H

#include "message.h"

struct kv_log {
	uint64_t first; /* oldest slot that is held */
	uint64_t last;  /* newest; first - 1: none */
	char *bytes;    /* entries, back to back; one with slot 0: go to 0 */
	size_t size;
	size_t head, tail; /* next byte to write; oldest byte in use */
	size_t used;
	uint32_t *index;     /* by slot & mask: offset in bytes, over 8 */
	uint64_t *positions; /* likewise, on the disk; or NULL */
	uint64_t mask;
};

/* A run of entries that can be sent. */
struct kv_run {
	uint64_t first;
	unsigned count;
	size_t bytes;
	bool whole; /* in one piece */
};

/*
 * The smallest size of a log. A restart holds again the entries that were not
 * applied, up to half of the log, and those applied since the last hint to the
 * disk, up to an eighth; the rest must hold five of the largest entries.
 */
#define KV_LOG_MIN 262144

/* The memory that a full log of a size takes. */
uint64_t kv_log_needs(size_t size, bool disk);

/* An empty log behind a slot. -ENOMEM. */
int kv_log_open(struct kv_log *log, size_t size, bool disk, uint64_t slot);
void kv_log_close(struct kv_log *log);

/* Forget all up to a slot; later entries stay. */
void kv_log_drop(struct kv_log *log, uint64_t slot);

/*
 * Put a command in a slot, at most one behind the last; it replaces the slot's
 * old command, and may be the same one. Slots up to applied may be forgotten
 * for it. NULL: no room.
 */
struct kv_entry *kv_log_put(struct kv_log *log, uint64_t applied, uint64_t slot,
    const struct kv_command *command, size_t size);

/* The same, with all members of an entry. */
struct kv_entry *kv_log_put_entry(
    struct kv_log *log, uint64_t applied, const struct kv_entry *entry);

/*
 * Whether there is room for new slots: entries that are not applied take up to
 * half of the log. The rest is for replaced entries, and for slow replicas.
 */
bool kv_log_takes(const struct kv_log *log, uint64_t applied);

/*
 * The entries from a slot on, up to a slot, that fit room bytes: at least one.
 */
void kv_log_measure(const struct kv_log *log, uint64_t from, uint64_t to,
    size_t room, struct kv_run *run);
void kv_log_copy(const struct kv_log *log, const struct kv_run *run, char *to);

/* The entry of a slot in first..last. */
static inline struct kv_entry *kv_log_at(
    const struct kv_log *log, uint64_t slot)
{
	return (void *)(log->bytes + (size_t)log->index[slot & log->mask] * 8);
}

static inline bool kv_log_has(const struct kv_log *log, uint64_t slot)
{
	return slot >= log->first && slot <= log->last;
}

#endif
