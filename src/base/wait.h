/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting on memory that a peer writes: spin, then yield, then sleep.
 *
 * A sleeper announces itself in a wait word in memory that both sides map, and
 * sleeps there (futex). The peer publishes its data and then calls wait_wake(),
 * which costs a load while nobody sleeps.
 */
#ifndef DFI_BASE_WAIT_H
#define DFI_BASE_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include "atomic.h"
#include "clock.h"
#include "compiler.h"
#include "fence.h"

/* How a handle waits, from enum dfi_wait, and what it has learnt. */
struct wait_policy {
	uint32_t spins;  /* polls before the first yield */
	uint32_t yields; /* polls with sched_yield() before sleeping */
	bool sleeps;     /* else go on spinning */
	/*
	 * What spins is now: it falls while spinning is in vain, because the
	 * peer needs this processor, and rises again when it is not.
	 */
	uint32_t budget;
};

/* The policy for an enum dfi_wait other than DFI_WAIT_DEFAULT. */
struct wait_policy dfi__wait_policy(uint32_t wait);

/* Spinning was in vain: lower the budget. */
void dfi__wait_spun(struct wait_policy *policy);

/* Yield once more; false: it is time to sleep. */
bool dfi__wait_yield(const struct wait_policy *policy, uint32_t *yields);

/*
 * Announce the sleep. The caller looks once more for what it waits for, and
 * then calls dfi__wait_sleep() or dfi__wait_withdraw().
 */
bool dfi__wait_announce(_Atomic uint32_t *word);
void dfi__wait_withdraw(_Atomic uint32_t *word);

/*
 * Sleep until woken, the deadline, or a signal. brief: for a millisecond at
 * most, because dfi__wait_announce() returned false.
 */
void dfi__wait_sleep(_Atomic uint32_t *word, int64_t deadline, bool brief);

/* Wake a sleeper that announced itself. */
void dfi__wait_wake(_Atomic uint32_t *word);

/*
 * After publishing: wake the peer if it sleeps. The fence orders the publishing
 * store before the load, against dfi__wait_announce(), which stores the word,
 * fences, and then looks at what is published.
 */
static inline void wait_wake(_Atomic uint32_t *word)
{
	fence_light();
	if (unlikely(atomic_peek(word)))
		dfi__wait_wake(word);
}

/*
 * Wait until ready(arg) is true: then true. false after the deadline. ready
 * must also look at whatever else ends the wait, such as a dead peer; whoever
 * sets that calls dfi__wait_wake(). cost: what one call of ready costs, in
 * cache lines looked at.
 */
static always_inline bool wait_until(struct wait_policy *policy,
    _Atomic uint32_t *word, int64_t deadline, bool (*ready)(void *arg),
    void *arg, uint32_t cost)
{
	uint32_t spent, yields = 0;
	bool reached;

	for (;;) {
		for (spent = 0; spent < policy->budget; spent += cost)
			if (ready(arg)) {
				if (unlikely(policy->budget < policy->spins))
					policy->budget *= 2;
				return true;
			}
		if (deadline != DEADLINE_NEVER && clock_now_ns() >= deadline)
			return ready(arg);
		if (!policy->sleeps)
			continue;
		dfi__wait_spun(policy);
		do {
			if (ready(arg))
				return true;
		} while (dfi__wait_yield(policy, &yields));
		reached = dfi__wait_announce(word);
		if (ready(arg)) {
			dfi__wait_withdraw(word);
			return true;
		}
		dfi__wait_sleep(word, deadline, !reached);
	}
}

#endif
