/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow half of waiting: yields and futexes. The futexes are not private:
 * the word lies in memory shared between processes.
 */
#include "wait.h"

#include <linux/futex.h>
#include <sched.h>
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

void dfi__wait_spun(struct wait_policy *policy)
{
	if (policy->budget > ADAPTIVE_MIN_SPINS)
		policy->budget /= 2;
}

bool dfi__wait_yield(const struct wait_policy *policy, uint32_t *yields)
{
	if (*yields >= policy->yields)
		return false;
	++*yields;
	sched_yield();
	return true;
}

bool dfi__wait_announce(_Atomic uint32_t *word)
{
	/* Pairs with the load in wait_wake(): see there. */
	atomic_set(word, 1);
	return dfi__fence_heavy();
}

void dfi__wait_withdraw(_Atomic uint32_t *word)
{
	atomic_set(word, 0);
}

void dfi__wait_sleep(_Atomic uint32_t *word, int64_t deadline, bool brief)
{
	struct timespec ts;

	if (brief && deadline > clock_now_ns() + NS_PER_MS)
		deadline = clock_now_ns() + NS_PER_MS;
	if (deadline != DEADLINE_NEVER)
		ts = deadline_timespec(deadline);
	/*
	 * FUTEX_WAIT_BITSET takes an absolute monotonic time. It returns at
	 * once if the word is no longer 1.
	 */
	syscall(SYS_futex, word, FUTEX_WAIT_BITSET, 1,
	    deadline != DEADLINE_NEVER ? &ts : NULL, NULL,
	    FUTEX_BITSET_MATCH_ANY);
	atomic_set(word, 0);
}

void dfi__wait_wake(_Atomic uint32_t *word)
{
	atomic_set(word, 0);
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
