/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-bench's experiments: how claims are judged by rows, and that the table
 * has nothing that a run cannot use.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "bench/claims.h"

static json_t *some_rows(void)
{
	return json_pack(
	    "[{s:s, s:i, s:f}, {s:s, s:i, s:f}, {s:s, s:i, s:f}, {s:s, s:i, "
	    "s:n}]",
	    "api", "push", "size", 16, "value", 4.0, "api", "push", "size", 64,
	    "value", 8.0, "api", "two words", "size", 16, "value", 1.0, "api",
	    "none", "size", 16, "value");
}

static void assert_verdict(const struct claim *claim, enum verdict expected)
{
	json_t *rows = some_rows();
	double found = -1;

	cr_assert_eq(
	    claim_judge(claim, rows, &found), expected, "found %f", found);
	json_decref(rows);
}

Test(claims, a_quotient_is_compared_with_both_limits)
{
	struct claim claim = { "", "value", "api=push size=16",
		"api=push size=64", 0.5, 0.5, NULL };

	assert_verdict(&claim, VERDICT_AGREES);
	claim.least = 0.51;
	claim.most = 0;
	assert_verdict(&claim, VERDICT_DIFFERS);
	claim.least = 0;
	claim.most = 0.49;
	assert_verdict(&claim, VERDICT_DIFFERS);
}

Test(claims, without_other_rows_the_value_itself_is_compared)
{
	struct claim claim = { "", "value", "size=64", NULL, 8, 8, NULL };

	assert_verdict(&claim, VERDICT_AGREES);
}

Test(claims, several_rows_count_by_their_median)
{
	struct claim claim = { "", "value", "api=push", NULL, 6, 6, NULL };

	assert_verdict(&claim, VERDICT_AGREES);
}

Test(claims, a_reason_is_given_only_for_what_differs)
{
	static const struct experiment experiment = {
		.claims = {
			{ "holds", "value", "size=64", NULL, 8, 8, "never" },
			{ "differs", "value", "size=64", NULL, 9, 0, "because" },
			{ "has none", "value", "size=64", NULL, 9, 0, NULL },
		},
	};
	json_t *rows = some_rows(), *all = claims_json(&experiment, rows);

	cr_assert_null(json_object_get(json_array_get(all, 0), "why"));
	cr_assert_str_eq(
	    json_string_value(json_object_get(json_array_get(all, 1), "why")),
	    "because");
	cr_assert_null(json_object_get(json_array_get(all, 2), "why"));
	json_decref(all);
	json_decref(rows);
}

Test(claims, underscores_in_a_selection_stand_for_blanks)
{
	struct claim claim = { "", "value", "api=two_words", NULL, 1, 1, NULL };

	assert_verdict(&claim, VERDICT_AGREES);
}

Test(claims, a_selection_may_ask_whether_something_holds)
{
	json_t *row = json_pack("{s:b, s:i}", "paired", 1, "size", 16);

	cr_assert(claim_selects("size=16 paired=true", row));
	cr_assert_not(claim_selects("paired=false", row));
	cr_assert_not(claim_selects("paired=1", row));
	json_decref(row);
}

Test(claims, without_rows_nothing_is_claimed)
{
	struct claim none = { "", "value", "api=claim", NULL, 0, 1, NULL };
	struct claim null = { "", "value", "api=none", NULL, 0, 1, NULL };
	struct claim against = { "", "value", "api=push", "size=7", 0, 1,
		NULL };
	struct claim prefix = { "", "value", "api=pus", NULL, 0, 100, NULL };

	assert_verdict(&none, VERDICT_NONE);
	assert_verdict(&null, VERDICT_NONE);
	assert_verdict(&against, VERDICT_NONE);
	assert_verdict(&prefix, VERDICT_NONE);
}

Test(claims, one_that_differs_decides_over_all)
{
	struct experiment experiment = {
		.claims = {
			{ "", "value", "size=64", NULL, 1, 0 },
			{ "", "value", "size=64", NULL, 9, 0 },
			{ "", "value", "size=7", NULL, 1, 0 },
		},
	};
	json_t *rows = some_rows(), *claims;

	cr_assert_eq(claims_judge(&experiment, rows), VERDICT_DIFFERS);
	claims = claims_json(&experiment, rows);
	cr_assert_eq(json_array_size(claims), 3);
	cr_assert_str_eq(json_string_value(json_object_get(
			     json_array_get(claims, 1), "finding")),
	    "8, at least 9");
	json_decref(claims);
	memset(&experiment.claims[1], 0, sizeof(experiment.claims[1]));
	cr_assert_eq(claims_judge(&experiment, rows), VERDICT_AGREES);
	json_decref(rows);
}

Test(experiments, titles_of_figures_have_no_quotes)
{
	const struct figure *figure;
	uint32_t i, j;

	for (i = 0; i < experiments_count(); i++)
		for (j = 0; j < MAX_FIGURES; j++) {
			figure = experiment_figure(experiment_at(i), j);
			if (figure->x)
				cr_assert_not(strchr(figure->x_title, '\'') ||
				    strchr(figure->y_title, '\''));
		}
}

Test(experiments, are_found_by_id_and_name_in_any_case)
{
	const struct experiment *experiment;
	uint32_t i;

	for (i = 0; i < experiments_count(); i++) {
		experiment = experiment_at(i);
		cr_assert_eq(experiment_find(experiment->id), experiment);
		cr_assert_eq(experiment_find(experiment->name), experiment);
	}
	cr_assert_eq(experiment_find("e10"), experiment_find("E10"));
	cr_assert_null(experiment_find("E"));
}

Test(experiments, all_sixteen_of_the_paper_are_there)
{
	char id[8];
	int i;

	for (i = 1; i <= 16; i++) {
		snprintf(id, sizeof(id), "E%d", i);
		cr_assert_not_null(experiment_find(id), "%s", id);
		cr_assert_not_null(experiment_find(id)->paper, "%s", id);
	}
}

/* Whether a step has this series, whose blanks a selection writes as _. */
static bool has_series(const struct experiment *experiment, const char *word)
{
	const char *series;
	size_t i, size = strcspn(word, " ");
	uint32_t step;

	for (step = 0; step < MAX_STEPS; step++) {
		series = experiment->steps[step].series;
		if (!series || strlen(series) != size)
			continue;
		for (i = 0; i < size; i++)
			if (series[i] != (word[i] == '_' ? ' ' : word[i]))
				break;
		if (i == size)
			return true;
	}
	return false;
}

static void check_selection(
    const struct experiment *experiment, const char *selection)
{
	const char *series = selection ? strstr(selection, "series=") : NULL;

	cr_assert(!series || has_series(experiment, series + 7), "%s: %s",
	    experiment->id, selection);
}

Test(experiments, each_runs_and_claims_something_or_says_why_not)
{
	const struct experiment *experiment;
	const struct claim *claim;
	uint32_t i;

	for (i = 0; i < experiments_count(); i++) {
		experiment = experiment_at(i);
		cr_assert_not_null(experiment->here, "%s", experiment->id);
		cr_assert_eq(!experiment->skipped,
		    experiment->steps[0].command != NULL, "%s", experiment->id);
		if (experiment->skipped)
			continue;
		cr_assert_not_null(
		    experiment->claims[0].text, "%s", experiment->id);
		for (claim = experiment->claims;
		     claim < experiment->claims + MAX_CLAIMS && claim->text;
		     claim++) {
			cr_assert(claim->least > 0 || claim->most > 0, "%s: %s",
			    experiment->id, claim->text);
			check_selection(experiment, claim->rows);
			check_selection(experiment, claim->against);
		}
	}
}
