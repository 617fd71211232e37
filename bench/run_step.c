/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command of an experiment: a child that writes its JSON object to a file.
 * It is this program, or a join or a load on the replicated store from the same
 * folder, whose objects become rows.
 */
#include "run_step.h"

#include <errno.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../common/children.h"
#include "../common/complain.h"
#include "bench.h"
#include "report.h"
#include "rival.h"
#include "runner.h"
#include "store_rows.h"
#include "values.h"

#define MAX_WORDS 64

/* A store needs some rounds' time until its latencies are those of its load. */
static double store_seconds(const struct rounds *rounds)
{
	double seconds = 0;

	(void)parse_duration(rounds->seconds, &seconds);
	return fmax(0.1, 5 * seconds);
}

void step_command(const struct experiment_step *step,
    const struct rounds *rounds, char *text, size_t size)
{
	const char *own = step->command;
	int name = (int)strcspn(own, " ");

	if (step->join_baseline)
		snprintf(text, size, "radix_join %s --json", own);
	else if (step->store)
		snprintf(text, size,
		    "dfi-kv-run %s --warm-up 0.2 --seconds %.9g --json", own,
		    store_seconds(rounds));
	else if (strncmp(own, "memory", (size_t)name) == 0)
		snprintf(text, size, "dfi-bench %s --json", own);
	else
		snprintf(text, size,
		    "%s%sdfi-bench %.*s --repeat %u --seconds %s%s%s --json",
		    step->setting ? step->setting : "",
		    step->setting ? " " : "", name, own, rounds->repeat,
		    rounds->seconds, rounds->verify ? " --verify" : "",
		    own + name);
}

void step_baseline(const struct experiment_step *step, char *text, size_t size)
{
	if (!step->mpi)
		snprintf(
		    text, size, "radix_join %s --json", step->join_baseline);
	else
		snprintf(text, size, "mpirun.%s %s -n 2 radix_join_%s %s",
		    step->mpi,
		    strcmp(step->mpi, "openmpi") == 0
			? "--oversubscribe --bind-to none"
			: "-bind-to none",
		    step->mpi, step->join_baseline);
}

/* The file of a program. false: it is not beside this one. */
static bool find_program(const char *name, char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return false;
	self[n] = '\0';
	n = snprintf(path, size, "%s/%s", dirname(self), name);
	return n > 0 && (size_t)n < size && access(path, X_OK) == 0;
}

static bool lacks_program(const char *name, char *why, size_t size)
{
	char path[PATH_MAX];

	if (find_program(name, path, sizeof(path)))
		return false;
	snprintf(why, size, "the program %s is not in the folder of dfi-bench",
	    name);
	return true;
}

static bool lacks_joins(
    const struct experiment_step *step, char *why, size_t size)
{
	char name[32], text[64], line[PATH_MAX];
	const char *const shell[] = { "sh", "-c", text, NULL };

	if (lacks_program("radix_join", why, size))
		return true;
	if (!step->mpi)
		return false;
	snprintf(name, sizeof(name), "radix_join_%s", step->mpi);
	if (lacks_program(name, why, size))
		return true;
	snprintf(text, sizeof(text), "command -v mpirun.%s", step->mpi);
	if (rival_first_line(shell, line, sizeof(line)))
		return false;
	snprintf(why, size, "mpirun.%s is not installed", step->mpi);
	return true;
}

/* A device of this host, and the way to its connections. */
static bool lacks_device(char *why, size_t size)
{
	glob_t devices = { 0 };
	bool found = glob("/sys/class/infiniband/*", 0, NULL, &devices) == 0;

	globfree(&devices);
	if (!DFI_BENCH_VERBS)
		snprintf(why, size,
		    "this build lacks the verbs transport (DFI_VERBS)");
	else if (!found || access("/dev/infiniband/rdma_cm", R_OK | W_OK) != 0)
		snprintf(why, size, "there is no RDMA device");
	else
		return false;
	return true;
}

bool step_lacks(const struct experiment_step *step, char *why, size_t size)
{
	int32_t cpus[MAX_CPUS];
	uint32_t n = usable_cpus(cpus, MAX_CPUS);

	if (n < step->cpus) {
		snprintf(why, size, "%s needs %u processors; there %s %u",
		    step->series, step->cpus, n == 1 ? "is" : "are", n);
		return true;
	}
	if (!DFI_BENCH_OFI &&
	    (strncmp(step->command, "tcp", 3) == 0 ||
		strstr(step->command, "--transport ofi"))) {
		snprintf(why, size,
		    "this build lacks the transport on libfabric (DFI_OFI)");
		return true;
	}
	if (step->store)
		return lacks_program("dfi-kv-run", why, size) ||
		    lacks_program("dfi-kv", why, size);
	if (strstr(step->command, "--transport verbs") &&
	    lacks_device(why, size))
		return true;
	return step->join_baseline && lacks_joins(step, why, size);
}

/* What the child runs. */
struct job_of_child {
	char command[COMMAND_SIZE];
	FILE *out;
};

static int run_child(void *arg)
{
	struct job_of_child *job = arg;
	char *words[MAX_WORDS + 1] = { NULL }, *rest, path[PATH_MAX];
	int n = 0, i;

	words[n] = strtok_r(job->command, " ", &rest);
	while (n < MAX_WORDS - 1 && words[n])
		words[++n] = strtok_r(NULL, " ", &rest);
	if (dup2(fileno(job->out), STDOUT_FILENO) < 0)
		return 1;
	if (strncmp(words[0], "DFI_", 4) == 0 && putenv(words[0]) == 0) {
		n--;
		memmove(words, words + 1, (size_t)(n + 1) * sizeof(*words));
	}
	if (strcmp(words[0], "dfi-bench") == 0)
		return bench_command(n - 1, words + 1);
	if (!freopen("/dev/null", "r", stdin))
		return 1;
	/* Open MPI refuses root otherwise. */
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", true);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", true);
	for (i = 0; i < n; i++)
		if ((strncmp(words[i], "radix_join", 10) == 0 ||
			strcmp(words[i], "dfi-kv-run") == 0) &&
		    find_program(words[i], path, sizeof(path)))
			words[i] = path;
	execvp(words[0], words);
	complain("cannot start %s: %s", words[0], strerror(errno));
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
static json_t *run_command(const char *series, const char *command,
    void (*tick)(void), bool *succeeded)
{
	struct job_of_child job = { .out = tmpfile() };
	struct children children = { 0 };
	json_t *object;
	json_error_t error;

	*succeeded = false;
	if (!job.out) {
		complain("cannot make a temporary file: %s", strerror(errno));
		return NULL;
	}
	snprintf(job.command, sizeof(job.command), "%s", command);
	if (!children_fork(&children, series, run_child, &job))
		*succeeded = wait_for_child(&children, tick);
	rewind(job.out);
	object = json_loadf(job.out, 0, &error);
	if (!object && *succeeded)
		complain("%s: its output is no JSON: %s", command, error.text);
	fclose(job.out);
	return object;
}

/* Run a join once. Returns its object; NULL after a failure. */
static json_t *run_join(const char *series, const char *command,
    void (*tick)(void), double *seconds)
{
	bool succeeded;
	json_t *object = run_command(series, command, tick, &succeeded);
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
	char command[COMMAND_SIZE], other[COMMAND_SIZE];
	double values[STATS_MAX_VALUES] = { 0 }, others[STATS_MAX_VALUES];
	json_t *row = NULL, *baseline = NULL;
	struct summary summary;
	uint32_t i;

	step_command(step, rounds, command, sizeof(command));
	step_baseline(step, other, sizeof(other));
	for (i = 0; i < rounds->repeat; i++) {
		json_decref(row);
		json_decref(baseline);
		row = run_join(step->series, command, tick, &values[i]);
		baseline = run_join(step->baseline, other, tick, &others[i]);
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

/* Run loads on the store; rows have the medians of their runs. */
static bool run_stores(const struct experiment_step *step,
    const struct rounds *rounds, void (*tick)(void), json_t *rows)
{
	json_t *runs = json_array(), *run;
	char command[COMMAND_SIZE];
	bool succeeded = true;
	uint32_t i;

	step_command(step, rounds, command, sizeof(command));
	for (i = 0; i < rounds->repeat && succeeded; i++) {
		run = run_command(step->series, command, tick, &succeeded);
		json_array_append_new(runs, run ? run : json_null());
	}
	succeeded = succeeded && store_rows(step->series, runs, rows);
	json_decref(runs);
	return succeeded;
}

bool step_run(const struct experiment_step *step, const struct rounds *rounds,
    void (*tick)(void), json_t *rows, json_t **host)
{
	json_t *object, *row, *series = json_string(step->series);
	char command[COMMAND_SIZE];
	bool succeeded;
	size_t i;

	if (step->join_baseline) {
		json_decref(series);
		return run_joins(step, rounds, tick, rows);
	}
	if (step->store) {
		json_decref(series);
		return run_stores(step, rounds, tick, rows);
	}
	step_command(step, rounds, command, sizeof(command));
	object = run_command(step->series, command, tick, &succeeded);
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
