/* SPDX-License-Identifier: Apache-2.0 */
/* Selections of rows, their medians, and the limits of claims. */
#include "claims.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/stats.h"

const char *verdict_name(enum verdict verdict)
{
	return verdict == VERDICT_AGREES ? "agrees"
	    : verdict == VERDICT_DIFFERS ? "differs"
					 : "open";
}

/* Whether a text is `size` bytes of a word, where blanks are underscores. */
static bool is_word(const char *text, const char *word, size_t size)
{
	size_t i;

	if (strlen(text) != size)
		return false;
	for (i = 0; i < size; i++)
		if (text[i] != word[i] && (text[i] != ' ' || word[i] != '_'))
			return false;
	return true;
}

/* Whether a member has the value that a word says. */
static bool member_is(const json_t *value, const char *word, size_t size)
{
	char text[32];

	if (json_is_string(value))
		return is_word(json_string_value(value), word, size);
	if (json_is_boolean(value))
		return is_word(
		    json_is_true(value) ? "true" : "false", word, size);
	if (!json_is_integer(value))
		return false;
	snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT,
	    json_integer_value(value));
	return is_word(text, word, size);
}

bool claim_selects(const char *selection, const json_t *row)
{
	const char *word = selection, *equals;
	char key[64];
	size_t size;

	for (; *word; word += size + (word[size] == ' ')) {
		size = strcspn(word, " ");
		equals = memchr(word, '=', size);
		if (!equals || (size_t)(equals - word) >= sizeof(key))
			return false;
		snprintf(key, sizeof(key), "%.*s", (int)(equals - word), word);
		if (!member_is(json_object_get(row, key), equals + 1,
			size - (size_t)(equals - word) - 1))
			return false;
	}
	return true;
}

/* The median of a member; false: no row that is selected has it. */
static bool median(const json_t *rows, const char *selection,
    const char *member, double *value)
{
	double values[STATS_MAX_VALUES];
	const json_t *number;
	size_t i, n = 0;

	for (i = 0; i < json_array_size(rows) && n < STATS_MAX_VALUES; i++) {
		number = json_object_get(json_array_get(rows, i), member);
		if (json_is_number(number) &&
		    claim_selects(selection, json_array_get(rows, i)))
			values[n++] = json_number_value(number);
	}
	if (n)
		*value = stats_summary(values, n).median;
	return n > 0;
}

enum verdict claim_judge(
    const struct claim *claim, const json_t *rows, double *found)
{
	double value, other = 1;

	if (!median(rows, claim->rows, claim->member, &value) ||
	    (claim->against &&
		!median(rows, claim->against, claim->member, &other)) ||
	    !(other > 0))
		return VERDICT_NONE;
	*found = value / other;
	return *found >= claim->least &&
		(claim->most == 0 || *found <= claim->most)
	    ? VERDICT_AGREES
	    : VERDICT_DIFFERS;
}

/* Three digits, or a whole number: no exponent. */
static void number_text(double number, char *text, size_t size)
{
	snprintf(text, size, number >= 1000 ? "%.0f" : "%.3g", number);
}

void claim_finding(
    const struct claim *claim, const json_t *rows, char *text, size_t size)
{
	double found;
	char number[32];

	if (claim_judge(claim, rows, &found) == VERDICT_NONE) {
		snprintf(text, size, "no such rows in this run");
		return;
	}
	number_text(found, number, sizeof(number));
	if (claim->most == 0)
		snprintf(text, size, "%s, at least %.9g", number, claim->least);
	else if (claim->least == 0)
		snprintf(text, size, "%s, at most %.9g", number, claim->most);
	else
		snprintf(text, size, "%s, from %.9g to %.9g", number,
		    claim->least, claim->most);
}

enum verdict claims_judge(
    const struct experiment *experiment, const json_t *rows)
{
	enum verdict verdict, all = VERDICT_NONE;
	const struct claim *claim;
	double found;

	for (claim = experiment->claims;
	     claim < experiment->claims + MAX_CLAIMS && claim->text; claim++) {
		verdict = claim_judge(claim, rows, &found);
		if (verdict > all)
			all = verdict;
	}
	return all;
}

json_t *claims_json(const struct experiment *experiment, const json_t *rows)
{
	const struct claim *claim;
	json_t *all = json_array(), *one;
	enum verdict verdict;
	char finding[64];
	double found;

	for (claim = experiment->claims;
	     claim < experiment->claims + MAX_CLAIMS && claim->text; claim++) {
		claim_finding(claim, rows, finding, sizeof(finding));
		verdict = claim_judge(claim, rows, &found);
		one = json_pack("{s:s, s:s, s:s}", "text", claim->text,
		    "finding", finding, "verdict", verdict_name(verdict));
		if (claim->why && verdict == VERDICT_DIFFERS)
			json_object_set_new(
			    one, "why", json_string(claim->why));
		json_array_append_new(all, one);
	}
	return all;
}
