/* SPDX-License-Identifier: Apache-2.0 */
/* Prints reports, whatever is measured: results on stdout, errors on stderr. */
#include "report.h"

#include <dfi/dfi.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../common/complain.h"
#include "../common/output.h"
#include "host.h"
#include "labels.h"

json_t *report_number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static const char *host_text(const struct report *report, const char *key)
{
	return json_string_value(json_object_get(report->host, key));
}

static double host_number(const struct report *report, const char *key)
{
	return json_number_value(json_object_get(report->host, key));
}

static bool host_flag(const struct report *report, const char *key)
{
	return json_is_true(json_object_get(report->host, key));
}

static bool is_text(const struct report *report)
{
	return report->format == REPORT_TEXT || report->format == REPORT_WIDE;
}

static bool has_column(const struct report *report, const struct column *column)
{
	return !column->wide || report->format == REPORT_WIDE;
}

static void print_header(const struct report *report)
{
	const struct column *column;

	printf("# dfi-bench %s, dfi %s\n", report->experiment, dfi_version());
	printf("# %s: %s, %d cores, Linux %s\n", host_text(report, "name"),
	    host_text(report, "cpu"), (int)host_number(report, "cores"),
	    host_text(report, "kernel"));
	printf("# load average %.2f; others use %.2f cores\n",
	    host_number(report, "load"), host_number(report, "in_use"));
	if (host_flag(report, "busy"))
		puts("# warning: busy: the load average is above half of the "
		     "cores, by others or a run just before");
	if (host_flag(report, "oversubscribed"))
		puts("# warning: oversubscribed: more threads than cores");
	for (column = report->columns; column->key; column++)
		if (has_column(report, column))
			printf("%s%*s", column == report->columns ? "" : "  ",
			    column->width, column->heading);
	putchar('\n');
	output_flush();
}

void report_open(struct report *report, enum report_format format,
    const char *experiment, const struct column *columns, unsigned threads)
{
	*report = (struct report){
		.format = format,
		.experiment = experiment,
		.columns = columns,
		.host = host_describe(threads),
		.rows = json_array(),
	};
	if (is_text(report))
		print_header(report);
}

/* Format a value; decimals < 0: with its full precision. */
static void value_text(
    const json_t *value, int decimals, char *text, size_t size)
{
	switch (json_typeof(value)) {
	case JSON_STRING:
		snprintf(text, size, "%s", json_string_value(value));
		break;
	case JSON_INTEGER:
		snprintf(text, size, "%" JSON_INTEGER_FORMAT,
		    json_integer_value(value));
		break;
	case JSON_REAL:
		if (decimals < 0)
			snprintf(text, size, "%.9g", json_real_value(value));
		else
			snprintf(text, size, "%.*f", decimals,
			    json_real_value(value));
		break;
	case JSON_TRUE:
		snprintf(text, size, "yes");
		break;
	case JSON_FALSE:
		snprintf(text, size, "NO");
		break;
	default:
		snprintf(text, size, "-");
		break;
	}
}

/* What a row is compared with, and the modelled link of both. */
static void baseline_text(const json_t *row, char *text, size_t size)
{
	const char *name = json_string_value(json_object_get(row, "baseline"));
	char link[64];

	label_link(row, link, sizeof(link));
	if (!name)
		snprintf(text, size, "-");
	else if (!*link)
		snprintf(text, size, "%s", name);
	else if (strcmp(name, "modelled link") == 0)
		snprintf(text, size, "link %s", link);
	else
		snprintf(text, size, "%s, link %s", name, link);
}

static void print_text(const struct report *report, const json_t *row)
{
	const struct column *column;
	const json_t *value;
	char text[128];

	for (column = report->columns; column->key; column++) {
		if (!has_column(report, column))
			continue;
		value = json_object_get(row, column->key);
		value_text(value ? value : json_null(), column->decimals, text,
		    sizeof(text));
		if (strcmp(column->key, "baseline") == 0)
			baseline_text(row, text, sizeof(text));
		printf("%s%*s", column == report->columns ? "" : "  ",
		    column->width, text);
	}
	if (json_is_false(json_object_get(row, "verified")))
		printf("  WRONG");
	putchar('\n');
}

/* Lists have no place in a line of values. */
static void print_csv(const struct report *report, json_t *row)
{
	const char *key, *separator = "";
	json_t *value;
	char text[256];

	if (json_array_size(report->rows) == 1) {
		json_object_foreach(row, key, value)
		{
			if (json_is_array(value))
				continue;
			printf("%s%s", separator, key);
			separator = ",";
		}
		putchar('\n');
		separator = "";
	}
	json_object_foreach(row, key, value)
	{
		if (json_is_array(value))
			continue;
		value_text(value, -1, text, sizeof(text));
		if (json_is_boolean(value))
			snprintf(text, sizeof(text), "%s",
			    json_is_true(value) ? "true" : "false");
		printf("%s%s", separator, json_is_null(value) ? "" : text);
		separator = ",";
	}
	putchar('\n');
}

void report_row(struct report *report, json_t *row)
{
	if (json_is_false(json_object_get(row, "verified")))
		report->failed = true;
	json_array_append_new(report->rows, row);
	if (is_text(report))
		print_text(report, row);
	else if (report->format == REPORT_CSV)
		print_csv(report, row);
	fflush(stdout);
}

void report_note(const struct report *report, const char *format, ...)
{
	va_list args;

	if (!is_text(report))
		return;
	va_start(args, format);
	fputs("# ", stdout);
	vprintf(format, args);
	putchar('\n');
	va_end(args);
}

void report_result(json_t *row, const char *unit, const struct summary *summary,
    uint32_t repeats, bool verified)
{
	json_object_set_new(row, "value", report_number(summary->median));
	json_object_set_new(row, "unit", json_string(unit));
	json_object_set_new(row, "min", report_number(summary->min));
	json_object_set_new(row, "max", report_number(summary->max));
	json_object_set_new(row, "repeats", json_integer(repeats));
	json_object_set_new(row, "verified", json_boolean(verified));
}

static json_t *round_values(const double *values, uint32_t n)
{
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < n; i++)
		json_array_append_new(array, report_number(values[i]));
	return array;
}

void report_baseline(json_t *row, const char *name, const double *values,
    const double *baseline_values, uint32_t n)
{
	bool given = name != NULL;
	struct summary summary = stats_summary(baseline_values, given ? n : 0);

	json_object_set_new(
	    row, "baseline", given ? json_string(name) : json_null());
	json_object_set_new(row, "baseline_value",
	    given ? report_number(summary.median) : json_null());
	json_object_set_new(row, "baseline_min",
	    given ? report_number(summary.min) : json_null());
	json_object_set_new(row, "baseline_max",
	    given ? report_number(summary.max) : json_null());
	json_object_set_new(row, "ratio",
	    given ? report_number(stats_ratio(values, baseline_values, n))
		  : json_null());
	json_object_set_new(row, "rounds", round_values(values, n));
	if (given)
		json_object_set_new(
		    row, "baseline_rounds", round_values(baseline_values, n));
}

void report_wrapped(const char *heading, const char *text)
{
	int column = 10, size;

	printf("%-9s", heading);
	for (; *text; text += size + (text[size] == ' ')) {
		size = (int)strcspn(text, " ");
		if (column + size > 98) {
			printf("\n%9s", "");
			column = 10;
		}
		printf(" %.*s", size, text);
		column += size + 1;
	}
	putchar('\n');
}

int report_close(struct report *report)
{
	int status = report->failed ? 1 : 0;
	json_t *all;

	if (report->failed)
		complain("the sums of sent and received tuples differ: tuples "
			 "are lost, repeated or damaged");
	if (report->format == REPORT_JSON) {
		all = json_pack("{s:s, s:s, s:O, s:O}", "experiment",
		    report->experiment, "version", dfi_version(), "host",
		    report->host, "rows", report->rows);
		json_dumpf(
		    all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
		putchar('\n');
		json_decref(all);
	}
	json_decref(report->host);
	json_decref(report->rows);
	return status;
}
