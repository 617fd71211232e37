/* SPDX-License-Identifier: Apache-2.0 */
/* The work of rivals on tuples, in dfi-bench and in programs that it starts. */
#include "rival.h"

struct fill {
	char *to;
	uint64_t n;
	struct pattern pattern;
};

static force_inline int fill_sized(struct fill *fill, size_t tuple_size)
{
	struct pattern pattern = fill->pattern;
	char *to = fill->to;
	uint64_t i;

	for (i = 0; i < fill->n; i++, to += tuple_size)
		tuple_fill(to, tuple_size, &pattern);
	fill->pattern = pattern;
	return 0;
}

static int fill_by_size(struct fill *fill, size_t tuple_size)
{
	RETURN_BY_SIZE(fill_sized, fill, tuple_size);
}

void rival_fill(
    char *to, uint64_t n, size_t tuple_size, struct pattern *pattern)
{
	struct fill fill = { .to = to, .n = n, .pattern = *pattern };

	(void)fill_by_size(&fill, tuple_size);
	*pattern = fill.pattern;
}

struct intake {
	const char *from;
	uint64_t n;
	struct word_sum *sum;
};

static force_inline int sum_sized(struct intake *intake, size_t tuple_size)
{
	const char *from = intake->from;
	struct word_sum part = { 0 };
	uint64_t i;

	for (i = 0; i < intake->n; i++, from += tuple_size)
		tuple_sum(from, tuple_size, &part);
	word_sum_add(intake->sum, &part);
	return 0;
}

static int sum_by_size(struct intake *intake, size_t tuple_size)
{
	RETURN_BY_SIZE(sum_sized, intake, tuple_size);
}

void rival_sum(
    const char *from, uint64_t n, size_t tuple_size, struct word_sum *sum)
{
	struct intake intake = { .from = from, .n = n, .sum = sum };

	(void)sum_by_size(&intake, tuple_size);
}

void rival_done(struct worker *worker, uint64_t tuples, uint64_t sum)
{
	worker->seat->tuples = tuples;
	worker->seat->sum = sum;
	worker->seat->bad = 0;
}
