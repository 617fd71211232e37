/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for memory that a peer writes: spin, then yield, then sleep.
 *
 * A sleeper announces itself in a wait word, in memory that both sides map, and
 * sleeps on it (futex). The peer publishes its data and then calls wait_wake(),
 * which costs a load while the word is clear. A sleeper in poll() also leaves,
 * 8 bytes after the word, the name to which a notice is sent (base/notify.h).
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

/* Values of a wait word; 0: no sleeper. */
enum {
	WAIT_BY_FUTEX = 1,
	WAIT_BY_NOTICE,
};

/*
 * With WAIT_BY_NOTICE: the name by which dfi__notify_send() finds the sleeper.
 */
static inline _Atomic uint64_t *wait_name(_Atomic uint32_t *word)
{
	return (_Atomic uint64_t *)(void *)(word + 2);
}

/*
 * The cost of a look at a completion queue, in cache lines: two locks and some
 * calls through pointers.
 */
#define WAIT_QUEUE_COST 16

/* How a handle waits: from enum dfi_wait, and what it has learnt. */
struct wait_policy {
	uint32_t spins;  /* polls before the first yield */
	uint32_t yields; /* polls with sched_yield() before sleeping */
	bool sleeps;     /* false: go on spinning */
	/*
	 * If not NULL: called before each sleep, after the announcement. It
	 * arranges to be woken by events that do not wake a word.
	 */
	void (*arm)(void *arg);
	void *arm_arg;
	bool unwoken; /* no waker: sleep briefly, by wait_unwoken_ns() */
	/*
	 * Wakers call wait_wake_fenced(), or wait_wake_locked() with arm set.
	 * The sleeper's fence need not reach them, which saves a system call
	 * that interrupts all of their processors.
	 */
	bool fenced;
	/*
	 * The current number of spins. It is lower while other threads want the
	 * processor, such as the peer.
	 */
	uint32_t budget;
};

/* Counters of a handle's waits; any thread may read them. */
struct wait_counts {
	_Atomic uint64_t polls;  /* looks while spinning */
	_Atomic uint64_t yields; /* sched_yield() calls */
	_Atomic uint64_t sleeps;
	_Atomic uint64_t ns;   /* time of the waits that outlast spinning */
	_Atomic int64_t since; /* start of the current one of these, or 0 */
};

/* How long a wait may take, and its counters. */
struct wait_time {
	int64_t timeout_ns; /* from its start, or DEADLINE_NEVER */
	int64_t deadline;   /* or DEADLINE_NEVER */
	/*
	 * If not NULL: called about once a second of a wait, with the argument
	 * of ready().
	 */
	void (*tick)(void *arg);
	struct wait_counts counts;
};

/*
 * How long a sleep without a waker may last, after a wait of this length: a
 * hundredth of it, at least 1 ms and at most 10 ms. So data is seen late by 1 %
 * of the wait. A thread that looks every millisecond uses 1 % of a processor.
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
 * Yield a few times, and learn how long to spin next time. Whether ready(arg)
 * was true.
 */
bool dfi__wait_yielding(struct wait_policy *policy, struct wait_counts *counts,
    bool (*ready)(void *arg), void *arg);

/*
 * The part of a wait after wait_spin(): yield, then sleep, or go on spinning.
 * Sets the budget anew.
 */
bool dfi__wait_slow(struct wait_policy *policy, _Atomic uint32_t *word,
    struct wait_time *time, bool (*ready)(void *arg), void *arg);

/* The longest sleep with a waker; only tests change it. */
extern int64_t dfi__wait_longest_ns;

/*
 * Sleep once, on a word that says WAIT_BY_FUTEX, until woken, a signal, or that
 * time. The caller has announced itself and looked once more.
 */
void dfi__wait_sleep(_Atomic uint32_t *word, int64_t until);

/* Wake a sleeper that announced itself. Safe in signal handlers. */
void dfi__wait_wake(_Atomic uint32_t *word);

/*
 * Call it after publishing: wakes the peer if it sleeps. The fence orders the
 * publishing store before the load. The sleeper (sleep_until_ready() in wait.c)
 * stores the word, fences, and then looks at the published data.
 */
static inline void wait_wake(_Atomic uint32_t *word)
{
	fence_light();
	if (unlikely(atomic_peek(word)))
		dfi__wait_wake(word);
}

/*
 * As wait_wake(), with a full fence, so the sleeper's fence need not reach the
 * waker.
 */
static inline void wait_wake_fenced(_Atomic uint32_t *word)
{
	fence_full();
	if (atomic_peek(word))
		dfi__wait_wake(word);
}

/*
 * As wait_wake(), without a fence. The waker holds a lock that the sleeper
 * takes in arm(), after it has stored its word and before it looks once more.
 * If the sleeper takes it before us, we see the word; if after us, it sees the
 * published data. Returns whether the peer slept.
 */
static inline bool wait_wake_locked(_Atomic uint32_t *word)
{
	if (likely(!atomic_peek(word)))
		return false;
	dfi__wait_wake(word);
	return true;
}

/* The deadline of a wait that begins now. */
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
 * was true. cost is the cost of one call of ready(), in cache lines.
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
 * Wait until ready(arg) is true, or the deadline passes: false. ready must also
 * look at all that ends the wait, such as a dead peer; the thread that sets it
 * calls dfi__wait_wake(). The clock is read only after the first spins: reading
 * it would take a tenth of a short wait.
 */
static always_inline bool wait_until(struct wait_policy *policy,
    _Atomic uint32_t *word, struct wait_time *time, bool (*ready)(void *arg),
    void *arg, uint32_t cost)
{
	return wait_spin(policy, time, ready, arg, cost) ||
	    dfi__wait_slow(policy, word, time, ready, arg);
}

#endif
