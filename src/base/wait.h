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
	 * What spins is now: less while other threads want the processor, such
	 * as the peer that is waited for.
	 */
	uint32_t budget;
};

/* The policy for an enum dfi_wait other than DFI_WAIT_DEFAULT. */
struct wait_policy dfi__wait_policy(uint32_t wait);

/* The slow part of wait_until(): yield, then sleep. Sets the budget anew. */
bool dfi__wait_asleep(struct wait_policy *policy, _Atomic uint32_t *word,
    int64_t deadline, bool (*ready)(void *arg), void *arg);

/* Wake a sleeper that announced itself. */
void dfi__wait_wake(_Atomic uint32_t *word);

/*
 * After publishing: wake the peer if it sleeps. The fence orders the publishing
 * store before the load, against dfi__wait_asleep(), which stores the word,
 * fences, and then looks at what is published.
 */
static inline void wait_wake(_Atomic uint32_t *word)
{
	fence_light();
	if (unlikely(atomic_peek(word)))
		dfi__wait_wake(word);
}

/* How long a wait may take, and where the time goes. */
struct wait_time {
	int64_t timeout_ns; /* from its start, or DEADLINE_NEVER */
	int64_t deadline;   /* or DEADLINE_NEVER */
	uint64_t waited_ns; /* grows by the waits that outlast spinning */
};

/* Start the clock: the deadline of a wait that begins now. */
static inline int64_t wait_deadline(const struct wait_time *time, int64_t now)
{
	int64_t deadline = time->deadline;

	if (time->timeout_ns != DEADLINE_NEVER &&
	    now + time->timeout_ns < deadline)
		deadline = now + time->timeout_ns;
	return deadline;
}

/*
 * Wait until ready(arg) is true: then true. false after the deadline. ready
 * must also look at whatever else ends the wait, such as a dead peer; whoever
 * sets that calls dfi__wait_wake(). cost: what one call of ready costs, in
 * cache lines looked at. The clock is read only after the first round of
 * spinning: it would be a tenth of a short wait.
 */
static always_inline bool wait_until(struct wait_policy *policy,
    _Atomic uint32_t *word, struct wait_time *time, bool (*ready)(void *arg),
    void *arg, uint32_t cost)
{
	int64_t start, deadline;
	uint32_t spent;
	bool there;

	for (spent = 0; spent < policy->budget; spent += cost)
		if (ready(arg))
			return true;
	start = clock_now_ns();
	deadline = wait_deadline(time, start);
	if (policy->sleeps)
		there = dfi__wait_asleep(policy, word, deadline, ready, arg);
	else
		do
			there = ready(arg);
		while (!there &&
		    (deadline == DEADLINE_NEVER || clock_now_ns() < deadline));
	time->waited_ns += (uint64_t)(clock_now_ns() - start);
	return there;
}

#endif
