/* SPDX-License-Identifier: Apache-2.0 */
/* A source's routes, waiting tuples and marks, while partitions move. */
#include <string.h>

#include "base/bits.h"
#include "flows/open/bugs.h"
#include "flows/open/source.h"

static size_t routes_size(uint32_t n_partitions)
{
	return align_up(2 * sizeof(uint16_t) * (size_t)n_partitions, 8);
}

size_t dfi__open_source_size(uint32_t n_partitions, uint32_t n_targets)
{
	return sizeof(uint64_t) * n_targets + routes_size(n_partitions) +
	    align_up(sizeof(uint32_t) * (size_t)n_partitions, 8);
}

void dfi__open_source_init(struct keyed_source *source,
    const struct open_seats *seats, const struct open_tables *tables,
    void *memory)
{
	uint32_t p, n_partitions = tables->newest.n_partitions;
	uint32_t n_targets = tables->newest.n_targets;
	char *at = memory;

	memset(source, 0, sizeof(*source));
	memset(memory, 0, dfi__open_source_size(n_partitions, n_targets));
	source->seats = seats;
	source->tables = tables;
	source->owed = (uint64_t *)at;
	at += sizeof(uint64_t) * n_targets;
	source->owners = (uint16_t *)at;
	source->routes = source->owners + n_partitions;
	source->waiting = (uint32_t *)(at + routes_size(n_partitions));
	for (p = 0; p < n_partitions; p++)
		source->owners[p] = source->routes[p] = OPEN_NOBODY;
}

static void set_route(struct keyed_source *source, uint32_t p)
{
	source->routes[p] = source->waiting[p] && !OPEN_BUG(OVERTAKE)
	    ? OPEN_NOBODY
	    : source->owners[p];
}

/* Marks are for those that must release partitions. */
static void owe_marks(struct keyed_source *source)
{
	const struct open_table *table = &source->tables->newest;
	uint32_t p;

	if (OPEN_BUG(NO_MARK))
		return;
	for (p = 0; p < table->n_partitions; p++)
		if (open_table_moves(table, p) && table->from[p] != OPEN_NOBODY)
			source->owed[table->from[p]] = table->number;
}

/* Numbers begin anew when the registry has lost the flow. */
static void limit_marks(struct keyed_source *source)
{
	const struct open_table *table = &source->tables->newest;
	uint32_t t;

	for (t = 0; t < table->n_targets; t++)
		if (source->owed[t] > table->number)
			source->owed[t] = table->number;
}

/* Who is gone gets no mark. */
static void forget_marks(struct keyed_source *source)
{
	const struct open_table *table = &source->tables->newest;
	uint32_t t;

	for (t = 0; t < table->n_targets; t++)
		if (source->owed[t] &&
		    !open_seat_is(
			source->seats, OPEN_TARGET, t, table->incarnations[t]))
			source->owed[t] = 0;
}

static uint16_t owner_of(const struct keyed_source *source, uint32_t p)
{
	const struct open_tables *tables = source->tables;

	if (!dfi__open_is_taken(tables, source->seats, p) &&
	    !(OPEN_BUG(EARLY_SEND) &&
		dfi__open_is_released(tables, source->seats, p)))
		return OPEN_NOBODY;
	return dfi__open_owner(tables, source->seats, p);
}

unsigned dfi__open_source_learn(struct keyed_source *source)
{
	const struct open_table *table = &source->tables->newest;
	unsigned steps = 0;
	uint32_t p;

	if (!source->seats->begun || source->seats->evicted)
		return 0;
	if (table->number != source->adopted) {
		/* Who attached behind the table begins with it. */
		if (table->revision > source->seats->begun)
			owe_marks(source);
		limit_marks(source);
		source->adopted = table->number;
		steps |= OPEN_ADOPTED;
	}
	forget_marks(source);
	for (p = 0; p < table->n_partitions; p++) {
		source->owners[p] = owner_of(source, p);
		if (source->waiting[p] && source->owners[p] != OPEN_NOBODY)
			steps |= OPEN_MAY_SEND;
		set_route(source, p);
	}
	return steps;
}

void dfi__open_source_wait(struct keyed_source *source, uint32_t partition)
{
	source->waiting[partition]++;
	source->n_waiting++;
	set_route(source, partition);
}

void dfi__open_source_sent(struct keyed_source *source, uint32_t partition)
{
	source->waiting[partition]--;
	source->n_waiting--;
	set_route(source, partition);
}

void dfi__open_source_reroute(struct keyed_source *source, uint32_t partition)
{
	source->owners[partition] = owner_of(source, partition);
	set_route(source, partition);
}

void dfi__open_source_marked(struct keyed_source *source, uint32_t target)
{
	source->owed[target] = 0;
}

uint64_t dfi__open_source_settled(const struct keyed_source *source)
{
	const struct open_tables *tables = source->tables;

	/* A table is made when the one before is settled. */
	return source->adopted && !dfi__open_is_settled(tables, source->seats)
	    ? source->adopted - 1
	    : source->adopted;
}

size_t dfi__open_resume_size(uint32_t n_partitions)
{
	return 2 * sizeof(uint64_t) * n_partitions;
}

void dfi__open_resume_init(
    struct open_resume *resume, uint32_t n_partitions, void *memory)
{
	memset(memory, 0, dfi__open_resume_size(n_partitions));
	resume->positions = memory;
	resume->incarnations = resume->positions + n_partitions;
}

void dfi__open_resume_pair(struct open_resume *resume, uint32_t n_partitions,
    uint64_t incarnation, const uint64_t *held, const uint64_t *positions)
{
	uint32_t p;

	for (p = 0; p < n_partitions; p++) {
		if (!open_bit(held, p))
			continue;
		resume->positions[p] = positions[p];
		resume->incarnations[p] = incarnation;
	}
}

bool dfi__open_resume_lowest(const struct open_resume *resume,
    const struct open_tables *tables, const struct open_seats *seats,
    uint64_t *lowest)
{
	uint64_t least = UINT64_MAX;
	uint32_t p;

	if (!seats->begun || !tables->newest.number ||
	    !dfi__open_is_settled(tables, seats))
		return false;
	for (p = 0; p < tables->newest.n_partitions; p++) {
		uint16_t owner = dfi__open_owner(tables, seats, p);

		if (owner == OPEN_NOBODY ||
		    resume->incarnations[p] !=
			tables->newest.incarnations[owner])
			return false;
		least = min_u64(least, resume->positions[p]);
	}
	*lowest = least;
	return true;
}
