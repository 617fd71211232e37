/* SPDX-License-Identifier: Apache-2.0 */
/* Medians of the runs of a load; see store_rows.h. */
#include "store_rows.h"

#include "../common/complain.h"
#include "report.h"

/* What tells the loads of a run apart; all else is a figure of the run. */
static const char *const names[] = { "store", "workload", "replicas", "clients",
	"outstanding", "records", "value_size" };

#define N_NAMES (sizeof(names) / sizeof(names[0]))

static const json_t *load_of(const json_t *runs, size_t run, size_t number)
{
	return json_array_get(json_array_get(runs, run), number);
}

/* A figure of a load, such as "latency_us" and "p50"; inner may be NULL. */
static const json_t *figure_of(
    const json_t *load, const char *name, const char *inner)
{
	const json_t *value = json_object_get(load, name);

	return inner ? json_object_get(value, inner) : value;
}

static bool are_alike(const json_t *load, const json_t *other)
{
	size_t i;

	for (i = 0; i < N_NAMES; i++)
		if (!json_equal(json_object_get(load, names[i]),
			json_object_get(other, names[i])))
			return false;
	return true;
}

/* Collect a figure of all runs. false: one lacks it, or is another load's. */
static bool collect(const json_t *runs, size_t number, const char *name,
    const char *inner, double *values)
{
	const json_t *load, *value;
	size_t run;

	for (run = 0; run < json_array_size(runs); run++) {
		load = load_of(runs, run, number);
		value = figure_of(load, name, inner);
		if (!json_is_number(value) ||
		    !are_alike(load, load_of(runs, 0, number)))
			return false;
		values[run] = json_number_value(value);
	}
	return true;
}

static json_t *row_of(const char *series, const json_t *runs, size_t number)
{
	static const char *const percentiles[][2] = { { "p50", "p50_us" },
		{ "p95", "p95_us" }, { "p99", "p99_us" } };
	uint32_t n = (uint32_t)json_array_size(runs);
	double values[STATS_MAX_VALUES];
	struct summary summary;
	json_t *row;
	size_t i;

	if (!collect(runs, number, "throughput", NULL, values))
		return NULL;
	row = json_pack("{s:s, s:s}", "experiment", "store", "series", series);
	for (i = 0; i < N_NAMES; i++)
		json_object_set(row, names[i],
		    json_object_get(load_of(runs, 0, number), names[i]));
	summary = stats_summary(values, n);
	/* A load with a value that was not written ends its program. */
	report_result(row, "requests/s", &summary, n, true);
	report_baseline(row, NULL, values, NULL, n);
	for (i = 0; i < 3; i++) {
		if (!collect(runs, number, "latency_us", percentiles[i][0],
			values)) {
			json_decref(row);
			return NULL;
		}
		json_object_set_new(row, percentiles[i][1],
		    report_number(stats_summary(values, n).median));
	}
	return row;
}

bool store_rows(const char *series, json_t *runs, json_t *rows)
{
	size_t number, n = json_array_size(json_array_get(runs, 0));
	json_t *row;

	for (number = 0; number < n; number++) {
		row = row_of(series, runs, number);
		if (!row) {
			complain("%s: dfi-kv-run has printed other loads, or "
				 "none of their figures",
			    series);
			return false;
		}
		json_array_append_new(rows, row);
	}
	return n > 0;
}
