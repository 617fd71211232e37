/* SPDX-License-Identifier: Apache-2.0 */
/* Files of results. */
#include "results.h"

#include <dfi/dfi.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../common/complain.h"
#include "claims.h"
#include "labels.h"

json_t *results_commands(
    const struct experiment *experiment, const struct rounds *rounds)
{
	const struct experiment_step *step;
	char text[COMMAND_SIZE], why[128];
	json_t *commands = json_array();

	for (step = experiment->steps;
	     step < experiment->steps + MAX_STEPS && step->command; step++) {
		if (experiment->skipped || step_lacks(step, why, sizeof(why)))
			continue;
		step_command(step, rounds, text, sizeof(text));
		json_array_append_new(commands, json_string(text));
		if (!step->join_baseline)
			continue;
		step_baseline(step, text, sizeof(text));
		json_array_append_new(commands, json_string(text));
	}
	return commands;
}

static json_t *now_text(void)
{
	time_t now = time(NULL);
	struct tm utc;
	char text[32];

	gmtime_r(&now, &utc);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &utc);
	return json_string(text);
}

/* Whether a reason begins with the step that it is of. */
static bool is_of(const char *why, const char *series)
{
	return strncmp(why, series, strlen(series)) == 0;
}

/* The steps that this machine can't run, each with the reason. */
static json_t *left_out(const struct experiment *experiment)
{
	const struct experiment_step *step;
	json_t *all = json_array();
	char why[128];

	for (step = experiment->steps;
	     step < experiment->steps + MAX_STEPS && step->command; step++)
		if (step_lacks(step, why, sizeof(why)))
			json_array_append_new(all,
			    is_of(why, step->series)
				? json_string(why)
				: json_sprintf("%s: %s", step->series, why));
	return all;
}

/* What the table says of an experiment, and what of it its rows show. */
static void describe(
    json_t *result, const struct experiment *experiment, json_t *rows)
{
	labels_set(rows);
	json_object_set_new(result, "title", json_string(experiment->title));
	json_object_set_new(result, "paper",
	    experiment->paper ? json_string(experiment->paper) : json_null());
	json_object_set_new(result, "here", json_string(experiment->here));
	json_object_set_new(result, "verdict",
	    json_string(verdict_name(claims_judge(experiment, rows))));
	json_object_set_new(result, "claims", claims_json(experiment, rows));
}

json_t *results_make(const struct experiment *experiment,
    const struct rounds *rounds, json_t *rows, json_t *host)
{
	json_t *result = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o}",
	    "experiment", experiment->id, "name", experiment->name, "title",
	    experiment->title, "version", dfi_version(), "time", now_text(),
	    "host", host, "commands", results_commands(experiment, rounds));

	describe(result, experiment, rows);
	json_object_set_new(result, "left_out", left_out(experiment));
	json_object_set_new(result, "rows", rows);
	return result;
}

void results_describe(json_t *result, const struct experiment *experiment)
{
	describe(result, experiment, json_object_get(result, "rows"));
}

bool results_verified(const json_t *result)
{
	const json_t *row;
	size_t i;

	if (json_is_string(json_object_get(result, "skipped")) ||
	    !json_is_true(json_object_get(result, "succeeded")))
		return false;
	json_array_foreach(json_object_get(result, "rows"), i,
	    row) if (!json_is_true(json_object_get(row,
			 "verified"))) return false;
	return true;
}

static void file_name(const char *folder, const struct experiment *experiment,
    const char *end, char *name)
{
	snprintf(name, PATH_MAX, "%s/%s-%s.json%s", folder, experiment->id,
	    experiment->name, end);
}

bool results_store(const char *folder, const struct experiment *experiment,
    const json_t *result)
{
	char name[PATH_MAX], fresh[PATH_MAX];

	file_name(folder, experiment, "", name);
	file_name(folder, experiment, ".part", fresh);
	errno = 0;
	if (json_dump_file(
		result, fresh, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
	    rename(fresh, name) == 0)
		return true;
	complain("cannot write %s: %s", name, strerror(errno));
	unlink(fresh);
	return false;
}

json_t *results_load(
    const char *folder, const struct experiment *experiment, bool *damaged)
{
	char name[PATH_MAX];
	json_error_t error;
	json_t *result;

	file_name(folder, experiment, "", name);
	if (access(name, F_OK) != 0)
		return NULL;
	result = json_load_file(name, 0, &error);
	if (result && json_is_array(json_object_get(result, "rows")) &&
	    json_is_object(json_object_get(result, "host")))
		return result;
	if (damaged) {
		*damaged = true;
		complain("%s has no results: %s", name,
		    result ? "it lacks rows or host" : error.text);
	}
	json_decref(result);
	return NULL;
}
