/* SPDX-License-Identifier: Apache-2.0 */
/* Drawings by gnuplot, which is started for each; see load_report.h. */
#include "load_report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../common/complain.h"

/* What SIGPIPE does while nothing is drawn. */
static void (*on_pipe)(int);

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

/* As a string of gnuplot. */
static void quote(FILE *plot, const char *text)
{
	fputc('\'', plot);
	for (; *text; text++) {
		if (*text == '\'')
			fputc('\'', plot);
		fputc(*text, plot);
	}
	fputc('\'', plot);
}

/* Of a file that is not there yet, an empty one is left. */
static int check_file(const char *file)
{
	int fd = -1, ret = access(file, W_OK);

	if (ret && errno == ENOENT) {
		fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		ret = fd < 0 ? -1 : 0;
	}
	if (ret)
		return complain("cannot write %s: %s", file, strerror(errno));
	if (fd >= 0)
		close(fd);
	return 0;
}

int load_report_check(const char *csv, const char *plot)
{
	if ((csv && check_file(csv)) || (plot && check_file(plot)))
		return -1;
	if (plot && !can_run("gnuplot"))
		return complain("%s cannot be drawn: there is no gnuplot "
				"(Debian: gnuplot-nox)",
		    plot);
	return 0;
}

FILE *plot_open(const char *file, unsigned width, unsigned height)
{
	FILE *plot;

	plot = popen("gnuplot", "we");
	if (!plot) {
		complain("%s is not drawn: cannot start gnuplot: %s", file,
		    strerror(errno));
		return NULL;
	}
	/* If gnuplot ends early, that is seen when it is waited for. */
	on_pipe = signal(SIGPIPE, SIG_IGN);
	fprintf(plot,
	    "set terminal svg size %u,%u font 'sans,13' background "
	    "'white'\nset output ",
	    width, height);
	quote(plot, file);
	fprintf(plot,
	    "\nset grid back lc '#dddddd'\nset border 3 lc '#666666'\n"
	    "set tics nomirror\n");
	return plot;
}

int plot_close(FILE *plot, const char *file)
{
	int status = pclose(plot);

	signal(SIGPIPE, on_pipe);
	if (status != 0)
		return complain(
		    "%s is not drawn: gnuplot failed (see above)", file);
	return 0;
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

int load_report_plot(const char *file, const json_t *results)
{
	FILE *plot = plot_open(file, 900, 560);
	const char *comma = "plot ";
	unsigned color = 0;
	size_t i;

	if (!plot)
		return -1;
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
	return plot_close(plot, file);
}
