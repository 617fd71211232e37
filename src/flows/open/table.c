/* SPDX-License-Identifier: Apache-2.0 */
/* One table: the fewest moves that balance, and its value in the registry. */
#include <string.h>

#include "base/bits.h"
#include "flows/open/bugs.h"
#include "flows/open/bytes.h"
#include "flows/open/table.h"

size_t dfi__open_table_size(uint32_t n_partitions, uint32_t n_targets)
{
	return sizeof(uint64_t) * n_targets +
	    align_up(2 * sizeof(uint16_t) * (size_t)n_partitions, 8);
}

void dfi__open_table_init(struct open_table *table, uint32_t n_partitions,
    uint32_t n_targets, void *memory)
{
	uint32_t p;

	memset(table, 0, sizeof(*table));
	memset(memory, 0, dfi__open_table_size(n_partitions, n_targets));
	table->n_partitions = n_partitions;
	table->n_targets = n_targets;
	table->incarnations = memory;
	table->owners = (uint16_t *)(table->incarnations + n_targets);
	table->from = table->owners + n_partitions;
	for (p = 0; p < n_partitions; p++)
		table->owners[p] = table->from[p] = OPEN_NOBODY;
}

/* ---- The next table ------------------------------------------------------ */

/* Who held a partition in last, and is attached; or nobody. */
static uint16_t holder_in(
    const struct open_table *last, const struct open_seats *seats, uint32_t p)
{
	uint16_t seat = last->number ? last->owners[p] : OPEN_NOBODY;

	return seat != OPEN_NOBODY &&
		open_seat_is(seats, OPEN_TARGET, seat, last->incarnations[seat])
	    ? seat
	    : OPEN_NOBODY;
}

/* Where the application wants a partition, or nobody. */
static uint16_t assigned_to(const struct open_table *next,
    const struct open_seats *seats, const uint16_t *assigned, uint32_t p)
{
	return assigned && assigned[p] < next->n_targets &&
		open_seat_stays(seats, assigned[p])
	    ? assigned[p]
	    : OPEN_NOBODY;
}

/*
 * What each target has more than its even share, from what it has. Of those
 * that get one more, the targets that have it already are first: so the fewest
 * partitions move.
 */
static void compute_surplus(const struct open_seats *seats, uint32_t n_targets,
    uint32_t n_staying, uint32_t n_free, int32_t *surplus)
{
	int32_t base = (int32_t)(n_free / n_staying);
	uint32_t t, n_full = 0, extra = n_free % n_staying, extra_few;

	for (t = 0; t < n_targets; t++)
		n_full += open_seat_stays(seats, t) && surplus[t] > base;
	extra_few = extra > n_full ? extra - n_full : 0;
	extra -= extra_few;
	for (t = 0; t < n_targets; t++) {
		uint32_t *left = surplus[t] > base ? &extra : &extra_few;

		if (!open_seat_stays(seats, t)) {
			surplus[t] = 0;
			continue;
		}
		surplus[t] -= base;
		if (*left) {
			surplus[t]--;
			--*left;
		}
	}
}

/* Share out the partitions that the application has not assigned. */
static void share(struct open_table *next, const struct open_seats *seats,
    const uint16_t *assigned, int32_t *surplus)
{
	uint32_t p, t = 0;

	for (p = 0; p < next->n_partitions; p++) {
		uint16_t *owner = &next->owners[p];

		if (*owner != OPEN_NOBODY && surplus[*owner] > 0 &&
		    assigned_to(next, seats, assigned, p) == OPEN_NOBODY) {
			surplus[*owner]--;
			*owner = OPEN_NOBODY;
		}
	}
	for (p = 0; p < next->n_partitions; p++) {
		if (next->owners[p] != OPEN_NOBODY)
			continue;
		while (surplus[t] >= 0)
			t++;
		next->owners[p] = (uint16_t)t;
		surplus[t]++;
	}
}

static uint64_t next_epoch(
    const struct open_table *last, const struct open_seats *seats)
{
	uint64_t epoch = last->epoch;
	uint32_t t;

	for (t = 0; t < seats->n[OPEN_TARGET] && !OPEN_BUG(DEAF_EPOCH); t++)
		epoch = max_u64(
		    epoch, seats->seats[OPEN_TARGET][t].holder.store_epoch);
	return OPEN_BUG(SAME_EPOCH) ? 1 : epoch + 1;
}

bool dfi__open_table_follow(const struct open_table *last,
    const struct open_seats *seats, const uint16_t *assigned, int32_t *scratch,
    struct open_table *next)
{
	uint32_t p, t, n_staying = 0, n_free = 0, n_moved = 0;

	for (t = 0; t < next->n_targets; t++) {
		next->incarnations[t] =
		    seats->seats[OPEN_TARGET][t].holder.incarnation;
		n_staying += open_seat_stays(seats, t);
		scratch[t] = 0;
	}
	if (!n_staying)
		return false;
	for (p = 0; p < next->n_partitions; p++) {
		uint16_t from = holder_in(last, seats, p);
		uint16_t owner = assigned_to(next, seats, assigned, p);

		next->from[p] = from;
		if (owner == OPEN_NOBODY) {
			n_free++;
			if (from != OPEN_NOBODY &&
			    (open_seat_stays(seats, from) || OPEN_BUG(KEEPS)) &&
			    !OPEN_BUG(ANEW)) {
				owner = from;
				scratch[owner]++;
			}
		}
		next->owners[p] = owner;
	}
	compute_surplus(seats, next->n_targets, n_staying, n_free, scratch);
	share(next, seats, assigned, scratch);
	for (p = 0; p < next->n_partitions; p++)
		n_moved += open_table_moves(next, p) &&
		    !(OPEN_BUG(ORPHANS) && last->number &&
			next->from[p] == OPEN_NOBODY);
	next->number = last->number + 1;
	next->epoch = next_epoch(last, seats);
	next->revision = 0;
	return n_moved > 0;
}

/* ---- The value of its key ------------------------------------------------ */

/*
 * All numbers are little-endian:
 *
 *	number, epoch          8 bytes each
 *	partitions, targets    4 bytes each
 *	incarnations           8 bytes for each target
 *	owner, from            12 bits each, for each partition; from is that of
 *	                       owner for nobody
 *	from nobody            a bit for each partition
 */
#define HEAD 24

size_t dfi__open_table_bytes(uint32_t n_partitions, uint32_t n_targets)
{
	return HEAD + 8 * (size_t)n_targets + 3 * (size_t)n_partitions +
	    (n_partitions + 7) / 8;
}

void dfi__open_table_encode(const struct open_table *table, uint8_t *bytes)
{
	uint8_t *seats = bytes + HEAD + 8 * (size_t)table->n_targets;
	uint8_t *nobody = seats + 3 * (size_t)table->n_partitions;
	uint32_t p, t;

	open_put_number(bytes, table->number, 8);
	open_put_number(bytes + 8, table->epoch, 8);
	open_put_number(bytes + 16, table->n_partitions, 4);
	open_put_number(bytes + 20, table->n_targets, 4);
	for (t = 0; t < table->n_targets; t++)
		open_put_number(
		    bytes + HEAD + 8 * (size_t)t, table->incarnations[t], 8);
	memset(nobody, 0, (table->n_partitions + 7) / 8);
	for (p = 0; p < table->n_partitions; p++) {
		bool none = table->from[p] == OPEN_NOBODY;
		uint32_t from = none ? table->owners[p] : table->from[p];

		open_put_number(
		    seats + 3 * (size_t)p, table->owners[p] | from << 12, 3);
		nobody[p / 8] |= (uint8_t)(none << p % 8);
	}
}

static bool is_held(const struct open_table *table, uint32_t seat)
{
	return seat < table->n_targets && table->incarnations[seat];
}

bool dfi__open_table_decode(
    const uint8_t *bytes, size_t size, struct open_table *table)
{
	const uint8_t *seats = bytes + HEAD + 8 * (size_t)table->n_targets;
	const uint8_t *nobody = seats + 3 * (size_t)table->n_partitions;
	uint32_t p, t;

	if (size !=
		dfi__open_table_bytes(table->n_partitions, table->n_targets) ||
	    open_get_number(bytes + 16, 4) != table->n_partitions ||
	    open_get_number(bytes + 20, 4) != table->n_targets)
		return false;
	table->number = open_get_number(bytes, 8);
	table->epoch = open_get_number(bytes + 8, 8);
	for (t = 0; t < table->n_targets; t++)
		table->incarnations[t] = open_get_number(
		    bytes + HEAD + 8 * (size_t)t, 8);
	for (p = 0; p < table->n_partitions; p++) {
		uint32_t both = (uint32_t)open_get_number(
		    seats + 3 * (size_t)p, 3);
		bool none = nobody[p / 8] >> p % 8 & 1;

		if (!is_held(table, both & 0xfff) ||
		    !is_held(table, both >> 12))
			return false;
		table->owners[p] = both & 0xfff;
		table->from[p] = none ? OPEN_NOBODY : (uint16_t)(both >> 12);
	}
	return table->number != 0;
}
