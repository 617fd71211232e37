/* SPDX-License-Identifier: Apache-2.0 */
/* The ratios of rows, by experiment and baseline. */
#include "standings.h"

#include <stdlib.h>
#include <string.h>

#include "../common/stats.h"

bool unit_of_rate(const char *unit)
{
	return unit && strstr(unit, "/s") != NULL;
}

static const char *text_of(const json_t *row, const char *key)
{
	return json_string_value(json_object_get(row, key));
}

/* Nothing can be ahead of a modelled link, or of itself with less to do. */
static bool is_no_rival(const char *baseline)
{
	return !baseline || strcmp(baseline, "modelled link") == 0 ||
	    strcmp(baseline, "no-bulk") == 0;
}

/* How many times better a row is than its baseline; 0: there is no such one. */
static double advantage(const json_t *row)
{
	double ratio = json_number_value(json_object_get(row, "ratio"));
	const char *baseline = text_of(row, "baseline");

	if (is_no_rival(baseline) || !(ratio > 0))
		return 0;
	return unit_of_rate(text_of(row, "unit")) ? ratio : 1 / ratio;
}

static bool is_known(
    const struct standing *standings, uint32_t n, const char *baseline)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (strcmp(standings[i].baseline, baseline) == 0)
			return true;
	return false;
}

static void fill(struct standing *standing, const json_t *rows)
{
	double values[STATS_MAX_VALUES];
	struct summary summary;
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) if (standing->n < STATS_MAX_VALUES &&
	    advantage(row) > 0 &&
	    strcmp(text_of(row, "baseline"), standing->baseline) == 0)
	    values[standing->n++] = advantage(row);
	summary = stats_summary(values, standing->n);
	standing->worst = summary.min;
	standing->median = summary.median;
	standing->best = summary.max;
}

uint32_t standings_of(const struct experiment *experiment, const json_t *rows,
    struct standing *standings, uint32_t max)
{
	const json_t *row;
	uint32_t n = 0;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (n == max || !(advantage(row) > 0) ||
		    is_known(standings, n, text_of(row, "baseline")))
			continue;
		standings[n] = (struct standing){ .experiment = experiment,
			.baseline = text_of(row, "baseline") };
		fill(&standings[n++], rows);
	}
	return n;
}

static int compare(const void *left, const void *right)
{
	const struct standing *a = left, *b = right;

	return (a->median < b->median) - (a->median > b->median);
}

void standings_sort(struct standing *standings, uint32_t n)
{
	qsort(standings, n, sizeof(*standings), compare);
}
