/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference sorts both tables' entries by key and merges groups of equal
 * keys. A group of a inner and b outer entries is a * b matches, without
 * looking at each.
 */
#include "reference.h"
#include "platform.h"

#include <stdlib.h>

/* An entry, while sorting and merging. */
struct sorted {
	const struct image_side *side;
	uint64_t entry;
};

/* Equal keys of one table. */
struct group {
	uint64_t n;
	uint64_t payloads; /* sums over the group */
	struct sum values;
};

static int compare(const void *left, const void *right)
{
	const struct sorted *a = left, *b = right;
	size_t a_size, b_size, size;
	const char *a_string, *b_string;
	int64_t a_integer, b_integer;
	int ret;

	if (a->side->integers) {
		a_integer = a->side->integers[a->entry];
		b_integer = b->side->integers[b->entry];
		return (a_integer > b_integer) - (a_integer < b_integer);
	}
	a_string = image_string(a->side, a->entry, &a_size);
	b_string = image_string(b->side, b->entry, &b_size);
	size = a_size < b_size ? a_size : b_size;
	ret = memcmp(a_string, b_string, size);
	return ret ? ret : (a_size > b_size) - (a_size < b_size);
}

static struct sorted *sort(const struct image_side *side)
{
	struct sorted *sorted = calloc(side->n + 1, sizeof(*sorted));
	uint64_t i;

	if (!sorted) {
		complain("no memory to check the result");
		return NULL;
	}
	for (i = 0; i < side->n; i++)
		sorted[i] = (struct sorted){ side, i };
	qsort(sorted, side->n, sizeof(*sorted), compare);
	return sorted;
}

/* Gather the group at *i and move behind it. */
static struct group gather(const struct sorted *sorted, uint64_t n, uint64_t *i)
{
	const struct sorted *first = &sorted[*i];
	const int64_t *values = first->side->values;
	struct group group = { 0, 0, { 0, 0 } };

	do {
		group.n++;
		group.payloads += sorted[*i].entry + 1;
		if (values)
			sum_add(
			    &group.values, sum_of(values[sorted[*i].entry]));
		++*i;
	} while (*i < n && compare(first, &sorted[*i]) == 0);
	return group;
}

static void meet(const struct group *inner, const struct group *outer,
    struct result *expected)
{
	uint64_t pairs;

	if (__builtin_mul_overflow(inner->n, outer->n, &pairs))
		pairs = UINT64_MAX;
	count_add(&expected->matches, pairs);
	expected->checksum += inner->payloads * outer->payloads;
	/* At most one of the two tables has values. */
	sum_add(&expected->sum, sum_times(inner->values, outer->n));
	sum_add(&expected->sum, sum_times(outer->values, inner->n));
}

int reference_join(
    const struct image_side sides[N_RELATIONS], struct result *expected)
{
	struct sorted *inner = sort(&sides[INNER]);
	struct sorted *outer = sort(&sides[OUTER]);
	struct group inner_group, outer_group;
	uint64_t i = 0, o = 0;
	int order, ret = inner && outer ? 0 : -1;

	*expected = (struct result){ 0, 0, { 0, 0 } };
	while (ret == 0 && i < sides[INNER].n && o < sides[OUTER].n) {
		order = compare(&inner[i], &outer[o]);
		if (order < 0) {
			i++;
		} else if (order > 0) {
			o++;
		} else {
			inner_group = gather(inner, sides[INNER].n, &i);
			outer_group = gather(outer, sides[OUTER].n, &o);
			meet(&inner_group, &outer_group, expected);
		}
	}
	free(inner);
	free(outer);
	return ret;
}
