/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build and probe: join the partitions of stores, one after the other.
 */
#ifndef RADIX_JOIN_JOIN_H
#define RADIX_JOIN_JOIN_H

#include <stdint.h>
#include "groups.h"
#include "hash_table.h"
#include "partition.h"
#include "relation.h"

struct join {
	struct table table;
	/* In place of the table: of files, if no rows are wanted; or NULL. */
	struct groups *groups;
	/* Stores that hold these partitions: one, or one of each thread. */
	const struct store *stores[N_RELATIONS];
	uint32_t n_stores;
	uint32_t first, end; /* the partitions to join */
	/* Called for each pair of equal keys; NULL: only add them up. */
	int (*match)(void *arg, uint64_t inner_payload, uint64_t outer_payload);
	void *match_arg;
	/* Called after each partition; may be NULL. */
	void (*progress)(void *arg, uint64_t n_tuples);
	void *progress_arg;
};

/*
 * Fill the table, which was opened for 0 bits, with all inner tuples: -1 when
 * there is no memory.
 */
int join_build(struct join *join);

/* Join outer tuples with that table. Adds and returns as join_run(). */
int join_probe(struct join *join, const struct tuple *tuples, uint32_t n,
    struct result *result);

/*
 * Join all partitions. Adds to the result, unless match does. Returns 0, or the
 * result of match, or -1 without memory.
 */
int join_run(struct join *join, struct result *result);

#endif
