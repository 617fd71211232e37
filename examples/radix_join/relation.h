/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input of the join: two relations of tuples with a key and a payload, and
 * the plan that spreads their partitions over the workers.
 */
#ifndef RADIX_JOIN_RELATION_H
#define RADIX_JOIN_RELATION_H

#include <stdbool.h>
#include <stdint.h>
#include <dfi/dfi.h>

struct tuple {
	uint64_t key;
	uint64_t payload;
};

enum relation {
	INNER,
	OUTER,
	N_RELATIONS,
};

/* A sum of 64-bit integers. Intermediate sums may need more than 64 bits. */
struct sum {
	uint64_t low;
	int64_t high;
};

static inline void sum_add(struct sum *sum, struct sum part)
{
	sum->low += part.low;
	sum->high += part.high + (sum->low < part.low);
}

static inline struct sum sum_of(int64_t value)
{
	struct sum sum = { (uint64_t)value, value < 0 ? -1 : 0 };

	return sum;
}

static inline struct sum sum_times(struct sum sum, uint64_t n)
{
	__extension__ unsigned __int128 product = (uint64_t)sum.high;

	product = ((product << 64) + sum.low) * n;
	sum.low = (uint64_t)product;
	sum.high = (int64_t)(product >> 64);
	return sum;
}

/* A count above UINT64_MAX stays at UINT64_MAX. */
static inline void count_add(uint64_t *count, uint64_t n)
{
	if (__builtin_add_overflow(*count, n, count))
		*count = UINT64_MAX;
}

/* Whether it is a 64-bit integer: (int64_t)sum->low. */
static inline int sum_fits(const struct sum *sum)
{
	return sum->high == ((int64_t)sum->low < 0 ? -1 : 0);
}

/* What a join finds. */
struct result {
	uint64_t matches;  /* UINT64_MAX: that many or more */
	uint64_t checksum; /* sum of inner payload times outer payload */
	struct sum sum;    /* of the column of --sum; 0 without */
};

static inline void result_add(struct result *result, const struct result *part)
{
	count_add(&result->matches, part->matches);
	result->checksum += part->checksum;
	sum_add(&result->sum, part->sum);
}

static inline int result_equal(const struct result *a, const struct result *b)
{
	return a->matches == b->matches && a->checksum == b->checksum &&
	    a->sum.low == b->sum.low && a->sum.high == b->sum.high;
}

/*
 * A partition is a value of the lowest bits of the key. Each worker owns
 * consecutive partitions, as dfi_radix_partition() assigns them. If the inner
 * relation is replicated, each worker has all of it, and its own slice of the
 * outer relation, in all partitions.
 */
struct plan {
	uint32_t n_workers;
	uint32_t bits;
	bool replicates;
	/*
	 * Each worker's inner tuples make one table that fits the cache. Outer
	 * tuples are not stored: they probe it when they come.
	 */
	bool direct;
	uint64_t n_tuples[N_RELATIONS];
};

static inline uint32_t plan_partitions(const struct plan *plan)
{
	return UINT32_C(1) << plan->bits;
}

static inline uint32_t plan_owner(const struct plan *plan, uint32_t partition)
{
	return dfi_radix_partition(partition, 0, plan->bits, plan->n_workers);
}

/* The first partition of a worker; of n_workers: the number of partitions. */
static inline uint32_t plan_first(const struct plan *plan, uint32_t worker)
{
	uint64_t scaled = (uint64_t)worker << plan->bits;

	return (uint32_t)((scaled + plan->n_workers - 1) / plan->n_workers);
}

/* The partitions of a worker after the exchange: *n from *first on. */
static inline void plan_range(
    const struct plan *plan, uint32_t worker, uint32_t *first, uint32_t *n)
{
	*first = plan->replicates ? 0 : plan_first(plan, worker);
	*n = plan->replicates ? plan_partitions(plan)
			      : plan_first(plan, worker + 1) - *first;
}

/*
 * How many tuples of a relation it has then. For a partitioned relation this is
 * an estimate, as keys decide.
 */
static inline uint64_t plan_share(
    const struct plan *plan, enum relation relation, uint32_t worker)
{
	uint32_t first, n;

	if (plan->replicates && relation == INNER)
		return plan->n_tuples[INNER];
	if (plan->replicates)
		return plan->n_tuples[OUTER] / plan->n_workers + 1;
	plan_range(plan, worker, &first, &n);
	return plan->n_tuples[relation] * n / plan_partitions(plan);
}

/* Where the worker's slice of a relation starts; n_workers: its end. */
static inline uint64_t plan_slice(
    const struct plan *plan, enum relation relation, uint32_t worker)
{
	uint64_t n = plan->n_tuples[relation];
	uint64_t whole = n / plan->n_workers;
	uint64_t rest = n % plan->n_workers;

	return worker * whole + (worker < rest ? worker : rest);
}

#endif
