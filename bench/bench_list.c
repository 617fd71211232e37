/* SPDX-License-Identifier: Apache-2.0 */
/* dfi-bench list: the experiments in short, or all about some of them. */
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "../common/complain.h"
#include "bench.h"
#include "claims.h"
#include "options.h"

static void print_whole(const struct experiment *experiment)
{
	const struct rounds rounds = { .seconds = "0.1", .repeat = RUN_REPEAT };
	const struct claim *claim;
	const struct experiment_step *step;
	char text[COMMAND_SIZE];

	printf(
	    "%s %s: %s\n", experiment->id, experiment->name, experiment->title);
	if (experiment->paper)
		report_wrapped("  paper", experiment->paper);
	report_wrapped("  here", experiment->here);
	for (claim = experiment->claims;
	     claim < experiment->claims + MAX_CLAIMS && claim->text; claim++)
		report_wrapped("  checks", claim->text);
	for (step = experiment->steps;
	     step < experiment->steps + MAX_STEPS && step->command; step++) {
		step_command(step, &rounds, text, sizeof(text));
		report_wrapped("  runs", text);
		if (step->join_baseline) {
			step_baseline(step, text, sizeof(text));
			report_wrapped("  runs", text);
		}
		if (step_lacks(step, text, sizeof(text)))
			report_wrapped("  not here", text);
	}
	if (experiment->skipped)
		report_wrapped("  skipped", experiment->skipped);
	putchar('\n');
}

/* Why none of an experiment runs here, or NULL. */
static const char *why_skipped(
    const struct experiment *experiment, char *why, size_t size)
{
	const struct experiment_step *step;
	char others[128];

	if (experiment->skipped)
		return experiment->skipped;
	for (step = experiment->steps;
	     step < experiment->steps + MAX_STEPS && step->command; step++)
		if (!step_lacks(step, others, sizeof(others)))
			return NULL;
	step_lacks(experiment->steps, why, size);
	return why;
}

static void print_short(const struct experiment *experiment)
{
	char why[128];
	const char *skipped = why_skipped(experiment, why, sizeof(why));

	printf("%-4s %-20s %s\n", experiment->id, experiment->name,
	    experiment->title);
	if (skipped)
		report_wrapped("  skipped", skipped);
}

int bench_list(int argc, char **argv)
{
	const struct experiment *experiment;
	uint32_t i;
	int word;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		puts("Usage: dfi-bench list [NAME...]\n"
		     "Show the experiments that dfi-bench run knows; or all "
		     "about some of them.");
		return 0;
	}
	for (word = 1; word < argc; word++) {
		experiment = experiment_find(argv[word]);
		if (!experiment) {
			complain("there is no experiment '%s': dfi-bench list "
				 "shows all",
			    argv[word]);
			return EX_USAGE;
		}
		print_whole(experiment);
	}
	for (i = 0; argc < 2 && i < experiments_count(); i++)
		print_short(experiment_at(i));
	return 0;
}
