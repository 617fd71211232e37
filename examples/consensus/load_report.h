/* SPDX-License-Identifier: Apache-2.0 */
/* How the results of loads are told: as a table, as JSON, CSV and drawings. */
#ifndef KV_LOAD_REPORT_H
#define KV_LOAD_REPORT_H

#include <jansson.h>
#include <stdio.h>
#include "load_options.h"

/* The table's head and lines. store: a name for what was asked. */
void load_report_head(void);
void load_report_line(const char *store, const struct load_plan *plan,
    const struct load_result *result);
/* What processes cost for each request; nothing if there are none. */
void load_report_costs(
    const struct load_counts *counts, const struct load_result *result);

/* A load as an object; NULL: no memory. counts may be NULL. */
json_t *load_report_json(const char *store, const struct load_plan *plan,
    const struct load_result *result, const struct load_counts *counts);

/*
 * Before loads, which take long: whether these files, or NULL, can be written
 * and drawn. 0, or -1 after a complaint.
 */
int load_report_check(const char *csv, const char *plot);

/* All loads, an array of such objects, as CSV with a head. 0, or -1. */
int load_report_csv(const char *file, const json_t *results);

/* Throughput and latency of each, a line for each store and workload. */
int load_report_plot(const char *file, const json_t *results);

/*
 * Draw with gnuplot: write commands to the stream that is returned; the picture
 * is in the file once plot_close() has returned 0. NULL or -1 after a
 * complaint.
 */
FILE *plot_open(const char *file, unsigned width, unsigned height);
int plot_close(FILE *plot, const char *file);

#endif
