/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a source of an open flow sends the tuples of each partition, what
 * waits, and which marks it owes: H4, H5, H7, H8 and R4 of docs/open-flows.md.
 *
 * The caller gives each change of the registry to seats and tables, and then
 * calls dfi__open_source_learn(). It may do so late, as with an open span, but
 * in order.
 */
#ifndef DFI_FLOWS_OPEN_SOURCE_H
#define DFI_FLOWS_OPEN_SOURCE_H

#include "flows/open/table.h"

struct keyed_source {
	const struct open_seats *seats;
	const struct open_tables *tables;
	uint64_t adopted; /* the number of a table; 0: none yet */
	/*
	 * Of each partition: the target that takes its tuples now, or
	 * OPEN_NOBODY; and the same for a tuple that is pushed, which may not
	 * overtake those that wait.
	 */
	uint16_t *owners, *routes;
	uint32_t *waiting; /* of each partition: tuples that wait */
	uint64_t n_waiting;
	uint64_t *owed; /* to each target: the mark of this table; 0: none */
};

size_t dfi__open_source_size(uint32_t n_partitions, uint32_t n_targets);
void dfi__open_source_init(struct keyed_source *source,
    const struct open_seats *seats, const struct open_tables *tables,
    void *memory);

enum open_source_step {
	/*
	 * A table was adopted: send what is in the lanes, and park them (H4).
	 * Marks may be owed from now on.
	 */
	OPEN_ADOPTED = 1,
	OPEN_MAY_SEND = 2, /* tuples that wait have an owner now */
};

/*
 * Act on a change. Returns bits of enum open_source_step. When a target is
 * gone, its partitions have no route any more. If its tuples are taken back
 * (R2), call dfi__open_source_wait() for each of them before the next change is
 * given.
 */
unsigned dfi__open_source_learn(struct keyed_source *source);

/* The seat to which a pushed tuple goes, or OPEN_NOBODY: it waits. */
static inline uint16_t open_source_route(
    const struct keyed_source *source, uint32_t partition)
{
	return source->routes[partition];
}

/*
 * A tuple waits: behind those of its partition that wait, or, if it was taken
 * back, in front of them.
 */
void dfi__open_source_wait(struct keyed_source *source, uint32_t partition);

/*
 * The seat to which the first tuple of the partition that waits may go, or
 * OPEN_NOBODY. When it has been sent, or was given up, it waits no more.
 */
static inline uint16_t open_source_owner(
    const struct keyed_source *source, uint32_t partition)
{
	return source->owners[partition];
}
void dfi__open_source_sent(struct keyed_source *source, uint32_t partition);

/* The newest table names another owner of a partition (choice.h). */
void dfi__open_source_reroute(struct keyed_source *source, uint32_t partition);

/*
 * The table whose mark is owed to a target, behind all that was sent to it, or
 * 0. Other tuples may go before or behind.
 */
static inline uint64_t open_source_owes(
    const struct keyed_source *source, uint32_t target)
{
	return source->owed[target];
}
void dfi__open_source_marked(struct keyed_source *source, uint32_t target);

/*
 * Whether the application's marks may go out: they may not overtake tuples that
 * wait.
 */
static inline bool open_source_may_mark(const struct keyed_source *source)
{
	return source->n_waiting == 0;
}

/*
 * The table that an application's mark names: the newest of which all
 * partitions are taken. The mark says of partitions that moved with this table
 * or before it that all tuples up to its input position were sent to their
 * owner (R4).
 */
uint64_t dfi__open_source_settled(const struct keyed_source *source);

/* Where a source that returns begins: R4. */
struct open_resume {
	uint64_t *positions;    /* of each partition: acknowledged, */
	uint64_t *incarnations; /* and who says so; 0: nobody yet */
};

size_t dfi__open_resume_size(uint32_t n_partitions);
void dfi__open_resume_init(
    struct open_resume *resume, uint32_t n_partitions, void *memory);

/*
 * The pair of this source's incarnation and a target, of that incarnation, says
 * these positions, of the partitions whose bit is set in held.
 */
void dfi__open_resume_pair(struct open_resume *resume, uint32_t n_partitions,
    uint64_t incarnation, const uint64_t *held, const uint64_t *positions);

/*
 * The input position behind which the input is read again. False: not known
 * yet, as a hand-over is going on, or an owner has not said its positions.
 */
bool dfi__open_resume_lowest(const struct open_resume *resume,
    const struct open_tables *tables, const struct open_seats *seats,
    uint64_t *lowest);

#endif
