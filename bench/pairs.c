/* SPDX-License-Identifier: Apache-2.0 */
/* Reads results and finds the rows that measured the same. */
#include "pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../common/complain.h"
#include "experiments.h"
#include "results.h"

enum {
	NAME_SIZE = 1024,
};

/* The volume of a round depends on the speed of the machine. */
static bool is_measured(const char *key, const json_t *value)
{
	return json_is_real(value) || json_is_null(value) ||
	    strcmp(key, "bytes") == 0 || strcmp(key, "target_bytes") == 0;
}

static void add_part(char *name, const char *key, const json_t *value)
{
	size_t used = strlen(name);
	char *text = json_dumps(value, JSON_ENCODE_ANY);

	if (!text)
		return;
	if (json_is_string(value))
		snprintf(name + used, NAME_SIZE - used, " %s=%s", key,
		    json_string_value(value));
	else
		snprintf(name + used, NAME_SIZE - used, " %s=%s", key, text);
	free(text);
}

/* What a row measured: the members in front of its value, and two others. */
static void name_row(json_t *row, const char *of, char *name)
{
	static const char *const others[] = { "transport", "series" };
	const char *key;
	json_t *value;
	size_t i;

	snprintf(name, NAME_SIZE, "%s", of);
	json_object_foreach(row, key, value)
	{
		if (strcmp(key, "value") == 0)
			break;
		if (strcmp(key, "experiment") != 0 &&
		    strcmp(key, "series") != 0 && !is_measured(key, value))
			add_part(name, key, value);
	}
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		value = json_object_get(row, others[i]);
		if (json_is_string(value))
			add_part(name, others[i], value);
	}
}

/* Rows of the same name are told apart by their order. */
static void number_row(const json_t *all, char *name)
{
	size_t used = strlen(name), number;

	for (number = 2; json_object_get(all, name); number++)
		snprintf(name + used, NAME_SIZE - used, " (%zu)", number);
}

static bool add_rows(
    json_t *all, const json_t *rows, const char *of, const char *path)
{
	const char *experiment;
	char name[NAME_SIZE], group[128];
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		experiment = json_string_value(
		    json_object_get(row, "experiment"));
		if (!json_is_number(json_object_get(row, "value")) ||
		    !json_is_string(json_object_get(row, "unit"))) {
			complain("%s: row %zu has no value and unit", path, i);
			return false;
		}
		snprintf(group, sizeof(group), "%s%s%s", of, *of ? " " : "",
		    experiment ? experiment : "");
		name_row(row, group, name);
		number_row(all, name);
		json_object_set(all, name, row);
	}
	return true;
}

static bool add_file(json_t *all, const char *path)
{
	json_error_t error;
	json_t *object = json_load_file(path, 0, &error), *rows;
	bool added = false;

	if (!object) {
		complain("%s: %s", path, error.text);
		return false;
	}
	rows = json_object_get(object, "rows");
	if (json_is_array(rows))
		added = add_rows(all, rows, "", path);
	else
		complain("%s has no rows: make it with --json, or by dfi-bench "
			 "run",
		    path);
	json_decref(object);
	return added;
}

static bool add_folder(json_t *all, const char *path)
{
	const struct experiment *experiment;
	bool damaged = false;
	json_t *result;
	uint32_t i;

	for (i = 0; i < experiments_count() && !damaged; i++) {
		experiment = experiment_at(i);
		result = results_load(path, experiment, &damaged);
		if (result)
			damaged = !add_rows(all,
			    json_object_get(result, "rows"), experiment->id,
			    path);
		json_decref(result);
	}
	return !damaged;
}

json_t *pairs_load(const char *path)
{
	json_t *all = json_object();
	struct stat status;
	bool added = stat(path, &status) == 0 && S_ISDIR(status.st_mode)
	    ? add_folder(all, path)
	    : add_file(all, path);

	if (added && json_object_size(all))
		return all;
	if (added)
		complain("%s has no results", path);
	json_decref(all);
	return NULL;
}

/* Units of which less is better. */
static bool is_cost(const json_t *row)
{
	static const char *const costs[] = { "ns", "us", "ms", "s", "% CPU",
		"MiB" };
	const char *unit = json_string_value(json_object_get(row, "unit"));
	size_t i;

	for (i = 0; i < sizeof(costs) / sizeof(costs[0]); i++)
		if (strcmp(unit, costs[i]) == 0)
			return true;
	return false;
}

void pairs_rounds(const json_t *row, bool beside, struct rounds_of_row *rounds)
{
	const json_t *values = json_object_get(row, "rounds");
	const json_t *others = json_object_get(row, "baseline_rounds");
	double value;
	size_t i;

	rounds->n = 0;
	for (i = 0; i < json_array_size(values) && i < STATS_MAX_VALUES; i++) {
		value = json_number_value(json_array_get(values, i));
		if (beside)
			value /= json_number_value(json_array_get(others, i));
		if (!(value > 0)) {
			rounds->n = 0;
			return;
		}
		rounds->values[rounds->n++] = is_cost(row) ? 1 / value : value;
	}
}

static size_t baseline_rounds(const json_t *row)
{
	return json_array_size(json_object_get(row, "baseline_rounds"));
}

bool pairs_share_baseline(const json_t *old_row, const json_t *new_row)
{
	return json_is_string(json_object_get(old_row, "baseline")) &&
	    json_equal(json_object_get(old_row, "baseline"),
		json_object_get(new_row, "baseline")) &&
	    baseline_rounds(old_row) && baseline_rounds(new_row);
}
