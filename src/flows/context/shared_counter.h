/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared counters: a counter in one process's memory that others add to, so
 * that each number is taken once. The application's sequencers (sequencer.c)
 * and ordered flows (order.c) use them.
 *
 * A processor and an RDMA device can't add to one word without losing numbers.
 * So all users of a shared counter take numbers in one way, which its holder
 * chooses: through memory; or, if users may be on other hosts, through the
 * holder's device, even from its own host
 * (docs/decisions/0022-one-way-to-numbers.md). Over libfabric the holder's
 * processor adds, so users on its host take the memory.
 */
#ifndef DFI_FLOWS_CONTEXT_SHARED_COUNTER_H
#define DFI_FLOWS_CONTEXT_SHARED_COUNTER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <dfi/flow.h>
#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "transport/transport.h"
#include "flows/descriptor/descriptor.h"

struct dfi;

/* The shared words, behind the region's header. */
struct shared_counter_words {
	alignas(2 * CACHE_LINE) _Atomic uint64_t next;
	/* Set by the holder; on its own lines, away from next. */
	alignas(2 * CACHE_LINE) _Atomic uint32_t closed;
	/*
	 * In a user's copy: the word in which it sleeps until numbers arrive.
	 */
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
 * Create a counter that begins at first. transport: the flow's, or its default.
 * what: names the counter's purpose in the log. It returns the errors of
 * region_ops.create(), and those of export() if RDMA must be used. If RDMA is
 * only allowed and fails, the log has a warning.
 */
int dfi__shared_counter_create(struct dfi *dfi, enum dfi_transport transport,
    const char *what, uint64_t first, struct shared_counter *shared_counter);

/*
 * Accepts a counter that was not created. Marks it as closed for its users, as
 * far as they read its memory.
 */
void dfi__shared_counter_destroy(struct shared_counter *shared_counter);

/*
 * The memory of a counter at its holder, and in a process that takes numbers
 * through a device.
 */
uint64_t dfi__shared_counter_bytes(const struct dfi *dfi);
uint64_t dfi__shared_counter_shadow_bytes(const struct dfi *dfi);

/* A user's handle; one thread at a time takes numbers from it. */
struct shared_counter_user {
	struct remote *remote;
	struct shared_counter_words *words; /* NULL: it uses a device */
	uint64_t asked; /* so many numbers; 0: where the counter is */
	bool is_asked;  /* they have not arrived */
};

/*
 * Open the shared counter of holder; user must not move. -EHOSTUNREACH,
 * -EBADMSG, and the errors of ring_ops.open().
 */
int dfi__shared_counter_open(struct dfi *dfi, enum dfi_transport transport,
    const struct node *holder, const struct published_region *published,
    const struct wait_limit *wait_limit, struct shared_counter_user *user);
/* Accepts a user that was not opened. */
void dfi__shared_counter_close(struct shared_counter_user *user);

/*
 * Take n numbers from *first on. 1: taken. 0: they are on their way, for one
 * round trip; try again. Through memory it never returns 0. Never blocks. If a
 * caller has abandoned earlier numbers, they arrive first and are dropped.
 * -ECONNRESET.
 */
int dfi__shared_counter_take_far(
    struct shared_counter_user *user, uint64_t n, uint64_t *first);

static inline int shared_counter_take(
    struct shared_counter_user *user, uint64_t n, uint64_t *first)
{
	if (unlikely(!user->words))
		return dfi__shared_counter_take_far(user, n, first);
	/*
	 * Pairs with the same addition in other threads: orders their work
	 * before they took lower numbers.
	 */
	*first = atomic_fetch_add_explicit(
	    &user->words->next, n, memory_order_acq_rel);
	return 1;
}

/*
 * A thread that sleeps until its numbers arrive calls dfi__shared_counter_arm()
 * and sleeps in this word.
 */
_Atomic uint32_t *dfi__shared_counter_wait_word(
    const struct shared_counter_user *user);
void dfi__shared_counter_arm(const struct shared_counter_user *user);

/*
 * Read the number that is taken next by anybody: as shared_counter_take(), also
 * in that it drops numbers that are on their way.
 */
static inline int shared_counter_read(
    struct shared_counter_user *user, uint64_t *next)
{
	if (!user->words)
		return dfi__shared_counter_take_far(user, 0, next);
	/* Pairs with the additions of others. */
	*next = atomic_observe(&user->words->next);
	return 1;
}

/* Whether the holder's memory says that it has closed the counter. */
static inline bool shared_counter_is_closed(
    const struct shared_counter_user *user)
{
	return user->words && atomic_peek(&user->words->closed);
}

#endif
