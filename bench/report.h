/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one way results go out: each result is a row, a JSON object whose members
 * are in the order of the columns, and the format is chosen when it is printed.
 */
#ifndef DFI_BENCH_REPORT_H
#define DFI_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../common/stats.h"

enum report_format {
	REPORT_TEXT = 0,
	REPORT_JSON, /* one object */
	REPORT_CSV,  /* a line of names, then a line for each row */
};

/* A column of the text form. */
struct column {
	const char *key; /* member of the row */
	const char *heading;
	int width;    /* at least the heading's */
	int decimals; /* of real numbers */
};

struct report {
	enum report_format format;
	const char *experiment;
	const struct column *columns; /* ends with a NULL key */
	json_t *host;
	json_t *rows;
	bool failed; /* some row was not verified */
};

/*
 * Start a report; threads is the largest number of threads that will want to
 * run at once. The columns must stay.
 */
void report_open(struct report *report, enum report_format format,
    const char *experiment, const struct column *columns, unsigned threads);

/* Add a row, which becomes the report's; text and CSV print it at once. */
void report_row(struct report *report, json_t *row);

/* A remark in the text form, after the rows. */
void report_note(const struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The members of every row: the value, its unit and spread. */
void report_result(json_t *row, const char *unit, const struct summary *summary,
    uint32_t repeats, bool verified);

/* The baseline's, from n pairs of rounds; a NULL name means that there is none.
 */
void report_baseline(json_t *row, const char *name, const double *values,
    const double *baseline_values, uint32_t n);

/* Finish. Returns the exit status: 0, or 1 if some row was not verified. */
int report_close(struct report *report);

/* A JSON number, or null for one that is not finite. */
json_t *report_number(double value);

#endif
