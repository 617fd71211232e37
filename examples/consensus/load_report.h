/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the results of loads: as a table, as JSON, CSV and drawings. */
#ifndef KV_LOAD_REPORT_H
#define KV_LOAD_REPORT_H

#include <jansson.h>
#include <stdio.h>
#include "../common/result_file.h"
#include "load_options.h"

/* The table's head and lines. store: the name of the store. */
void load_report_head(void);
void load_report_line(const char *store, const struct load_plan *plan,
    const struct load_result *result);
/* The cost of processes for each request; prints nothing if there are none. */
void load_report_costs(
    const struct load_counts *counts, const struct load_result *result);

/* A load as an object; NULL: no memory. counts may be NULL. */
json_t *load_report_json(const char *store, const struct load_plan *plan,
    const struct load_result *result, const struct load_counts *counts);

/* Where --csv and --plot go; stream NULL: nowhere. */
struct load_files {
	struct result_file csv, plot;
};

/*
 * Call it before loads, which take long: begin these files, or NULL, and check
 * that the drawing can be made. Returns 0, or -1 after a complaint.
 */
int load_files_open(
    struct load_files *files, const char *csv, const char *plot);
void load_files_close(struct load_files *files); /* drops what is not done */

/* All loads, an array of such objects, as CSV with a head. 0, or -1. */
int load_report_csv(struct result_file *file, const json_t *results);

/* Throughput and latency of each, a line for each store and workload. */
int load_report_plot(struct result_file *file, const json_t *results);

/* A drawing by gnuplot. */
struct plot {
	struct result_file *file;
	FILE *commands; /* of gnuplot */
	FILE *picture;  /* in memory, as gnuplot tells no full disk */
	pid_t gnuplot;
	void (*on_pipe)(int); /* SIGPIPE's action while nothing is drawn */
};

/*
 * Write commands, then close it. Returns 0 once the picture is in the file, or
 * -1 after a complaint.
 */
int plot_open(struct plot *plot, struct result_file *file, unsigned width,
    unsigned height);
int plot_close(struct plot *plot);

#endif
