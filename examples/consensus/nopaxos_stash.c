/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stash: segments that cannot be accepted yet, in the order of their
 * numbers, in a ring of bytes. A segment that does not fit before the end goes
 * to the beginning; a head of size 0 marks the place.
 */
#include <string.h>

#include "nopaxos_impl.h"

static size_t padded(size_t size)
{
	return sizeof(struct stashed) + ((size + 7) & ~(size_t)7);
}

struct stashed *np_stash_oldest(struct nopaxos *np)
{
	struct stashed *at;

	if (np->stash_tail == np->stash_head)
		return NULL;
	at = (void *)(np->stash + np->stash_tail % np->stash_size);
	if (at->size == 0) {
		np->stash_tail += np->stash_size -
		    np->stash_tail % np->stash_size;
		return np_stash_oldest(np);
	}
	return at;
}

void np_stash_drop(struct nopaxos *np)
{
	const struct stashed *at = np_stash_oldest(np);

	if (at)
		np->stash_tail += padded(at->size);
}

void np_drop_stash(struct nopaxos *np)
{
	np->stash_head = np->stash_tail = 0;
	np->stash_last = 0;
}

/* Keep a segment. Without a fast path it is newer ones that are wanted. */
void np_stash(struct nopaxos *np, uint64_t n, const struct kv_command *command,
    size_t size)
{
	size_t needed = padded(size), rest;
	struct stashed *at;

	if (np->stash_head != np->stash_tail && n <= np->stash_last)
		return;
	rest = np->stash_size - np->stash_head % np->stash_size;
	if (rest < needed + sizeof(*at))
		needed += rest;
	while (!is_fast(np->p) && np->stash_head != np->stash_tail &&
	    np->stash_head - np->stash_tail + needed > np->stash_size) {
		np_stash_drop(np);
		np->stats.dropped++;
	}
	if (np->stash_head - np->stash_tail + needed > np->stash_size) {
		np->stats.dropped++;
		return;
	}
	at = (void *)(np->stash + np->stash_head % np->stash_size);
	if (needed > padded(size)) {
		at->size = 0;
		at = (void *)np->stash;
	}
	np->stash_head += needed;
	at->n = n;
	at->size = size;
	memcpy(at + 1, command, size);
	np->stash_last = n;
	np->stats.stashed++;
}
