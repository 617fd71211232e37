/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of an open flow with replay that does not route by keys: its tuples
 * have ways instead of partitions, and a table of its own says where these go
 * (R8 of docs/open-flows.md). With direct and function routing each seat is a
 * way, else there is one, whose target changes from segment to segment. Nothing
 * moves, so a keyed_source (source.h) with this table owes no marks; and tuples
 * of a way wait while nobody holds its seat.
 */
#ifndef DFI_FLOWS_OPEN_CHOICE_H
#define DFI_FLOWS_OPEN_CHOICE_H

#include "flows/open/source.h"

/*
 * Reserve the table in memory of dfi__open_tables_size(). Way i is that of seat
 * i; if there is only one, that of nobody yet.
 */
void dfi__open_choice_init(struct open_tables *tables, uint32_t n_ways,
    uint32_t n_targets, void *memory);

/* Seats have changed. Call dfi__open_source_learn() then. */
void dfi__open_choice_learn(
    struct open_tables *tables, const struct open_seats *seats);

/* The only way goes to this seat from now on; OPEN_NOBODY: tuples wait. */
void dfi__open_choose(
    struct open_tables *tables, struct keyed_source *source, uint16_t seat);

/*
 * R8: the input position behind which a source that returns reads its input:
 * resume->positions and incarnations are of each target's seat. False: a target
 * that is attached has not answered, or fewer than min_targets are.
 */
bool dfi__open_resume_highest(const struct open_resume *resume,
    const struct open_seats *seats, uint32_t min_targets, uint64_t *highest);

#endif
