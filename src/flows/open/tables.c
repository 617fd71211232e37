/* SPDX-License-Identifier: Apache-2.0 */
/* What an endpoint knows of the newest table, and of its hand-over. */
#include <string.h>

#include "base/bits.h"
#include "flows/open/bugs.h"
#include "flows/open/table.h"

size_t dfi__open_tables_size(uint32_t n_partitions, uint32_t n_targets)
{
	return 2 * dfi__open_table_size(n_partitions, n_targets) +
	    2 * sizeof(uint64_t) * n_partitions +
	    align_up(sizeof(int32_t) * (size_t)n_targets, 8) +
	    align_up(sizeof(uint16_t) * (size_t)n_partitions, 8);
}

void dfi__open_tables_init(struct open_tables *tables, uint32_t n_partitions,
    uint32_t n_targets, void *memory)
{
	size_t size = dfi__open_table_size(n_partitions, n_targets);
	char *at = memory;

	memset(tables, 0, sizeof(*tables));
	memset(memory, 0, dfi__open_tables_size(n_partitions, n_targets));
	dfi__open_table_init(&tables->newest, n_partitions, n_targets, at);
	dfi__open_table_init(&tables->next, n_partitions, n_targets, at + size);
	tables->released = (uint64_t *)(at + 2 * size);
	tables->taken = tables->released + n_partitions;
	tables->scratch = (int32_t *)(tables->taken + n_partitions);
	tables->assigned = (uint16_t *)(tables->taken + n_partitions +
	    align_up(sizeof(int32_t) * (size_t)n_targets, 8) / 8);
}

bool dfi__open_tables_put(
    struct open_tables *tables, const struct open_table *table)
{
	struct open_table *newest = &tables->newest;

	if (table->number < newest->number)
		return false;
	tables->listed = true;
	if (table->number == newest->number)
		return false;
	newest->number = table->number;
	newest->epoch = table->epoch;
	newest->revision = table->revision;
	memcpy(newest->owners, table->owners,
	    sizeof(uint16_t) * newest->n_partitions);
	memcpy(
	    newest->from, table->from, sizeof(uint16_t) * newest->n_partitions);
	memcpy(newest->incarnations, table->incarnations,
	    sizeof(uint64_t) * newest->n_targets);
	return true;
}

void dfi__open_tables_delete(struct open_tables *tables, uint64_t number)
{
	if (number == tables->newest.number)
		tables->listed = false;
}

void dfi__open_tables_restart(struct open_tables *tables)
{
	size_t bytes = sizeof(uint64_t) * tables->newest.n_partitions;

	tables->newest.number = tables->newest.epoch = tables->proposed = 0;
	memset(tables->released, 0, bytes);
	memset(tables->taken, 0, bytes);
}

void dfi__open_tables_hand(
    struct open_tables *tables, const struct open_hand *hand)
{
	uint32_t p;

	for (p = 0; p < tables->newest.n_partitions; p++) {
		if (open_bit(hand->released, p))
			tables->released[p] = max_u64(
			    tables->released[p], hand->table);
		if (open_bit(hand->taken, p))
			tables->taken[p] = max_u64(
			    tables->taken[p], hand->table);
	}
}

void dfi__open_tables_assign(struct open_tables *tables, const uint16_t *owners)
{
	tables->has_assigned = owners != NULL;
	if (owners)
		memcpy(tables->assigned, owners,
		    sizeof(uint16_t) * tables->newest.n_partitions);
}

/* Whether that seat of the newest table is not held by whom it means. */
static bool is_gone(const struct open_tables *tables,
    const struct open_seats *seats, uint16_t seat)
{
	return !open_seat_is(
	    seats, OPEN_TARGET, seat, tables->newest.incarnations[seat]);
}

bool dfi__open_is_released(const struct open_tables *tables,
    const struct open_seats *seats, uint32_t partition)
{
	const struct open_table *table = &tables->newest;

	return !open_table_moves(table, partition) ||
	    table->from[partition] == OPEN_NOBODY ||
	    tables->released[partition] >= table->number ||
	    is_gone(tables, seats, table->from[partition]);
}

bool dfi__open_is_taken(const struct open_tables *tables,
    const struct open_seats *seats, uint32_t partition)
{
	const struct open_table *table = &tables->newest;

	return !open_table_moves(table, partition) ||
	    tables->taken[partition] >= table->number ||
	    is_gone(tables, seats, table->owners[partition]);
}

bool dfi__open_is_settled(
    const struct open_tables *tables, const struct open_seats *seats)
{
	uint32_t p;

	for (p = 0; p < tables->newest.n_partitions; p++)
		if (!dfi__open_is_released(tables, seats, p) ||
		    !dfi__open_is_taken(tables, seats, p))
			return false;
	return true;
}

uint16_t dfi__open_owner(const struct open_tables *tables,
    const struct open_seats *seats, uint32_t partition)
{
	uint16_t seat = tables->newest.owners[partition];

	return seat != OPEN_NOBODY && !is_gone(tables, seats, seat)
	    ? seat
	    : OPEN_NOBODY;
}

bool dfi__open_tables_propose(
    struct open_tables *tables, const struct open_seats *seats)
{
	const struct open_table *newest = &tables->newest;

	if (!seats->begun || seats->evicted ||
	    tables->proposed > newest->number ||
	    (!dfi__open_is_settled(tables, seats) && !OPEN_BUG(UNSETTLED)) ||
	    !dfi__open_table_follow(newest, seats,
		tables->has_assigned ? tables->assigned : NULL, tables->scratch,
		&tables->next))
		return false;
	tables->proposed = tables->next.number;
	return true;
}
