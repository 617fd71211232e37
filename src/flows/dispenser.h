/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispensers of numbers: a counter in a process's memory, to which others add
 * by themselves, so that each number is taken once. Sequencers are made of
 * them, the application's (sequencer.c) and those of ordered flows (order.c).
 */
#ifndef DFI_FLOWS_DISPENSER_H
#define DFI_FLOWS_DISPENSER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include "../base/atomic.h"
#include "../base/bits.h"
#include "descriptor.h"

struct dfi;

/* What all share, behind the region's header. */
struct dispenser_words {
	alignas(2 * CACHE_LINE) _Atomic uint64_t next;
	/* By the holder. Apart: who reads it must not need the line above. */
	alignas(2 * CACHE_LINE) _Atomic uint32_t closed;
};

/* The holder's end. */
struct dispenser {
	struct region *region;
	struct dispenser_words *words;
	struct dispenser_name name;
};

/* What region_create() of shared memory returns. */
int dfi__dispenser_create(
    struct dfi *dfi, uint64_t first, struct dispenser *dispenser);

/* Also if it was not created. Its users are told. */
void dfi__dispenser_destroy(struct dispenser *dispenser);

/* The end of one who takes numbers, one thread at a time. */
struct dispenser_user {
	struct remote *remote;
	struct dispenser_words *words;
};

/*
 * holder: whose dispenser it is. -EHOSTUNREACH, -EBADMSG, and what
 * remote_open() of shared memory returns.
 */
int dfi__dispenser_open(struct dfi *dfi, const struct node *holder,
    const struct dispenser_name *name, int64_t deadline,
    struct dispenser_user *user);
/* Also if it was not opened. */
void dfi__dispenser_close(struct dispenser_user *user);

/* Take n numbers, from *first on. */
static inline int dispenser_take(
    struct dispenser_user *user, uint64_t n, uint64_t *first)
{
	/*
	 * Pairs with itself in other threads: what they did before they took
	 * lower numbers.
	 */
	*first = atomic_fetch_add_explicit(
	    &user->words->next, n, memory_order_acq_rel);
	return 0;
}

/* Whether the holder has closed it, as far as its memory says. */
static inline bool dispenser_is_closed(const struct dispenser_user *user)
{
	return atomic_peek(&user->words->closed);
}

#endif
