/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of groups, chained by index; see groups.h. */
#include "groups.h"
#include "hash_table.h"
#include "platform.h"

#define MIN_BITS 4
#define MAX_GROUPS (UINT32_MAX / 4)

int groups_open(
    struct groups *groups, const struct image *image, uint32_t radix_bits)
{
	*groups = (struct groups){ .image = image, .radix_bits = radix_bits };
	return table_seed(&groups->seed);
}

void groups_close(struct groups *groups)
{
	size_t n = groups->capacity;

	big_free(groups->list, n * sizeof(*groups->list));
	big_free(groups->buckets, n * sizeof(*groups->buckets));
	groups->list = NULL;
	groups->buckets = NULL;
	groups->capacity = 0;
}

static int reserve(struct groups *groups, uint32_t n)
{
	groups_close(groups);
	groups->list = big_alloc(n * sizeof(*groups->list));
	groups->buckets = big_alloc(n * sizeof(*groups->buckets));
	groups->capacity = n;
	return groups->list && groups->buckets ? 0 : -1;
}

int groups_begin(struct groups *groups, uint64_t n_tuples)
{
	uint32_t bits = MIN_BITS;

	if (n_tuples > MAX_GROUPS)
		return complain("a partition has too many tuples: %ju, and at "
				"most %u are possible: use more --radix-bits",
		    (uintmax_t)n_tuples, (unsigned)MAX_GROUPS);
	while (UINT64_C(1) << bits < n_tuples)
		bits++;
	if (UINT32_C(1) << bits > groups->capacity &&
	    reserve(groups, UINT32_C(1) << bits))
		return -1;
	memset(groups->buckets, 0, sizeof(*groups->buckets) << bits);
	groups->hash_shift = 64 - bits;
	groups->n = 0;
	return 0;
}

static uint32_t *bucket(const struct groups *groups, uint64_t hash)
{
	return &groups->buckets[bucket_of(
	    hash, groups->seed, groups->radix_bits, groups->hash_shift)];
}

/* The group of an entry of a relation, or NULL. */
static struct group *find(const struct groups *groups, uint32_t first,
    const struct tuple *tuple, enum relation relation)
{
	struct group *group;
	uint32_t i;

	for (i = first; i; i = group->next) {
		group = &groups->list[i - 1];
		if (group->hash == tuple->key &&
		    image_equal(groups->image, INNER, group->entry, relation,
			tuple->payload - 1))
			return group;
	}
	return NULL;
}

void groups_add(struct groups *groups, const struct tuple *tuples, uint32_t n)
{
	const int64_t *values = groups->image->sides[INNER].values;
	struct group *group;
	uint32_t *first, i;

	for (i = 0; i < n; i++) {
		first = bucket(groups, tuples[i].key);
		group = find(groups, *first, &tuples[i], INNER);
		if (!group) {
			group = &groups->list[groups->n++];
			*group = (struct group){ .hash = tuples[i].key,
				.entry = tuples[i].payload - 1,
				.next = *first };
			*first = groups->n;
		}
		group->n++;
		group->payloads += tuples[i].payload;
		if (values)
			sum_add(&group->values,
			    sum_of(values[tuples[i].payload - 1]));
	}
}

void groups_probe(const struct groups *groups, const struct tuple *tuples,
    uint32_t n, struct result *result)
{
	const int64_t *values = groups->image->sides[OUTER].values;
	const struct group *group;
	uint32_t i;

	for (i = 0; i < n; i++) {
		group = find(
		    groups, *bucket(groups, tuples[i].key), &tuples[i], OUTER);
		if (!group)
			continue;
		count_add(&result->matches, group->n);
		result->checksum += group->payloads * tuples[i].payload;
		/* At most one of the two tables has values. */
		sum_add(&result->sum, group->values);
		if (values)
			sum_add(&result->sum,
			    sum_times(sum_of(values[tuples[i].payload - 1]),
				group->n));
	}
}
