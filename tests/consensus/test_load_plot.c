/* SPDX-License-Identifier: Apache-2.0 */
/* Drawings, by programs that stand in for gnuplot. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/consensus/load_report.h"

#define FILE_SIZE 4096

static char folder[] = "/tmp/test_load_plot.XXXXXX";

/* A folder that is the working directory and all of PATH. */
static void set_up(void)
{
	cr_assert_not_null(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
	setenv("PATH", folder, 1);
}

static void tear_down(void)
{
	unlink("gnuplot");
	unlink("commands");
	unlink("it's.svg");
	unlink("loads.csv");
	rmdir(folder);
}

TestSuite(load_plot, .init = set_up, .fini = tear_down);

static void make_gnuplot(const char *script)
{
	FILE *file = fopen("gnuplot", "w");

	cr_assert_not_null(file);
	fprintf(file, "#!/bin/sh\n%s\n", script);
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(chmod("gnuplot", 0700), 0);
}

static json_t *two_loads(void)
{
	return json_pack("[{s:s, s:s, s:f, s:{s:f, s:f}},"
			 " {s:s, s:s, s:f, s:{s:f, s:f}}]",
	    "store", "paxos", "workload", "a", "throughput", 1000.,
	    "latency_us", "p50", 10., "p99", 20., "store", "paxos", "workload",
	    "a", "throughput", 2000., "latency_us", "p50", 30., "p99", 40.);
}

static int draw(void)
{
	json_t *loads = two_loads();
	int ret = load_report_plot("it's.svg", loads);

	json_decref(loads);
	return ret;
}

Test(load_plot, names_the_file_and_has_a_line_for_each_store)
{
	char text[FILE_SIZE] = "";
	FILE *file;

	make_gnuplot("while read -r line; do echo \"$line\"; done > commands");
	cr_assert_eq(draw(), 0);
	file = fopen("commands", "r");
	cr_assert_not_null(file);
	cr_assert_gt(fread(text, 1, sizeof(text) - 1, file), 0);
	fclose(file);
	cr_assert(strstr(text, "set output 'it''s.svg'\n"), "%s", text);
	cr_assert(
	    strstr(text, "$line0 << END\n1 10 20\n2 30 40\nEND\n"), "%s", text);
	cr_assert_not(strstr(text, "$line1"), "%s", text);
}

/* SIGPIPE would end this process. */
Test(load_plot, fails_when_gnuplot_ends_early)
{
	make_gnuplot("exit 3");
	cr_assert_eq(draw(), -1);
}

Test(load_plot, leaves_sigpipe_as_it_was)
{
	make_gnuplot("exit 3");
	signal(SIGPIPE, SIG_IGN);
	draw();
	cr_assert_eq(signal(SIGPIPE, SIG_DFL), SIG_IGN);
	draw();
	cr_assert_eq(signal(SIGPIPE, SIG_DFL), SIG_DFL);
}

Test(load_plot, is_refused_before_loads_where_it_would_fail)
{
	cr_assert_eq(load_report_check(NULL, "it's.svg"), -1, "no gnuplot");
	make_gnuplot("exit 0");
	cr_assert_eq(load_report_check(NULL, "it's.svg"), 0);
	cr_assert_eq(load_report_check(NULL, "none/it's.svg"), -1);
	cr_assert_eq(load_report_check("none/loads.csv", NULL), -1);
	cr_assert_eq(load_report_check("loads.csv", "it's.svg"), 0);
	cr_assert_eq(load_report_check(NULL, NULL), 0);
}
