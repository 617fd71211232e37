/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of results. Each result is a row: a JSON object whose members are
 * in the order of the columns. Printing chooses the format.
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
	REPORT_WIDE, /* text with all columns */
	REPORT_JSON, /* one object */
	REPORT_CSV,  /* a line of names, then a line for each row */
};

/*
 * A column of the text form. The narrow ones together have at most 100
 * characters: what was measured, the result, its limit, and their ratio.
 */
struct column {
	const char *key; /* member of the row */
	const char *heading;
	int width;    /* at least that of the heading */
	int decimals; /* of real numbers */
	bool wide;    /* only REPORT_WIDE has it */
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
 * Start a report. threads: the most threads that will run at once. The columns
 * must stay valid.
 */
void report_open(struct report *report, enum report_format format,
    const char *experiment, const struct column *columns, unsigned threads);

/* Add a row, which the report then owns. Text and CSV print it at once. */
void report_row(struct report *report, json_t *row);

/* Print a remark after the rows, in the text form. */
void report_note(const struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Set the members of every row: the value, its unit and its spread. */
void report_result(json_t *row, const char *unit, const struct summary *summary,
    uint32_t repeats, bool verified);

/*
 * Set the baseline's members, and those with the values of the rounds, from n
 * pairs of rounds; name NULL: there is no baseline, and its values do not
 * matter.
 */
void report_baseline(json_t *row, const char *name, const double *values,
    const double *baseline_values, uint32_t n);

/* Finish. Returns the exit status: 0, or 1 if a row was not verified. */
int report_close(struct report *report);

/*
 * Print a heading of nine columns and a text beside it, in lines of at most 100
 * columns.
 */
void report_wrapped(const char *heading, const char *text);

/* A JSON number, or null for one that is not finite. */
json_t *report_number(double value);

#endif
