/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispensers of numbers: a counter in a process's memory, to which others add
 * by themselves, so that each number is taken once. Sequencers are made of
 * them, the application's (sequencer.c) and those of ordered flows (order.c).
 *
 * A processor and an RDMA device can't add to one word without losing numbers,
 * so all who take from a shared counter do it in one way, which its holder
 * decides: through memory, or if some may be on other hosts, through the
 * holder's device, also those of its own host
 * (docs/decisions/0022-one-way-to-numbers.md).
 */
#ifndef DFI_FLOWS_CONTEXT_SHARED_COUNTER_H
#define DFI_FLOWS_CONTEXT_SHARED_COUNTER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <dfi/flow.h>
#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "transport/transport.h"
#include "flows/descriptor/descriptor.h"

struct dfi;

/* What all share, behind the region's header. */
struct shared_counter_words {
	alignas(2 * CACHE_LINE) _Atomic uint64_t next;
	/* By the holder. Apart: who reads it must not need the line above. */
	alignas(2 * CACHE_LINE) _Atomic uint32_t closed;
	/* In a user's image of them: where it sleeps while numbers come. */
	_Atomic uint32_t waits;
	_Atomic uint64_t waits_name;
};

/* The holder's end. */
struct shared_counter {
	struct region *region;
	struct shared_counter_words *words;
	struct published_region published;
};

/*
 * Make one whose first number is first. transport: the flow's, or its default.
 * what: for the log, that names what it is for. What region_ops.create()
 * returns, and if RDMA must be used, what export() does; if it may be, and
 * can't, that is a warning in the log.
 */
int dfi__shared_counter_create(struct dfi *dfi, enum dfi_transport transport,
    const char *what, uint64_t first, struct shared_counter *shared_counter);

/* Also if it was not created. Its users are told, as far as memory can. */
void dfi__shared_counter_destroy(struct shared_counter *shared_counter);

/*
 * What one takes where it is, and in a process that takes numbers through a
 * device.
 */
uint64_t dfi__shared_counter_bytes(const struct dfi *dfi);
uint64_t dfi__shared_counter_image_bytes(const struct dfi *dfi);

/* The handle of a user that takes numbers, one thread at a time. */
struct shared_counter_user {
	struct remote *remote;
	struct shared_counter_words *words; /* NULL: not through memory */
	uint64_t asked; /* how many numbers are on their way */
};

/*
 * holder: whose shared counter it is; user must not move. -EHOSTUNREACH,
 * -EBADMSG, and what ring_ops.open() returns.
 */
int dfi__shared_counter_open(struct dfi *dfi, enum dfi_transport transport,
    const struct node *holder, const struct published_region *published,
    const struct wait_limit *wait_limit, struct shared_counter_user *user);
/* Also if it was not opened. */
void dfi__shared_counter_close(struct shared_counter_user *user);

/*
 * Take n numbers, from *first on: 1; or 0: they are on their way, which takes a
 * round trip: try again. Through memory they are there at once. Never waits. If
 * other numbers are on their way, since somebody gave up, those come first, and
 * nobody gets them. -ECONNRESET.
 */
int dfi__shared_counter_take_far(
    struct shared_counter_user *user, uint64_t n, uint64_t *first);

static inline int dispenser_take(
    struct shared_counter_user *user, uint64_t n, uint64_t *first)
{
	if (unlikely(!user->words))
		return dfi__shared_counter_take_far(user, n, first);
	/*
	 * Pairs with itself in other threads: what they did before they took
	 * lower numbers.
	 */
	*first = atomic_fetch_add_explicit(
	    &user->words->next, n, memory_order_acq_rel);
	return 1;
}

/*
 * For who sleeps until numbers come that are on their way: the word to sleep
 * in, and what to call before.
 */
_Atomic uint32_t *dfi__shared_counter_wait_word(
    const struct shared_counter_user *user);
void dfi__shared_counter_arm(const struct shared_counter_user *user);

/* Whether the holder has closed it, as far as its memory says. */
static inline bool dispenser_is_closed(const struct shared_counter_user *user)
{
	return user->words && atomic_peek(&user->words->closed);
}

#endif
