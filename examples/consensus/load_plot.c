/* SPDX-License-Identifier: Apache-2.0 */
/* Drawings by gnuplot, which is started for each one; see load_report.h. */
#include "load_report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../common/children.h"
#include "../../common/complain.h"
#include "../../common/memory_file.h"

extern char **environ;

static bool can_run(const char *program)
{
	const char *path = getenv("PATH");
	char *copy = strdup(path ? path : "/usr/bin:/bin"), *rest = copy, *dir;
	char file[4096];
	bool found = false;

	while (copy && !found && (dir = strsep(&rest, ":"))) {
		snprintf(file, sizeof(file), "%s/%s", dir, program);
		found = access(file, X_OK) == 0;
	}
	free(copy);
	return found;
}

int load_files_open(struct load_files *files, const char *csv, const char *plot)
{
	*files = (struct load_files){ { .fd = -1 }, { .fd = -1 } };
	if (plot && !can_run("gnuplot"))
		return complain("%s cannot be drawn: there is no gnuplot "
				"(Debian: gnuplot-nox)",
		    plot);
	if ((!csv || !result_file_open(&files->csv, "--csv", csv, NULL, 0)) &&
	    (!plot || !result_file_open(&files->plot, "--plot", plot, NULL, 0)))
		return 0;
	load_files_close(files);
	return -1;
}

void load_files_close(struct load_files *files)
{
	result_file_close(&files->csv, false);
	result_file_close(&files->plot, false);
}

/* 0, or an errno value. */
static int start_gnuplot(struct plot *plot, int input)
{
	char *argv[] = { (char *)"gnuplot", NULL };
	posix_spawn_file_actions_t actions;
	int err;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(
	    &actions, fileno(plot->picture), STDOUT_FILENO);
	err = posix_spawnp(
	    &plot->gnuplot, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return err;
}

/* 0, or an errno value. */
static int open_streams(struct plot *plot, int picture, const int ends[2])
{
	int err = ENOMEM;

	plot->picture = fdopen(picture, "r");
	plot->commands = fdopen(ends[1], "w");
	if (plot->picture && plot->commands)
		err = start_gnuplot(plot, ends[0]);
	close(ends[0]);
	if (!err)
		return 0;
	if (plot->picture)
		fclose(plot->picture);
	if (plot->commands)
		fclose(plot->commands);
	return err;
}

int plot_open(struct plot *plot, struct result_file *file, unsigned width,
    unsigned height)
{
	int picture = memory_file_open("picture", "a picture");
	int ends[2], err;

	if (picture < 0)
		return -1;
	*plot = (struct plot){ .file = file };
	children_keep_ends();
	err = pipe2(ends, O_CLOEXEC) ? errno
				     : open_streams(plot, picture, ends);
	if (err)
		return complain("%s is not drawn: cannot start gnuplot: %s",
		    file->name, strerror(err));
	/* If gnuplot ends early, waiting for it shows that. */
	plot->on_pipe = signal(SIGPIPE, SIG_IGN);
	fprintf(plot->commands,
	    "set terminal svg size %u,%u font 'sans,13' background 'white'\n"
	    "set grid back lc '#dddddd'\nset border 3 lc '#666666'\n"
	    "set tics nomirror\n",
	    width, height);
	return 0;
}

/* Check gnuplot's output. Returns whether it is a complete picture. */
static bool copy_picture(const struct plot *plot)
{
	bool whole = false;
	char *line = NULL;
	size_t size = 0;
	ssize_t n;

	rewind(plot->picture);
	while ((n = getline(&line, &size, plot->picture)) > 0) {
		fwrite(line, 1, (size_t)n, plot->file->stream);
		whole = whole || strncmp(line, "</svg>", 6) == 0;
	}
	free(line);
	return whole;
}

int plot_close(struct plot *plot)
{
	int status = 0, failed = fclose(plot->commands);
	pid_t ret;

	do
		ret = waitpid(plot->gnuplot, &status, 0);
	while (ret < 0 && errno == EINTR);
	signal(SIGPIPE, plot->on_pipe);
	failed = failed || ret < 0 || status != 0 || !copy_picture(plot);
	fclose(plot->picture);
	if (failed)
		complain("%s is not drawn: gnuplot failed (see above)",
		    plot->file->name);
	return result_file_close(plot->file, !failed) || failed ? -1 : 0;
}

static double number(const json_t *result, const char *key)
{
	return json_number_value(json_object_get(result, key));
}

static bool same_line(const json_t *a, const json_t *b)
{
	return json_equal(
		   json_object_get(a, "store"), json_object_get(b, "store")) &&
	    json_equal(
		json_object_get(a, "workload"), json_object_get(b, "workload"));
}

/* Whether no earlier result is on the same line of the drawing. */
static bool is_first(const json_t *results, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (same_line(
			json_array_get(results, k), json_array_get(results, i)))
			return false;
	return true;
}

static void curve_data(FILE *plot, const json_t *results, size_t first)
{
	const json_t *one = json_array_get(results, first), *other, *latency;
	size_t i;

	fprintf(plot, "$line%zu << END\n", first);
	for (i = first; i < json_array_size(results); i++) {
		other = json_array_get(results, i);
		latency = json_object_get(other, "latency_us");
		if (same_line(one, other))
			fprintf(plot, "%.6g %.6g %.6g\n",
			    number(other, "throughput") / 1e3,
			    number(latency, "p50"), number(latency, "p99"));
	}
	fprintf(plot, "END\n");
}

int load_report_plot(struct result_file *file, const json_t *results)
{
	const char *comma = "plot ";
	unsigned color = 0;
	struct plot drawing;
	FILE *plot;
	size_t i;

	if (plot_open(&drawing, file, 900, 560))
		return -1;
	plot = drawing.commands;
	fprintf(plot,
	    "set xlabel 'requests ended, thousands a second'\n"
	    "set ylabel 'latency, us'\nset logscale y\nset format y "
	    "'%%.0f'\nset xrange [0:*]\n"
	    "set key outside right top Left reverse\n");
	for (i = 0; i < json_array_size(results); i++)
		if (is_first(results, i))
			curve_data(plot, results, i);
	for (i = 0; i < json_array_size(results); i++) {
		const json_t *one = json_array_get(results, i);

		if (!is_first(results, i))
			continue;
		color++;
		fprintf(plot,
		    "%s$line%zu using 1:2 with linespoints lw 2 pt 7 ps 0.6 "
		    "lc %u title '%s, %s: median', "
		    "$line%zu using 1:3 with linespoints dt 2 pt 6 ps 0.6 "
		    "lc %u title '99th percentile'",
		    comma, i, color,
		    json_string_value(json_object_get(one, "store")),
		    json_string_value(json_object_get(one, "workload")), i,
		    color);
		comma = ", ";
	}
	fprintf(plot, "\n");
	return plot_close(&drawing);
}
