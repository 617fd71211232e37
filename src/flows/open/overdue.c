/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of each step of a hand-over: marks, release, taking. */
#include "flows/open/bugs.h"
#include "flows/open/overdue.h"

/* Who was stopped must not take its own time for that of others. */
static void pass_time(struct open_overdue *overdue, int64_t now, int64_t limit)
{
	int64_t slept = now - overdue->looked - limit / OPEN_OVERDUE_LOOKS;

	if (slept > 0 && !OPEN_BUG(COUNT_SLEEP)) {
		overdue->since += slept;
		overdue->released += slept;
	}
	overdue->looked = now;
}

void dfi__open_overdue_restart(struct open_overdue *overdue, int64_t now)
{
	overdue->looked = overdue->since = overdue->released = now;
}

/* Note when each step has begun. */
static void follow(struct open_overdue *overdue,
    const struct keyed_target *target, int64_t now, int64_t limit)
{
	const struct open_table *table = &target->tables->newest;
	uint32_t p;

	pass_time(overdue, now, limit);
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
	follow(overdue, target, now, limit);
	if (now - overdue->since <= limit / 2 || !misses_marks(target))
		return false;
	for (; *source < target->seats->n[OPEN_SOURCE]; ++*source)
		if (dfi__open_target_misses(target, *source))
			return true;
	return false;
}

/* The seat that keeps a partition from moving on, or OPEN_NOBODY. */
static uint16_t holder_up(const struct open_tables *tables,
    const struct open_seats *seats, uint32_t p, bool *takes)
{
	const struct open_table *table = &tables->newest;

	*takes = dfi__open_is_released(tables, seats, p);
	if (!*takes)
		return table->from[p];
	return dfi__open_is_taken(tables, seats, p) ? OPEN_NOBODY
						    : table->owners[p];
}

bool dfi__open_holds_up(const struct open_tables *tables,
    const struct open_seats *seats, uint32_t seat)
{
	bool takes;
	uint32_t p;

	for (p = 0; p < tables->newest.n_partitions; p++)
		if (holder_up(tables, seats, p, &takes) == seat)
			return true;
	return false;
}

bool dfi__open_overdue_target(struct open_overdue *overdue,
    const struct keyed_target *target, int64_t now, int64_t limit,
    uint32_t *seat, bool *releases)
{
	const struct open_tables *tables = target->tables;
	bool takes;
	uint32_t p;

	if (!is_active(target))
		return false;
	follow(overdue, target, now, limit);
	for (p = 0; p < tables->newest.n_partitions; p++) {
		uint16_t who = holder_up(tables, target->seats, p, &takes);

		if (who == OPEN_NOBODY || who == target->seats->own_seat)
			continue;
		if (takes ? !overdue->all_released || OPEN_BUG(PATIENT) ||
			    now - overdue->released <= limit
			  : now - overdue->since <= limit)
			continue;
		*seat = who;
		*releases = !takes;
		return true;
	}
	return false;
}
