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
#include "clock.h"

/*
 * Spinning is without pause instructions: they cost some 30 ns each way in a
 * round trip of 300 (docs/decisions/0004-waiting.md). An adaptive wait gives
 * up the processor after some microseconds, because with more endpoints than
 * processors the peer needs it to make progress.
 */
enum {
	ADAPTIVE_SPINS = 4096,
	ADAPTIVE_MIN_SPINS = 16,
	ADAPTIVE_YIELDS = 16,
	SPIN_SPINS = 1 << 16,
};

/*
 * A waker may be stopped, or die, after it has cleared the word and before it
 * wakes; nobody else wakes then. And a peer that the sleeper's fence did not
 * reach may have missed the word. So no sleep is endless.
 */
#define LONGEST_SLEEP_NS (INT64_C(100) * NS_PER_MS)
#define UNFENCED_SLEEP_NS NS_PER_MS

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
 * Sleep until woken, the deadline, or a signal, but not longer than limit_ns.
 * FUTEX_WAIT_BITSET takes an absolute monotonic time, and returns at once if
 * the word is no longer 1.
 */
static void sleep_on(_Atomic uint32_t *word, int64_t deadline, int64_t limit_ns)
{
	int64_t limit = clock_now_ns() + limit_ns;
	struct timespec until = deadline_timespec(
	    deadline < limit ? deadline : limit);

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET, 1, &until, NULL,
	    FUTEX_BITSET_MATCH_ANY);
}

/* How often this thread has given up a processor, of its own will or not. */
static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/*
 * Yield a few times. Where a yield lets somebody else run, spinning kept them,
 * perhaps our peer, from running: spin less next time. Where nobody else wants
 * the processor, spinning is free, and quickest.
 */
static bool wait_yielding(
    struct wait_policy *policy, bool (*ready)(void *arg), void *arg)
{
	long before = switches();
	uint32_t yields;
	bool there = false;

	for (yields = 0; !there && yields < policy->yields; yields++) {
		sched_yield();
		there = ready(arg);
	}
	if (switches() == before)
		policy->budget = policy->spins;
	else if (policy->budget > ADAPTIVE_MIN_SPINS)
		policy->budget /= 2;
	return there;
}

bool dfi__wait_asleep(struct wait_policy *policy, _Atomic uint32_t *word,
    int64_t deadline, bool (*ready)(void *arg), void *arg)
{
	bool there, reached;

	if (policy->yields && wait_yielding(policy, ready, arg))
		return true;
	for (;;) {
		/*
		 * Announce the sleep, and look once more. Pairs with the load
		 * in wait_wake(): either it sees the word, or we see what was
		 * published before it.
		 */
		atomic_set(word, 1);
		reached = dfi__fence_heavy();
		there = ready(arg);
		if (there ||
		    (deadline != DEADLINE_NEVER && clock_now_ns() >= deadline))
			break;
		sleep_on(word, deadline,
		    reached ? LONGEST_SLEEP_NS : UNFENCED_SLEEP_NS);
	}
	atomic_set(word, 0);
	return there;
}

void dfi__wait_wake(_Atomic uint32_t *word)
{
	atomic_set(word, 0);
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
