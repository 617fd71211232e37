/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of each step of a hand-over: marks, release, taking. */
#include "flows/open/overdue.h"

/* Note when each step has begun. */
static void follow(struct open_overdue *overdue,
    const struct keyed_target *target, int64_t now)
{
	const struct open_table *table = &target->tables->newest;
	uint32_t p;

	if (overdue->table != table->number) {
		overdue->table = table->number;
		overdue->since = now;
		overdue->all_released = false;
	}
	if (overdue->all_released)
		return;
	for (p = 0; p < table->n_partitions; p++)
		if (!dfi__open_is_released(target->tables, target->seats, p))
			return;
	overdue->all_released = true;
	overdue->released = now;
}

static bool is_active(const struct keyed_target *target)
{
	return target->tables->newest.number && target->seats->begun &&
	    !target->seats->evicted;
}

/* Whether this target waits for marks. */
static bool misses_marks(const struct keyed_target *target)
{
	const struct open_table *table = &target->tables->newest;
	uint32_t p, own = target->seats->own_seat;

	if (table->incarnations[own] != target->seats->own_incarnation)
		return false;
	for (p = 0; p < table->n_partitions; p++)
		if (open_table_moves(table, p) && table->from[p] == own &&
		    target->states[p] == OPEN_HELD)
			return true;
	return false;
}

bool dfi__open_overdue_source(struct open_overdue *overdue,
    const struct keyed_target *target, int64_t now, int64_t limit,
    uint32_t *source)
{
	if (!is_active(target))
		return false;
	follow(overdue, target, now);
	if (now - overdue->since <= limit || !misses_marks(target))
		return false;
	for (; *source < target->seats->n[OPEN_SOURCE]; ++*source)
		if (dfi__open_target_misses(target, *source))
			return true;
	return false;
}

bool dfi__open_overdue_target(struct open_overdue *overdue,
    const struct keyed_target *target, int64_t now, int64_t limit,
    uint32_t *seat)
{
	const struct open_tables *tables = target->tables;
	const struct open_table *table = &tables->newest;
	uint32_t p;

	if (!is_active(target))
		return false;
	follow(overdue, target, now);
	for (p = 0; p < table->n_partitions; p++) {
		if (!dfi__open_is_released(tables, target->seats, p)) {
			*seat = table->from[p];
			if (now - overdue->since <= 2 * limit)
				continue;
		} else if (overdue->all_released &&
		    !dfi__open_is_taken(tables, target->seats, p)) {
			*seat = table->owners[p];
			if (now - overdue->released <= limit)
				continue;
		} else {
			continue;
		}
		if (*seat != target->seats->own_seat)
			return true;
	}
	return false;
}
