/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a report of dfi-bench says that DFI is ahead: rates and times count in
 * opposite directions.
 */
#include <criterion/criterion.h>

#include "bench/standings.h"

#define MAX 8

static const struct experiment experiment;
static struct standing standings[MAX];

Test(standings, a_higher_rate_and_a_shorter_time_are_ahead)
{
	cr_assert(unit_of_rate("GB/s"));
	cr_assert(unit_of_rate("M calls/s"));
	cr_assert_not(unit_of_rate("s"));
	cr_assert_not(unit_of_rate("ns"));
	cr_assert_not(unit_of_rate("MiB"));
	cr_assert_not(unit_of_rate(NULL));
}

Test(standings, rows_count_by_their_baseline)
{
	json_t *rows = json_pack(
	    "[{s:s, s:s, s:f}, {s:s, s:s, s:f}, {s:s, s:s, s:f}, {s:s, s:s, "
	    "s:f}]",
	    "baseline", "ring", "unit", "GB/s", "ratio", 2.0, "baseline",
	    "line", "unit", "ns", "ratio", 4.0, "baseline", "ring", "unit",
	    "GB/s", "ratio", 0.5, "baseline", "ring", "unit", "GB/s", "ratio",
	    3.0);

	cr_assert_eq(standings_of(&experiment, rows, standings, MAX), 2);
	cr_assert_str_eq(standings[0].baseline, "ring");
	cr_assert_eq(standings[0].n, 3);
	cr_assert_eq(standings[0].worst, 0.5);
	cr_assert_eq(standings[0].median, 2);
	cr_assert_eq(standings[0].best, 3);
	cr_assert_str_eq(standings[1].baseline, "line");
	cr_assert_eq(standings[1].median, 0.25);
	cr_assert_eq(standings_of(&experiment, rows, standings, 1), 1);
	json_decref(rows);
}

Test(standings, rows_without_a_ratio_do_not_count)
{
	json_t *rows = json_pack("[{s:n, s:n}, {s:s, s:n}]", "baseline",
	    "ratio", "baseline", "ring", "ratio");

	cr_assert_eq(standings_of(&experiment, rows, standings, MAX), 0);
	json_decref(rows);
}

Test(standings, nothing_is_ahead_of_a_link_or_of_itself_with_less_to_do)
{
	json_t *rows = json_pack("[{s:s, s:s, s:f}, {s:s, s:s, s:f}]",
	    "baseline", "modelled link", "unit", "GB/s", "ratio", 0.9,
	    "baseline", "no-bulk", "unit", "ns", "ratio", 2.0);

	cr_assert_eq(standings_of(&experiment, rows, standings, MAX), 0);
	json_decref(rows);
}

Test(standings, the_best_comes_first)
{
	struct standing some[] = { { .median = 1 }, { .median = 3 },
		{ .median = 2 } };

	standings_sort(some, 3);
	cr_assert_eq(some[0].median, 3);
	cr_assert_eq(some[2].median, 1);
}
