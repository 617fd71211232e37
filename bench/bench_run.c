/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-bench run: experiments by name, a file for each. A file is written when
 * its experiment has ended, under its name at once, so a run that was stopped
 * goes on with the next experiment.
 */
#include <dfi/dfi.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../common/complain.h"
#include "../common/output.h"
#include "bench.h"
#include "board.h"
#include "claims.h"
#include "host.h"
#include "options.h"
#include "results.h"
#include "run_step.h"

/* What a terminal shows while a run goes on. */
static struct {
	uint64_t begin_ns;
	double estimated;   /* seconds, of all that runs */
	double done;        /* of these, the part that has ended */
	uint32_t number, n; /* of the experiment, and of all that were chosen */
	char what[80];
	bool shown;
} progress;

/* The time that is left, from the estimates and how true they were so far. */
static double seconds_left(double elapsed)
{
	double left = progress.estimated - progress.done;

	if (progress.done > 10)
		left *= elapsed / progress.done;
	return left;
}

static void tick(void)
{
	double elapsed = (double)(now_ns() - progress.begin_ns) * 1e-9, left;
	char text[160];

	if (elapsed < 2 || !isatty(STDERR_FILENO))
		return;
	left = seconds_left(elapsed);
	snprintf(text, sizeof(text), "%u of %u, %.0f %s left: %s",
	    progress.number, progress.n, left < 90 ? left : left / 60,
	    left < 90 ? "s" : "min", progress.what);
	fprintf(stderr, "\r%-78.78s", text);
	progress.shown = true;
}

/* Make room for a line of output where the progress stands. */
static void clear_progress(void)
{
	if (progress.shown)
		fprintf(stderr, "\r%78s\r", "");
	progress.shown = false;
}

static double estimate(
    const struct experiment *experiment, const struct rounds *rounds)
{
	const struct experiment_step *step;
	char why[128];
	double seconds = 0;

	for (step = experiment->steps;
	     step < experiment->steps + MAX_STEPS && step->command; step++)
		if (!step_lacks(step, why, sizeof(why)))
			seconds += step->seconds;
	return seconds * rounds->repeat / RUN_REPEAT;
}

/* Whether no step of an experiment can run on this machine. */
static bool is_impossible(const struct experiment *experiment)
{
	const struct experiment_step *step;
	char why[128];

	for (step = experiment->steps;
	     step < experiment->steps + MAX_STEPS && step->command; step++)
		if (!step_lacks(step, why, sizeof(why)))
			return false;
	return true;
}

/* Whether the file of an experiment has what a run would do again. */
static bool is_finished(const struct run_options *options,
    const struct experiment *experiment, json_t **old)
{
	json_t *commands;
	bool finished;

	*old = results_load(options->out, experiment, NULL);
	/* Another machine, whose file was copied here, could run it. */
	if (*old && results_verified(*old) && is_impossible(experiment))
		return true;
	commands = results_commands(experiment, &options->rounds);
	finished = *old && !options->again && results_verified(*old) &&
	    json_equal(json_object_get(*old, "commands"), commands) &&
	    json_is_string(json_object_get(*old, "version")) &&
	    strcmp(json_string_value(json_object_get(*old, "version")),
		dfi_version()) == 0;
	json_decref(commands);
	return finished;
}

/*
 * Give a finished experiment the statements that the table has now, found in
 * its rows. false after a complaint.
 */
static bool refresh(const struct run_options *options,
    const struct experiment *experiment, json_t *old)
{
	json_t *before = json_deep_copy(old);
	bool written = true;

	results_describe(old, experiment);
	if (!json_equal(before, old))
		written = results_store(options->out, experiment, old);
	json_decref(before);
	return written;
}

/* Print the outcome of an experiment that is in the folder now. */
static void print_line(const json_t *result)
{
	const char *skipped = json_string_value(
	    json_object_get(result, "skipped"));
	const char *verdict = json_string_value(
	    json_object_get(result, "verdict"));

	clear_progress();
	if (!skipped && !results_verified(result))
		verdict = "FAILED";
	printf("%-4s %-20s %s\n",
	    json_string_value(json_object_get(result, "experiment")),
	    json_string_value(json_object_get(result, "name")),
	    skipped ? "skipped" : verdict);
	if (skipped)
		report_wrapped("", skipped);
	output_flush();
}

/* Run all steps that the machine can run. false: a step failed. */
static bool run_steps(const struct experiment *experiment,
    const struct rounds *rounds, json_t *rows, json_t **host, char *skipped,
    size_t size)
{
	const struct experiment_step *step;
	char why[128];
	bool succeeded = true, any = false;

	for (step = experiment->steps;
	     step < experiment->steps + MAX_STEPS && step->command; step++) {
		if (step_lacks(step, why, sizeof(why))) {
			if (!*skipped)
				snprintf(skipped, size, "%s", why);
			continue;
		}
		any = true;
		snprintf(progress.what, sizeof(progress.what), "%s %s, %s",
		    experiment->id, experiment->name, step->series);
		succeeded = step_run(step, rounds, tick, rows, host) &&
		    succeeded;
		progress.done += (double)step->seconds * rounds->repeat /
		    RUN_REPEAT;
	}
	if (any)
		*skipped = '\0';
	return succeeded;
}

/* Run one experiment and write its file. false after a failure. */
static bool run_experiment(
    const struct run_options *options, const struct experiment *experiment)
{
	json_t *rows = json_array(), *host = NULL, *result;
	char skipped[256] = "";
	uint64_t begin = now_ns();
	bool succeeded = true, written;

	if (experiment->skipped)
		snprintf(skipped, sizeof(skipped), "%s", experiment->skipped);
	else
		succeeded = run_steps(experiment, &options->rounds, rows, &host,
		    skipped, sizeof(skipped));
	if (!host)
		host = host_describe(1);
	result = results_make(experiment, &options->rounds, rows, host);
	json_object_set_new(result, "seconds",
	    report_number((double)(now_ns() - begin) * 1e-9));
	json_object_set_new(result, "succeeded", json_boolean(succeeded));
	if (*skipped)
		json_object_set_new(result, "skipped", json_string(skipped));
	written = results_store(options->out, experiment, result);
	print_line(result);
	json_decref(result);
	return succeeded && written;
}

/* The experiments that a run chooses. */
static const struct experiment *chosen(
    const struct run_options *options, uint32_t i)
{
	return options->all ? experiment_at(i) : options->chosen[i];
}

static uint32_t count_chosen(const struct run_options *options)
{
	return options->all ? experiments_count() : options->n_chosen;
}

static bool make_folder(const char *out)
{
	struct stat about;

	if (mkdir(out, 0777) == 0)
		return true;
	if (errno == EEXIST && stat(out, &about) == 0 && S_ISDIR(about.st_mode))
		return true;
	complain("--out: cannot make the folder '%s': %s", out,
	    errno == EEXIST ? "a file has this name" : strerror(errno));
	return false;
}

int bench_run(int argc, char **argv)
{
	static struct run_options options;
	const struct experiment *experiment;
	json_t *old;
	bool succeeded = true;
	uint32_t i;

	run_options_parse(argc, argv, &options);
	if (!make_folder(options.out))
		return 1;
	for (i = 0; i < count_chosen(&options); i++) {
		experiment = chosen(&options, i);
		if (!is_finished(&options, experiment, &old))
			progress.estimated += estimate(
			    experiment, &options.rounds);
		json_decref(old);
	}
	printf("# about %.1f min; results go to %s, --again repeats those that "
	       "are there\n",
	    progress.estimated / 60, options.out);
	output_flush();
	progress.begin_ns = now_ns();
	progress.n = count_chosen(&options);
	for (i = 0; i < progress.n; i++) {
		experiment = chosen(&options, i);
		progress.number = i + 1;
		if (is_finished(&options, experiment, &old)) {
			succeeded = refresh(&options, experiment, old) &&
			    succeeded;
			print_line(old);
		} else {
			succeeded = run_experiment(&options, experiment) &&
			    succeeded;
		}
		json_decref(old);
	}
	printf("# %.0f s; dfi-bench report %s makes a page of it\n",
	    (double)(now_ns() - progress.begin_ns) * 1e-9, options.out);
	return succeeded ? 0 : 1;
}
