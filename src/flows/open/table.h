/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which target owns each partition of an open flow: H1 to H3 and H7 of
 * docs/open-flows.md. A table is what a "tables/" key says; struct open_tables
 * is what an endpoint knows of the newest one, and of its hand-over.
 */
#ifndef DFI_FLOWS_OPEN_TABLE_H
#define DFI_FLOWS_OPEN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flows/open/seats.h"

#define OPEN_NOBODY UINT16_MAX /* no seat: targets have lower numbers */

struct open_table {
	uint64_t number; /* from 1; 0: there is no table */
	uint64_t epoch;
	uint64_t revision; /* of its key, which the table itself does not say */
	uint32_t n_partitions, n_targets;
	uint16_t *owners; /* of each partition: a seat */
	/*
	 * The seat that had to release the partition: that of owners if it did
	 * not move, OPEN_NOBODY if its owner was gone or it had none.
	 */
	uint16_t *from;
	/* Of each seat: whom owners and from mean. 0: nobody. */
	uint64_t *incarnations;
};

/* The bytes of the arrays, and a table without number in such memory. */
size_t dfi__open_table_size(uint32_t n_partitions, uint32_t n_targets);
void dfi__open_table_init(struct open_table *table, uint32_t n_partitions,
    uint32_t n_targets, void *memory);

/*
 * A table as the value of its key, of dfi__open_table_bytes(). Decoding checks
 * the size, and that each partition has an owner with an incarnation; it leaves
 * revision alone. False: it is no value of a table with so many partitions and
 * targets.
 */
size_t dfi__open_table_bytes(uint32_t n_partitions, uint32_t n_targets);
void dfi__open_table_encode(const struct open_table *table, uint8_t *bytes);
bool dfi__open_table_decode(
    const uint8_t *bytes, size_t size, struct open_table *table);

static inline bool open_table_moves(
    const struct open_table *table, uint32_t partition)
{
	return table->from[partition] != table->owners[partition];
}

/*
 * Compute the table that follows last: H2 and H3. assigned: the seats that the
 * application wants, OPEN_NOBODY for a partition that it leaves to the library;
 * NULL: for all. scratch: a number for each target. False: nothing is to be
 * moved, or nobody could own a partition; next is undefined then.
 */
bool dfi__open_table_follow(const struct open_table *last,
    const struct open_seats *seats, const uint16_t *assigned, int32_t *scratch,
    struct open_table *next);

/* What a target says of a table in its "hand/" key. */
struct open_hand {
	uint64_t table;
	const uint64_t
	    *released; /* a bit for each partition, from the lowest */
	const uint64_t *taken;
};

static inline uint32_t open_bits_words(uint32_t n_partitions)
{
	return (n_partitions + 63) / 64;
}

static inline bool open_bit(const uint64_t *bits, uint32_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

struct open_tables {
	struct open_table newest;
	struct open_table next; /* of dfi__open_tables_propose() */
	bool listed;            /* the key of newest is in the registry */
	uint64_t oldest;        /* below it, no table's key is there */
	/* Of each partition: the newest table of which it was released, taken.
	 */
	uint64_t *released, *taken;
	uint16_t *assigned;
	bool has_assigned;
	int32_t *scratch;
	uint64_t proposed; /* the number of the last proposal */
};

size_t dfi__open_tables_size(uint32_t n_partitions, uint32_t n_targets);
void dfi__open_tables_init(struct open_tables *tables, uint32_t n_partitions,
    uint32_t n_targets, void *memory);

/*
 * A table's key is there, or is gone. put() returns whether the table is newer
 * than all before: then it is copied, and is the newest.
 */
bool dfi__open_tables_put(
    struct open_tables *tables, const struct open_table *table);
void dfi__open_tables_delete(struct open_tables *tables, uint64_t number);

/*
 * The key of the newest table is gone while no target is there: the next one is
 * number 1, and nothing that was said of earlier ones counts for it.
 */
void dfi__open_tables_restart(struct open_tables *tables);

/* The "hand/" key of a target says this. A table that is not known yet counts.
 */
void dfi__open_tables_hand(
    struct open_tables *tables, const struct open_hand *hand);

/* The "assign" key says these owners; NULL: it is gone. */
void dfi__open_tables_assign(
    struct open_tables *tables, const uint16_t *owners);

/*
 * Questions on the newest table, which make sense when the endpoint has begun.
 * A partition that does not move is released and taken. What is released,
 * taken or settled stays so for this table.
 */
bool dfi__open_is_released(const struct open_tables *tables,
    const struct open_seats *seats, uint32_t partition);
bool dfi__open_is_taken(const struct open_tables *tables,
    const struct open_seats *seats, uint32_t partition);
bool dfi__open_is_settled(
    const struct open_tables *tables, const struct open_seats *seats);

/* The seat of a partition's owner, or OPEN_NOBODY: none, or it is gone. */
uint16_t dfi__open_owner(const struct open_tables *tables,
    const struct open_seats *seats, uint32_t partition);

/*
 * For a target, after each change: true if it should create the key of
 * tables->next. It may fail to, as others try as well. True once for each
 * number, unless the caller sets tables->proposed to 0 because the registry has
 * not answered.
 */
bool dfi__open_tables_propose(
    struct open_tables *tables, const struct open_seats *seats);

#endif
