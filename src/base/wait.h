/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting on memory that a peer writes: spin, then yield, then sleep.
 *
 * A sleeper announces itself in a wait word in memory that both sides map, and
 * sleeps there (futex). The peer publishes its data and then calls wait_wake(),
 * which costs a load while nobody sleeps. A sleeper in poll() also leaves the
 * name that a notice is to be sent to (base/notify.h), 8 bytes behind the word.
 */
#ifndef DFI_BASE_WAIT_H
#define DFI_BASE_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include "atomic.h"
#include "clock.h"
#include "compiler.h"
#include "counter.h"
#include "fence.h"

/* Values of a wait word; 0: nobody sleeps. */
enum {
	WAIT_BY_FUTEX = 1,
	WAIT_BY_NOTICE,
};

/* The name for WAIT_BY_NOTICE. */
static inline _Atomic uint64_t *wait_name(_Atomic uint32_t *word)
{
	return (_Atomic uint64_t *)(void *)(word + 2);
}

/*
 * What a look at a completion queue costs, in cache lines: two locks and some
 * calls through pointers.
 */
#define WAIT_QUEUE_COST 16

/* How a handle waits, from enum dfi_wait, and what it has learnt. */
struct wait_policy {
	uint32_t spins;  /* polls before the first yield */
	uint32_t yields; /* polls with sched_yield() before sleeping */
	bool sleeps;     /* else go on spinning */
	/*
	 * If not NULL: called before each sleep, after the sleeper announced
	 * itself, to have it woken by what would not wake it else.
	 */
	void (*arm)(void *arg);
	void *arm_arg;
	bool unwoken; /* nobody wakes: sleep for moments only, see
			 wait_unwoken_ns() */
	bool fenced;  /* wakers call wait_wake_fenced(), or wait_wake_locked()
			 and arm is set: it need not reach theirs, as the system
			 call interrupts all of them */
	/*
	 * What spins is now: less while other threads want the processor, such
	 * as the peer that is waited for.
	 */
	uint32_t budget;
};

/* Counters of a handle's waits; any thread may read them. */
struct wait_counts {
	_Atomic uint64_t polls;  /* looks while spinning */
	_Atomic uint64_t yields; /* of the processor */
	_Atomic uint64_t sleeps;
	_Atomic uint64_t ns;   /* grows by the waits that outlast spinning */
	_Atomic int64_t since; /* when such a wait began that lasts, or 0 */
};

/* How long a wait may take, and where the time goes. */
struct wait_time {
	int64_t timeout_ns; /* from its start, or DEADLINE_NEVER */
	int64_t deadline;   /* or DEADLINE_NEVER */
	/*
	 * If not NULL: called with what ready() gets, after a second of a wait
	 * and then about each second.
	 */
	void (*tick)(void *arg);
	struct wait_counts counts;
};

/*
 * How long a sleep may last that nobody ends, after so long a wait: what comes
 * is seen later by a hundredth of that, but by 1 ms at least, and by 10 at
 * most. A thread that looks each millisecond uses a percent of a processor.
 */
#define UNWOKEN_LEAST_NS NS_PER_MS
#define UNWOKEN_MOST_NS (INT64_C(10) * NS_PER_MS)

static inline int64_t wait_unwoken_ns(int64_t waited)
{
	int64_t ns = waited / 100;

	if (ns < UNWOKEN_LEAST_NS)
		return UNWOKEN_LEAST_NS;
	return ns < UNWOKEN_MOST_NS ? ns : UNWOKEN_MOST_NS;
}

/* How often tick() is called. */
#define WAIT_TICK_NS ((int64_t)NS_PER_S)

/* The policy for an enum dfi_wait other than DFI_WAIT_DEFAULT. */
struct wait_policy dfi__wait_policy(uint32_t wait);

/*
 * Yield a few times, and learn from it how long to spin next time. Whether it
 * is ready.
 */
bool dfi__wait_yielding(struct wait_policy *policy, struct wait_counts *counts,
    bool (*ready)(void *arg), void *arg);

/*
 * What follows wait_spin() in a wait: yield, then sleep, or go on spinning.
 * Sets the budget anew.
 */
bool dfi__wait_slow(struct wait_policy *policy, _Atomic uint32_t *word,
    struct wait_time *time, bool (*ready)(void *arg), void *arg);

/* How long a sleep lasts at most that is to be woken; only tests change it. */
extern int64_t dfi__wait_longest_ns;

/*
 * Sleep once, on a word that says WAIT_BY_FUTEX, until woken, a signal, or that
 * time. For who has announced itself and looked once more.
 */
void dfi__wait_sleep(_Atomic uint32_t *word, int64_t until);

/* Wake a sleeper that announced itself. Safe in signal handlers. */
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

/* Likewise, for wakers that sleepers need not reach with their own fence. */
static inline void wait_wake_fenced(_Atomic uint32_t *word)
{
	fence_full();
	if (atomic_peek(word))
		dfi__wait_wake(word);
}

/*
 * Likewise, without a fence, for wakers that hold a lock which who sleeps takes
 * by arm(): after it has stored its word, and before it looks once more. If it
 * takes it before us, we see the word, and if after us, it sees what is
 * published. Whether the peer slept.
 */
static inline bool wait_wake_locked(_Atomic uint32_t *word)
{
	if (likely(!atomic_peek(word)))
		return false;
	dfi__wait_wake(word);
	return true;
}

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
 * The first part of a wait: spin as long as the policy says. Whether ready(arg)
 * was true. cost: what one call of it costs, in cache lines looked at.
 */
static always_inline bool wait_spin(struct wait_policy *policy,
    struct wait_time *time, bool (*ready)(void *arg), void *arg, uint32_t cost)
{
	uint32_t spent, polls = 0;
	bool there = false;

	for (spent = 0; !there && spent < policy->budget; spent += cost) {
		polls++;
		there = ready(arg);
	}
	counter_add(&time->counts.polls, polls);
	return there;
}

/*
 * Wait until ready(arg) is true: then true. false after the deadline. ready
 * must also look at whatever else ends the wait, such as a dead peer; whoever
 * sets that calls dfi__wait_wake(). The clock is read only after the first
 * round of spinning: it would be a tenth of a short wait.
 */
static always_inline bool wait_until(struct wait_policy *policy,
    _Atomic uint32_t *word, struct wait_time *time, bool (*ready)(void *arg),
    void *arg, uint32_t cost)
{
	return wait_spin(policy, time, ready, arg, cost) ||
	    dfi__wait_slow(policy, word, time, ready, arg);
}

#endif
