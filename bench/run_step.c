/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command of an experiment: a child that writes its JSON object to a file.
 * It is this program, or radix_join from the same folder, whose object becomes
 * a row.
 */
#include "run_step.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../common/children.h"
#include "../common/complain.h"
#include "bench.h"
#include "report.h"
#include "runner.h"

#define MAX_WORDS 64

void step_command(const struct experiment_step *step,
    const struct rounds *rounds, char *text, size_t size)
{
	const char *own = step->command;
	int name = (int)strcspn(own, " ");

	if (step->join_baseline)
		snprintf(text, size, "radix_join %s --json", own);
	else if (strncmp(own, "memory", (size_t)name) == 0)
		snprintf(text, size, "dfi-bench %s --json", own);
	else
		snprintf(text, size,
		    "dfi-bench %.*s --repeat %u --seconds %s%s%s --json", name,
		    own, rounds->repeat, rounds->seconds,
		    rounds->verify ? " --verify" : "", own + name);
}

/* The file of radix_join. false: it is not beside this program. */
static bool find_join(char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return false;
	self[n] = '\0';
	n = snprintf(path, size, "%s/radix_join", dirname(self));
	return n > 0 && (size_t)n < size && access(path, X_OK) == 0;
}

bool step_lacks(const struct experiment_step *step, char *why, size_t size)
{
	char path[PATH_MAX];
	int32_t cpus[MAX_CPUS];
	uint32_t n = usable_cpus(cpus, MAX_CPUS);

	if (n < step->cpus) {
		snprintf(why, size, "%s needs %u processors; there %s %u",
		    step->series, step->cpus, n == 1 ? "is" : "are", n);
		return true;
	}
	if (!DFI_BENCH_OFI && strncmp(step->command, "tcp", 3) == 0) {
		snprintf(why, size,
		    "this build lacks the transport on libfabric (DFI_OFI)");
		return true;
	}
	if (step->join_baseline && !find_join(path, sizeof(path))) {
		snprintf(why, size,
		    "the program radix_join is not in the folder of "
		    "dfi-bench");
		return true;
	}
	return false;
}

/* What the child runs. */
struct job_of_child {
	const struct experiment_step *step;
	char command[COMMAND_SIZE];
	FILE *out;
};

static int run_child(void *arg)
{
	struct job_of_child *job = arg;
	char *words[MAX_WORDS + 1] = { NULL }, *rest, path[PATH_MAX];
	int n = 0;

	words[n] = strtok_r(job->command, " ", &rest);
	while (n < MAX_WORDS - 1 && words[n])
		words[++n] = strtok_r(NULL, " ", &rest);
	if (dup2(fileno(job->out), STDOUT_FILENO) < 0)
		return 1;
	if (!job->step->join_baseline)
		return bench_command(n - 1, words + 1);
	if (!find_join(path, sizeof(path)))
		return 1;
	execv(path, words);
	complain("cannot start %s: %s", path, strerror(errno));
	return 1;
}

/*
 * Wait for the child. It looks only twice a second, as it would take time from
 * what is measured.
 */
static bool wait_for_child(struct children *children, void (*tick)(void))
{
	static const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };
	uint32_t i;
	int ret;

	for (i = 0;; i++) {
		ret = children_check(children);
		if (ret || !children->n_running)
			break;
		if (i % 25 == 0)
			tick();
		nanosleep(&pause, NULL);
	}
	return !children_end(children, -1) && !ret;
}

/* Run a command. Returns its JSON object, or NULL after a complaint. */
static json_t *run_command(const struct experiment_step *step,
    const struct rounds *rounds, void (*tick)(void), bool *succeeded)
{
	struct job_of_child job = { .step = step, .out = tmpfile() };
	struct children children = { 0 };
	json_t *object;
	json_error_t error;

	*succeeded = false;
	if (!job.out) {
		complain("cannot make a temporary file: %s", strerror(errno));
		return NULL;
	}
	step_command(step, rounds, job.command, sizeof(job.command));
	if (!children_fork(&children, step->series, run_child, &job))
		*succeeded = wait_for_child(&children, tick);
	rewind(job.out);
	object = json_loadf(job.out, 0, &error);
	if (!object && *succeeded)
		complain(
		    "%s: its output is no JSON: %s", job.command, error.text);
	fclose(job.out);
	return object;
}

/* Run radix_join once. Returns its object; NULL after a failure. */
static json_t *run_join(const struct experiment_step *step,
    const struct rounds *rounds, void (*tick)(void), double *seconds)
{
	bool succeeded;
	json_t *object = run_command(step, rounds, tick, &succeeded);
	json_t *time = json_object_get(object, "seconds");

	*seconds = json_number_value(time);
	if (succeeded && json_is_number(time) &&
	    json_is_true(json_object_get(object, "verified")))
		return object;
	json_decref(object);
	return NULL;
}

/* Run radix_join and its baseline in turns; the row has their medians. */
static bool run_joins(const struct experiment_step *step,
    const struct rounds *rounds, void (*tick)(void), json_t *rows)
{
	const struct experiment_step other = {
		.series = step->baseline,
		.command = step->join_baseline,
		.join_baseline = step->join_baseline,
	};
	double values[STATS_MAX_VALUES] = { 0 }, others[STATS_MAX_VALUES];
	json_t *row = NULL, *baseline = NULL;
	struct summary summary;
	uint32_t i;

	for (i = 0; i < rounds->repeat; i++) {
		json_decref(row);
		json_decref(baseline);
		row = run_join(step, rounds, tick, &values[i]);
		baseline = run_join(&other, rounds, tick, &others[i]);
		if (!row || !baseline)
			break;
	}
	json_decref(baseline);
	if (i == rounds->repeat) {
		summary = stats_summary(values, rounds->repeat);
		json_object_del(row, "workers");
		json_object_set_new(row, "experiment", json_string("join"));
		json_object_set_new(row, "series", json_string(step->series));
		report_result(row, "s", &summary, rounds->repeat, true);
		report_baseline(
		    row, step->baseline, values, others, rounds->repeat);
		json_array_append(rows, row);
	}
	json_decref(row);
	return i == rounds->repeat;
}

bool step_run(const struct experiment_step *step, const struct rounds *rounds,
    void (*tick)(void), json_t *rows, json_t **host)
{
	json_t *object, *row, *series = json_string(step->series);
	bool succeeded;
	size_t i;

	if (step->join_baseline) {
		json_decref(series);
		return run_joins(step, rounds, tick, rows);
	}
	object = run_command(step, rounds, tick, &succeeded);
	json_array_foreach(json_object_get(object, "rows"), i, row)
	{
		json_object_set(row, "series", series);
		json_array_append(rows, row);
	}
	if (!*host)
		*host = json_incref(json_object_get(object, "host"));
	json_decref(series);
	json_decref(object);
	return succeeded;
}
