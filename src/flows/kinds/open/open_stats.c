/* SPDX-License-Identifier: Apache-2.0 */
/* What others can ask about an endpoint of an open flow: dfi_stats_list(). */
#include <dfi/stats.h>
#include "acks.h"
#include "open.h"
#include "open_source.h"
#include "open_target.h"

/* Under the lock: the partitions of a target, and those that are on their way.
 */
static void count_partitions(
    const struct seat_watch *seats, struct dfi_endpoint_stats *stats)
{
	const struct open_tables *tables = seats->tables;
	const struct open_table *table = &tables->newest;
	uint32_t p, own = seats->seats.own_seat;

	if (table->incarnations[own] != seats->incarnation)
		return;
	for (p = 0; p < table->n_partitions; p++) {
		stats->n_partitions += table->owners[p] == own;
		stats->n_moving += (table->owners[p] == own &&
				       !dfi__open_is_taken(
					   tables, &seats->seats, p)) ||
		    (table->from[p] == own && table->owners[p] != own &&
			!dfi__open_is_released(tables, &seats->seats, p));
	}
}

static void describe(struct pairs *pairs, struct dfi_endpoint_stats *stats)
{
	struct seat_watch *seats = &pairs->seats;

	pthread_mutex_lock(&seats->lock);
	stats->incarnation = seats->incarnation;
	stats->evictions = seats->n_evicted;
	if (seats->tables && seats->tables->newest.number) {
		stats->epoch = seats->tables->newest.epoch;
		if (seats->role == OPEN_TARGET)
			count_partitions(seats, stats);
	}
	pthread_mutex_unlock(&seats->lock);
}

void dfi__open_source_describe(
    const struct dfi_source *source, struct dfi_endpoint_stats *stats)
{
	struct open_source *open = open_source(source);

	describe(&open->pairs, stats);
	stats->dropped = atomic_peek(&open->dropped);
}

void dfi__open_target_describe(
    const struct dfi_target *target, struct dfi_endpoint_stats *stats)
{
	const struct open_target *open = open_target(target);

	describe(&open_target(target)->pairs, stats);
	if (open->acks)
		stats->filtered = atomic_peek(&open->acks->filtered);
}
