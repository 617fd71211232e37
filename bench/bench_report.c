/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-bench report: a page of all results of a folder, as report.html, which
 * needs no other file, and report.md with files of its drawings. Both come from
 * the same calls.
 */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "../common/complain.h"
#include "../common/usage.h"
#include "bench.h"
#include "figure.h"
#include "labels.h"
#include "page.h"
#include "results.h"
#include "story.h"

#define TEXT_SIZE 512

/* Open a file of the folder. NULL after a complaint. */
static FILE *open_file(const char *folder, const char *name)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "we");
	if (!file)
		complain("cannot write %s: %s", path, strerror(errno));
	return file;
}

static bool close_file(FILE *file, const char *folder, const char *name)
{
	bool failed = ferror(file);

	if (fclose(file) == 0 && !failed)
		return true;
	complain("cannot write %s/%s: %s", folder, name, strerror(errno));
	return false;
}

static bool write_file(const char *folder, const struct story *story, bool html)
{
	const char *name = html ? "report.html" : "report.md";
	FILE *file = open_file(folder, name);
	struct page page;
	char title[TEXT_SIZE];

	if (!file)
		return false;
	snprintf(title, sizeof(title), "DFI measured on %s",
	    json_string_value(json_object_get(story->host, "cpu")));
	page_open(&page, file, html, title);
	story_write(&page, story);
	page_close(&page);
	if (!close_file(file, folder, name))
		return false;
	printf("%s/%s\n", folder, name);
	return true;
}

/* Draw a figure, and write it beside the Markdown. */
static bool draw_figure(
    const char *folder, struct chapter *chapter, uint32_t number)
{
	const struct experiment *experiment = chapter->experiment;
	const struct figure *figure = experiment_figure(experiment, number);
	char *name = chapter->file_names[number];
	FILE *file;

	chapter->svgs[number] = figure_draw(
	    figure, json_object_get(chapter->result, "rows"));
	if (!chapter->svgs[number])
		return true;
	snprintf(name, sizeof(chapter->file_names[0]), "%s-%s%s%s.svg",
	    experiment->id, experiment->name, number ? "-" : "",
	    number ? figure->y : "");
	file = open_file(folder, name);
	if (!file)
		return false;
	fputs(chapter->svgs[number], file);
	return close_file(file, folder, name);
}

static bool draw(const char *folder, struct story *story)
{
	uint32_t i, number;

	story->drawn = figure_can_draw();
	if (!story->drawn) {
		complain("the report has no drawings: there is no gnuplot "
			 "(Debian: gnuplot-nox)");
		return true;
	}
	for (i = 0; i < story->n; i++)
		for (number = 0; number < MAX_FIGURES; number++)
			if (!draw_figure(folder, &story->chapters[i], number))
				return false;
	return true;
}

static bool load(const char *folder, struct story *story, bool *damaged)
{
	const struct experiment *experiment;
	json_t *result;
	uint32_t i;

	for (i = 0; i < experiments_count() && story->n < MAX_CHAPTERS; i++) {
		experiment = experiment_at(i);
		result = results_load(folder, experiment, damaged);
		if (!result)
			continue;
		labels_set(json_object_get(result, "rows"));
		story->chapters[story->n++] = (struct chapter){
			.experiment = experiment, .result = result
		};
	}
	if (!story->n) {
		complain("%s has no results of dfi-bench run --out %s", folder,
		    folder);
		return false;
	}
	story->host = json_object_get(story->chapters[0].result, "host");
	return true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	const char **folder = state->input;

	if (key == ARGP_KEY_ARG) {
		if (*folder)
			usage_error(state, "'%s': name one folder", arg);
		*folder = arg;
		return 0;
	}
	if (key == ARGP_KEY_END && !*folder)
		usage_error(state, "name the folder of results");
	return ARGP_ERR_UNKNOWN;
}

int bench_report(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse,
		.args_doc = "DIR",
		.doc = "Make DIR/report.html and DIR/report.md of the results "
		       "that dfi-bench run --out DIR has written. Drawings "
		       "need gnuplot.",
	};
	static struct story story;
	const char *folder = NULL;
	bool done, damaged = false;
	uint32_t i, k;

	if (options_check(&argp, argv))
		return EX_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &folder);
	done = load(folder, &story, &damaged) && draw(folder, &story) &&
	    write_file(folder, &story, false) &&
	    write_file(folder, &story, true);
	for (i = 0; i < story.n; i++) {
		json_decref(story.chapters[i].result);
		for (k = 0; k < MAX_FIGURES; k++)
			free(story.chapters[i].svgs[k]);
	}
	return done && !damaged ? 0 : 1;
}
