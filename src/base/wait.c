/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow half of waiting: yields and futexes. The futexes are not private:
 * the word lies in memory shared between processes.
 */
#include "wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <dfi/context.h>
#include "cancel.h"
#include "clock.h"
#include "notify.h"

/*
 * Spinning uses no pause instructions: they cost some 30 ns each way in a round
 * trip of 300 (docs/decisions/0004-waiting.md). An adaptive wait gives up the
 * processor after some microseconds: with more endpoints than processors, the
 * peer needs it to make progress.
 */
enum {
	ADAPTIVE_SPINS = 4096,
	ADAPTIVE_MIN_SPINS = 16,
	ADAPTIVE_YIELDS = 16,
	SPIN_SPINS = 1 << 16,
};

/*
 * A waker may be stopped or die after it has cleared the word and before it
 * wakes. Then no other one wakes the sleeper. So no sleep is endless. A peer
 * that the sleeper's fence did not reach may have missed the word: such a sleep
 * is as short as one without a waker.
 */
int64_t dfi__wait_longest_ns = INT64_C(100) * NS_PER_MS;

struct wait_policy dfi__wait_policy(uint32_t wait)
{
	struct wait_policy policy = { .sleeps = wait != DFI_WAIT_SPIN };

	if (wait == DFI_WAIT_SPIN) {
		policy.spins = SPIN_SPINS;
	} else if (wait == DFI_WAIT_ADAPTIVE) {
		policy.spins = ADAPTIVE_SPINS;
		policy.yields = ADAPTIVE_YIELDS;
	}
	policy.budget = policy.spins;
	return policy;
}

/*
 * Sleep until woken, a signal, the deadline or limit. FUTEX_WAIT_BITSET takes
 * an absolute monotonic time, and returns at once if the word is no longer 1.
 */
static void sleep_on(_Atomic uint32_t *word, int64_t deadline, int64_t limit)
{
	struct timespec until = deadline_timespec(
	    deadline < limit ? deadline : limit);

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET, WAIT_BY_FUTEX, &until, NULL,
	    FUTEX_BITSET_MATCH_ANY);
}

void dfi__wait_sleep(_Atomic uint32_t *word, int64_t until)
{
	sleep_on(word, until, clock_now_ns() + dfi__wait_longest_ns);
}

/* How often this thread has given up a processor, voluntarily or not. */
static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/*
 * Yield a few times. If a yield lets another thread run, spinning kept that
 * thread, maybe our peer, from running: spin less next time. If no other thread
 * wants the processor, spinning is free, and fastest.
 */
bool dfi__wait_yielding(struct wait_policy *policy, struct wait_counts *counts,
    bool (*ready)(void *arg), void *arg)
{
	long before = switches();
	uint32_t yields;
	bool there = false;

	for (yields = 0; !there && yields < policy->yields; yields++) {
		sched_yield();
		there = ready(arg);
	}
	counter_add(&counts->yields, yields);
	if (switches() == before)
		policy->budget = policy->spins;
	else if (policy->budget > ADAPTIVE_MIN_SPINS)
		policy->budget /= 2;
	return there;
}

/*
 * Fence. true: each waker has passed a fence, or passes one before it looks at
 * the word. With wait_wake_locked(), arm() orders the two instead.
 */
static bool fence(const struct wait_policy *policy)
{
	if (!policy->fenced)
		return dfi__fence_heavy();
	fence_full();
	return true;
}

/* A wait that outlasts spinning. */
struct slow_wait {
	int64_t start;
	int64_t deadline;
	int64_t next_tick;
	void (*tick)(void *arg);
	bool (*ready)(void *arg);
	void *arg;
};

/* Call tick() when a second has passed. */
static void look_at_clock(struct slow_wait *wait, int64_t now)
{
	if (likely(now < wait->next_tick))
		return;
	wait->next_tick = now + WAIT_TICK_NS;
	if (wait->tick)
		wait->tick(wait->arg);
}

static bool spin(struct slow_wait *wait, struct wait_counts *counts)
{
	uint64_t polls = 0;
	int64_t now;
	bool there;

	for (;;) {
		there = wait->ready(wait->arg);
		polls++;
		if (there)
			break;
		now = clock_now_ns();
		if (now >= wait->deadline)
			break;
		look_at_clock(wait, now);
	}
	counter_add(&counts->polls, polls);
	return there;
}

static bool sleep_until_ready(struct wait_policy *policy,
    struct slow_wait *wait, _Atomic uint32_t *word, struct wait_counts *counts)
{
	bool there, reached;
	int64_t now;

	for (;;) {
		/*
		 * Announce the sleep, and look once more. Pairs with the load
		 * in wait_wake() and its variants: either the waker sees the
		 * word, or we see what was published before.
		 */
		atomic_set(word, WAIT_BY_FUTEX);
		reached = fence(policy) && !policy->unwoken;
		if (policy->arm)
			policy->arm(policy->arm_arg);
		there = wait->ready(wait->arg);
		if (there)
			break;
		now = clock_now_ns();
		if (now >= wait->deadline)
			break;
		look_at_clock(wait, now);
		counter_add(&counts->sleeps, 1);
		sleep_on(word, wait->deadline,
		    now +
			(reached ? dfi__wait_longest_ns
				 : wait_unwoken_ns(now - wait->start)));
	}
	atomic_set(word, 0);
	return there;
}

bool dfi__wait_slow(struct wait_policy *policy, _Atomic uint32_t *word,
    struct wait_time *time, bool (*ready)(void *arg), void *arg)
{
	int64_t start = clock_now_ns();
	struct slow_wait wait = {
		.start = start,
		.deadline = wait_deadline(time, start),
		.next_tick = start + WAIT_TICK_NS,
		.tick = time->tick,
		.ready = ready,
		.arg = arg,
	};
	struct wait_counts *counts = &time->counts;
	bool there = false;
	CANCEL_OFF;

	atomic_set(&counts->since, start);
	if (policy->yields)
		there = dfi__wait_yielding(policy, counts, ready, arg);
	if (!there && policy->sleeps)
		there = sleep_until_ready(policy, &wait, word, counts);
	else if (!there)
		there = spin(&wait, counts);
	atomic_set(&counts->since, 0);
	counter_add(&counts->ns, (uint64_t)(clock_now_ns() - start));
	return there;
}

void dfi__wait_wake(_Atomic uint32_t *word)
{
	/*
	 * Pairs with the publish in dfi__notify_announce(). It protects the
	 * name.
	 */
	if (atomic_exchange(word, 0) == WAIT_BY_NOTICE)
		dfi__notify_send(atomic_peek(wait_name(word)));
	else
		syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
