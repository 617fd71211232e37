/* SPDX-License-Identifier: Apache-2.0 */
/* The text of reports, its tables, and where drawings stand in it. */
#include "story.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "claims.h"
#include "figure.h"
#include "results.h"
#include "standings.h"

#define MAX_STANDINGS 128
#define TEXT_SIZE 512

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

/* agrees, differs, open, skipped or failed */
static const char *outcome_of(const json_t *result)
{
	const char *verdict = text_of(result, "verdict");

	if (*text_of(result, "skipped"))
		return "skipped";
	if (!results_verified(result))
		return "failed";
	return strcmp(verdict, "agrees") == 0 ? "agrees"
	    : strcmp(verdict, "differs") == 0 ? "differs"
					      : "open";
}

static uint32_t count_outcomes(const struct story *story, const char *outcome)
{
	uint32_t i, n = 0;

	for (i = 0; i < story->n; i++)
		n += strcmp(outcome_of(story->chapters[i].result), outcome) ==
		    0;
	return n;
}

/* The processors that others used as an experiment began. */
static double used_by_others(const struct chapter *chapter)
{
	return number_of(json_object_get(chapter->result, "host"), "in_use");
}

/* Say how often other programs disturbed what was measured. */
static void write_busy(struct page *page, const struct story *story)
{
	char text[TEXT_SIZE];
	double most = 0;
	uint32_t i, n = 0;

	for (i = 0; i < story->n; i++) {
		if (!(used_by_others(&story->chapters[i]) > 0.2))
			continue;
		n++;
		most = fmax(most, used_by_others(&story->chapters[i]));
	}
	if (!n)
		return;
	snprintf(text, sizeof(text),
	    "Other programs used up to %.1f processors when %u of %u "
	    "experiments began. Results are lower then, and vary more.",
	    most, n, story->n);
	page_paragraph(page, "Busy.", text);
}

/* An experiment may have been added to the folder of an earlier run. */
static const char *time_of(const struct story *story, int direction)
{
	const char *best = text_of(story->chapters[0].result, "time"), *other;
	uint32_t i;

	for (i = 1; i < story->n; i++) {
		other = text_of(story->chapters[i].result, "time");
		if (*other && strcmp(other, best) * direction > 0)
			best = other;
	}
	return best;
}

static void write_host(struct page *page, const struct story *story)
{
	const json_t *host = story->host, *first = story->chapters[0].result;
	char text[TEXT_SIZE];

	snprintf(text, sizeof(text),
	    "%s: %s, %.0f processors, %s, Linux %s; dfi %s; %s to %s.",
	    text_of(host, "name"), text_of(host, "cpu"),
	    number_of(host, "cores"), text_of(host, "arch"),
	    text_of(host, "kernel"), text_of(first, "version"),
	    time_of(story, -1), time_of(story, 1));
	page_paragraph(page, "Machine.", text);
	write_busy(page, story);
	if (!story->drawn)
		page_paragraph(page, "No drawings.",
		    "There is no gnuplot on the machine that made this page.");
}

static void write_method(struct page *page)
{
	page_heading(page, 2, "method", "How it was measured");
	page_list(page, true);
	page_item(page,
	    "A value is the median of the rounds; both sides of a comparison "
	    "take turns, and a ratio is the median of the ratios of pairs. So "
	    "a slow minute hits both. Compare ratios, not values.");
	page_item(page,
	    "Producers fill every word of a tuple and consumers add up every "
	    "word, on both sides by the same code. The sums of all rounds are "
	    "compared; a row with a wrong sum makes its experiment failed. "
	    "memcpy, iperf3 and fi_pingpong do without tuples.");
	page_item(page,
	    "Baselines: raw is a hand-written ring for one producer and one "
	    "consumer in shared memory, which cannot wait, fail or lose a "
	    "peer; raw-routed and raw-partition send to several; "
	    "raw-broadcast is read by all; one-to-one is the same flow with "
	    "one source and one target; fold is a loop over memory; ping-pong "
	    "and words are bare cache lines.");
	page_item(page,
	    "Nodes are threads or processes of one machine. A network is only "
	    "modelled, where a statement or a command names the link.");
	page_item(page,
	    "The statements that are checked are ours, in words of this "
	    "machine; beside them stands what the paper shows on eight "
	    "servers with a network of 100 Gb/s.");
	page_list(page, false);
}

static void write_overview(struct page *page, const struct story *story)
{
	static const char *const headings[] = { "", "Outcome", "Experiment",
		NULL };
	const struct chapter *chapter;
	char text[TEXT_SIZE];
	uint32_t i;

	page_heading(page, 2, "outcomes", "Does it do what the paper shows?");
	snprintf(text, sizeof(text),
	    "Of %u experiments %u agree with what is stated below, %u differ, "
	    "%u are open, %u were skipped and %u failed.",
	    story->n, count_outcomes(story, "agrees"),
	    count_outcomes(story, "differs"), count_outcomes(story, "open"),
	    count_outcomes(story, "skipped"), count_outcomes(story, "failed"));
	page_paragraph(page, NULL, text);
	page_table(page, headings);
	for (i = 0; i < story->n; i++) {
		chapter = &story->chapters[i];
		page_row(page);
		page_cell(page, chapter->experiment->id);
		page_outcome(page, outcome_of(chapter->result));
		page_link(page, chapter->experiment->name,
		    text_of(chapter->result, "title"));
	}
	page_table_end(page);
}

/* Rounds vary by some percent on a quiet machine. */
static const char *place_of(double median)
{
	return median >= 1.05 ? "ahead" : median > 0.95 ? "even" : "behind";
}

static void write_standings(struct page *page, const struct story *story)
{
	static const char *const headings[] = { "DFI is", "Median",
		"Compared with", "Experiment", "Worst", "Best", NULL };
	static struct standing all[MAX_STANDINGS];
	const struct chapter *chapter;
	uint32_t i, n = 0;

	for (i = 0; i < story->n; i++) {
		chapter = &story->chapters[i];
		n += standings_of(chapter->experiment,
		    json_object_get(chapter->result, "rows"), all + n,
		    MAX_STANDINGS - n);
	}
	if (!n)
		return;
	standings_sort(all, n);
	page_heading(page, 2, "standings", "Where DFI is ahead, and where not");
	page_paragraph(page, NULL,
	    "How many times better DFI is than what it is compared with, over "
	    "all rows of an experiment. From 1.05 on it is ahead, below 0.95 "
	    "behind: in rate, time or memory.");
	page_table(page, headings);
	for (i = 0; i < n; i++) {
		page_row(page);
		page_outcome(page, place_of(all[i].median));
		page_number(page, all[i].median, "%.2f");
		page_cell(page, all[i].baseline);
		page_link(
		    page, all[i].experiment->name, all[i].experiment->name);
		page_number(page, all[i].worst, "%.2f");
		page_number(page, all[i].best, "%.2f");
	}
	page_table_end(page);
}

/* Whether a statement has a reason that none before it has. */
static bool is_new_reason(const json_t *claims, size_t number)
{
	const char *why = text_of(json_array_get(claims, number), "why");
	size_t i;

	for (i = 0; i < number; i++)
		if (strcmp(text_of(json_array_get(claims, i), "why"), why) == 0)
			return false;
	return *why;
}

static void write_claims(struct page *page, const json_t *result)
{
	static const char *const headings[] = { "Statement", "Found", "",
		NULL };
	const json_t *claims = json_object_get(result, "claims"), *claim;
	size_t i;

	if (!json_array_size(claims))
		return;
	page_table(page, headings);
	json_array_foreach(claims, i, claim)
	{
		page_row(page);
		page_cell(page, text_of(claim, "text"));
		page_cell(page, text_of(claim, "finding"));
		page_outcome(page,
		    strcmp(text_of(claim, "verdict"), "agrees") == 0 ? "agrees"
			: strcmp(text_of(claim, "verdict"), "differs") == 0
			? "differs"
			: "open");
	}
	page_table_end(page);
	json_array_foreach(claims, i, claim) if (is_new_reason(claims, i))
	    page_paragraph(page, "Where it differs.", text_of(claim, "why"));
}

static void write_left_out(struct page *page, const json_t *result)
{
	const json_t *all = json_object_get(result, "left_out"), *one;
	size_t i;

	json_array_foreach(all, i, one)
	    page_paragraph(page, "Left out.", json_string_value(one));
}

static void write_row(struct page *page, const json_t *row)
{
	char text[TEXT_SIZE];

	page_row(page);
	page_cell(page, text_of(row, "label"));
	page_number(page, number_of(row, "value"), "%.4g");
	page_cell(page, text_of(row, "unit"));
	page_number(page, number_of(row, "baseline_value"), "%.4g");
	page_number(page, number_of(row, "ratio"), "%.3g");
	snprintf(text, sizeof(text), "%s %s", text_of(row, "baseline"),
	    text_of(row, "rival_version"));
	page_cell(page, text);
	snprintf(text, sizeof(text), "%.4g, %.4g", number_of(row, "min"),
	    number_of(row, "max"));
	page_cell(page, text);
}

static void write_rows(struct page *page, const json_t *rows)
{
	static const char *const headings[] = { "What", "Result", "Unit",
		"Limit", "Ratio", "Compared with", "From, to", NULL };
	const json_t *row;
	size_t i;

	page_part(page, "All rows");
	page_table(page, headings);
	json_array_foreach(rows, i, row) write_row(page, row);
	page_table_end(page);
	page_part_end(page);
}

static void write_commands(struct page *page, const json_t *commands)
{
	const json_t *command;
	size_t i;

	page_part(page, "Commands");
	page_code(page, true);
	json_array_foreach(commands, i, command)
	    page_code_line(page, json_string_value(command));
	page_code(page, false);
	page_part_end(page);
}

/* The rows that a figure draws: a new reference. */
static json_t *drawn_rows(const struct figure *figure, const json_t *result)
{
	json_t *rows = json_object_get(result, "rows"), *drawn, *row;
	size_t i;

	if (!figure->rows)
		return json_incref(rows);
	drawn = json_array();
	json_array_foreach(rows, i, row) if (claim_selects(figure->rows, row))
	    json_array_append(drawn, row);
	return drawn;
}

/* Whether an experiment ran on another machine than most. */
static bool is_other_host(const struct story *story, const json_t *result)
{
	const json_t *host = json_object_get(result, "host");

	return strcmp(text_of(host, "name"), text_of(story->host, "name")) ||
	    strcmp(text_of(host, "cpu"), text_of(story->host, "cpu"));
}

/* The names of an experiment's baselines: "Dashed: raw, raw-routed." */
static void caption_of(const struct story *story, const struct chapter *chapter,
    const struct figure *figure, char *text, size_t size)
{
	struct standing standings[4];
	json_t *rows = drawn_rows(figure, chapter->result);
	uint32_t i, n = standings_of(chapter->experiment, rows, standings, 4);

	/* Their texts are those of rows that the result keeps. */
	json_decref(rows);
	snprintf(text, size, "%s.", chapter->experiment->title);
	if (figure != &chapter->experiment->figure)
		snprintf(text, size, "%s: %s.", chapter->experiment->title,
		    figure->y_title);
	if (is_other_host(story, chapter->result))
		snprintf(text + strlen(text), size - strlen(text), " On %s.",
		    text_of(json_object_get(chapter->result, "host"), "name"));
	if (strcmp(figure->y, "value") != 0)
		return;
	for (i = 0; i < n; i++)
		snprintf(text + strlen(text), size - strlen(text), "%s%s",
		    i ? ", " : " Dashed: ", standings[i].baseline);
	if (n)
		snprintf(text + strlen(text), size - strlen(text), ".");
}

/* Name the machine of an experiment if the others ran on another one. */
static void write_other_host(
    struct page *page, const struct story *story, const json_t *result)
{
	const json_t *host = json_object_get(result, "host");
	char text[TEXT_SIZE];

	if (!is_other_host(story, result))
		return;
	snprintf(text, sizeof(text), "%s: %s, %.0f processors.",
	    text_of(host, "name"), text_of(host, "cpu"),
	    number_of(host, "cores"));
	page_paragraph(page, "Another machine.", text);
}

static void write_chapter(
    struct page *page, const struct story *story, const struct chapter *chapter)
{
	const json_t *result = chapter->result;
	const json_t *rows = json_object_get(result, "rows");
	char text[TEXT_SIZE];
	uint32_t i;

	snprintf(text, sizeof(text), "%s: %s", chapter->experiment->id,
	    text_of(result, "title"));
	page_heading(page, 2, chapter->experiment->name, text);
	if (*text_of(result, "paper"))
		page_paragraph(page, "Paper.", text_of(result, "paper"));
	page_paragraph(page, "Here.", text_of(result, "here"));
	write_other_host(page, story, result);
	if (*text_of(result, "skipped")) {
		page_paragraph(page, "Skipped:", text_of(result, "skipped"));
		return;
	}
	if (!results_verified(result))
		page_paragraph(page, "Failed.",
		    "A command failed, or the sums of sent and received tuples "
		    "differ.");
	write_claims(page, result);
	write_left_out(page, result);
	for (i = 0; i < MAX_FIGURES; i++) {
		if (!chapter->svgs[i])
			continue;
		caption_of(story, chapter,
		    experiment_figure(chapter->experiment, i), text,
		    sizeof(text));
		page_drawing(
		    page, chapter->svgs[i], chapter->file_names[i], text);
	}
	write_rows(page, rows);
	write_commands(page, json_object_get(result, "commands"));
}

void story_write(struct page *page, const struct story *story)
{
	uint32_t i;

	write_host(page, story);
	write_overview(page, story);
	write_standings(page, story);
	for (i = 0; i < story->n; i++)
		write_chapter(page, story, &story->chapters[i]);
	write_method(page);
}
