/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds and probes a table per partition: its inner tuples fill the table,
 * which stays in the cache, and its outer tuples stream past it. If all inner
 * tuples fit the cache, there is one table, and outer tuples need no
 * partitions.
 */
#include "join.h"

static uint64_t partition_tuples(
    const struct join *join, enum relation relation, uint32_t partition)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < join->n_stores; i++)
		n += store_tuples(&join->stores[relation][i], partition);
	return n;
}

static int begin(struct join *join, uint64_t n_tuples)
{
	return join->groups ? groups_begin(join->groups, n_tuples)
			    : table_begin(&join->table, n_tuples);
}

static void build(struct join *join, uint32_t partition)
{
	const struct store *store;
	struct run run;
	uint32_t i;

	for (i = 0; i < join->n_stores; i++) {
		store = &join->stores[INNER][i];
		for (run = store_first_run(store, partition); run.n;
		     run = store_next_run(store, run)) {
			if (join->groups)
				groups_add(join->groups, run.tuples, run.n);
			else
				table_build(&join->table, run.tuples, run.n);
		}
	}
}

int join_build(struct join *join)
{
	uint64_t n = 0;
	uint32_t partition;

	for (partition = join->first; partition < join->end; partition++)
		n += partition_tuples(join, INNER, partition);
	if (begin(join, n))
		return -1;
	for (partition = join->first; partition < join->end; partition++)
		build(join, partition);
	return 0;
}

int join_probe(struct join *join, const struct tuple *tuples, uint32_t n,
    struct result *result)
{
	if (join->match)
		return table_probe_each(
		    &join->table, tuples, n, join->match, join->match_arg);
	if (join->groups)
		groups_probe(join->groups, tuples, n, result);
	else
		table_probe(&join->table, tuples, n, result);
	return 0;
}

static int probe(struct join *join, uint32_t partition, struct result *result)
{
	const struct store *store;
	struct run run;
	uint32_t i;
	int ret;

	for (i = 0; i < join->n_stores; i++) {
		store = &join->stores[OUTER][i];
		for (run = store_first_run(store, partition); run.n;
		     run = store_next_run(store, run)) {
			ret = join_probe(join, run.tuples, run.n, result);
			if (ret)
				return ret;
		}
	}
	return 0;
}

int join_run(struct join *join, struct result *result)
{
	uint64_t n_inner, n_outer;
	uint32_t partition;
	int ret;

	for (partition = join->first; partition < join->end; partition++) {
		n_inner = partition_tuples(join, INNER, partition);
		n_outer = partition_tuples(join, OUTER, partition);
		if (n_inner > 0 && n_outer > 0) {
			ret = begin(join, n_inner);
			if (ret)
				return ret;
			build(join, partition);
			ret = probe(join, partition, result);
			if (ret)
				return ret;
		}
		if (join->progress)
			join->progress(join->progress_arg, n_inner + n_outer);
	}
	return 0;
}
