/* SPDX-License-Identifier: Apache-2.0 */
/* The files of results; programs stand in for gnuplot. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
TestSuite(load_csv, .init = set_up, .fini = tear_down);

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

static void put(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	cr_assert_not_null(file);
	fputs(text, file);
	cr_assert_eq(fclose(file), 0);
}

static const char *content(const char *name)
{
	static char text[FILE_SIZE];
	FILE *file = fopen(name, "r");
	size_t n;

	cr_assert_not_null(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

static int draw(void)
{
	json_t *loads = two_loads();
	struct load_files files;
	int ret;

	cr_assert_eq(load_files_open(&files, NULL, "it's.svg"), 0);
	ret = load_report_plot(&files.plot, loads);
	load_files_close(&files);
	json_decref(loads);
	return ret;
}

Test(load_plot, has_a_line_for_each_store_and_what_gnuplot_prints)
{
	const char *text;

	make_gnuplot("while read -r line; do echo \"$line\"; done > commands\n"
		     "echo '<svg>'; echo '</svg>'");
	cr_assert_eq(draw(), 0);
	text = content("commands");
	cr_assert(
	    strstr(text, "$line0 << END\n1 10 20\n2 30 40\nEND\n"), "%s", text);
	cr_assert_not(strstr(text, "$line1"), "%s", text);
	cr_assert_str_eq(content("it's.svg"), "<svg>\n</svg>\n");
}

/* gnuplot exits with 0 also if the disk is full and its plot is cut off. */
Test(load_plot, keeps_an_earlier_one_unless_it_is_whole)
{
	put("it's.svg", "earlier");
	make_gnuplot("while read -r line; do :; done; echo '<svg>'");
	cr_assert_eq(draw(), -1);
	make_gnuplot("while read -r line; do :; done; echo '</svg>'; exit 3");
	cr_assert_eq(draw(), -1);
	cr_assert_str_eq(content("it's.svg"), "earlier");
}

Test(load_plot, is_seen_to_end_where_sigchld_is_ignored)
{
	make_gnuplot("while read -r line; do :; done; echo '</svg>'");
	signal(SIGCHLD, SIG_IGN);
	cr_assert_eq(draw(), 0);
}

Test(load_csv, keeps_an_earlier_one_if_not_all_can_be_written)
{
	struct rlimit limit = { 1, 1 };
	json_t *loads = two_loads();
	struct load_files files;

	put("loads.csv", "earlier");
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(load_files_open(&files, "loads.csv", NULL), 0);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_eq(load_report_csv(&files.csv, loads), -1);
	cr_assert_str_eq(content("loads.csv"), "earlier");
	load_files_close(&files);
	json_decref(loads);
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
	struct load_files files;

	cr_assert_eq(load_files_open(&files, NULL, "it's.svg"), -1);
	make_gnuplot("exit 0");
	cr_assert_eq(load_files_open(&files, NULL, "none/it's.svg"), -1);
	cr_assert_eq(load_files_open(&files, "none/loads.csv", NULL), -1);
	cr_assert_eq(load_files_open(&files, "loads.csv", "it's.svg"), 0);
	load_files_close(&files);
	cr_assert_eq(access("loads.csv", F_OK), -1, "an empty file is left");
	cr_assert_eq(access("it's.svg", F_OK), -1, "an empty file is left");
	cr_assert_eq(load_files_open(&files, NULL, NULL), 0);
	load_files_close(&files);
}
