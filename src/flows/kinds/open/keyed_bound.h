/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With evict_after_ms, a target evicts who holds up a hand-over: "Eviction" in
 * docs/open-flows.md. The helper looks at the time. Whether a source owes its
 * mark, or its ring has more for this target, only the owner can see: the
 * helper asks, and the owner answers when it finds nothing to consume.
 */
#ifndef DFI_FLOWS_KINDS_OPEN_KEYED_BOUND_H
#define DFI_FLOWS_KINDS_OPEN_KEYED_BOUND_H

#include "base/atomic.h"
#include "base/compiler.h"
#include "flows/members/seat_watch.h"
#include "flows/open/overdue.h"

/* Protected by the lock of the seats. */
struct hand_bound {
	struct open_overdue overdue;
	bool is_empty;         /* the owner has answered, since asked */
	_Atomic bool is_asked; /* whether its rings are empty */
};

/*
 * For the helper, without the lock: evict who is overdue. Returns when it has
 * to look again.
 */
int64_t dfi__hand_bound_tend(struct hand_bound *bound, struct seat_watch *seats,
    const struct keyed_target *target);

/* The owner has looked at all rings, and there is nothing in them. */
void dfi__hand_bound_answer(struct hand_bound *bound, struct seat_watch *seats);

static inline void hand_bound_found_nothing(
    struct hand_bound *bound, struct seat_watch *seats)
{
	if (unlikely(atomic_peek(&bound->is_asked)))
		dfi__hand_bound_answer(bound, seats);
}

#endif
