/* SPDX-License-Identifier: Apache-2.0 */
/* Results of loads as a table, JSON and CSV; see load_report.h. */
#include "load_report.h"

#include <string.h>
#include "../../common/complain.h"

static const struct {
	const char *name;
	double fraction;
} percentiles[] = {
	{ "p50", 0.5 },
	{ "p95", 0.95 },
	{ "p99", 0.99 },
	{ "p99.9", 0.999 },
};

#define N_PERCENTILES (sizeof(percentiles) / sizeof(*percentiles))

void load_report_head(void)
{
	printf("%-12s %-8s %7s %11s %10s %11s %8s %8s %8s %9s\n", "store",
	    "workload", "clients", "outstanding", "target/s", "requests/s",
	    "p50 us", "p95 us", "p99 us", "max us");
}

void load_report_line(const char *store, const struct load_plan *plan,
    const struct load_result *result)
{
	const struct histogram *all = &result->all;
	char target[24] = "closed";

	if (plan->rate > 0)
		snprintf(target, sizeof(target), "%.0f", plan->rate);
	printf("%-12s %-8s %7u %11u %10s %11.0f %8.1f %8.1f %8.1f %9.1f\n",
	    store, plan->mix.name, plan->clients, plan->outstanding, target,
	    result->throughput, histogram_percentile(all, 0.5) / 1e3,
	    histogram_percentile(all, 0.95) / 1e3,
	    histogram_percentile(all, 0.99) / 1e3, (double)all->max / 1e3);
	if (result->unfinished)
		printf("  %ju requests had not ended 2 s after the load: they "
		       "count with the time until then\n",
		    (uintmax_t)result->unfinished);
	if (result->unknown || result->refused)
		printf("  outcome unknown: %ju requests, refused: %ju\n",
		    (uintmax_t)result->unknown, (uintmax_t)result->refused);
}

void load_report_costs(
    const struct load_counts *counts, const struct load_result *result)
{
	double n = (double)result->completed;
	struct load_count mean;
	uint32_t i, processes;

	if (counts->n == 0 || n == 0)
		return;
	printf("  processor time for each request:");
	for (i = 0; i < counts->n; i++) {
		if (!load_counts_mean(counts, i, &mean, &processes))
			continue;
		printf(" %s%s %.2f us,", processes > 1 ? "each " : "",
		    mean.role, (double)mean.cpu_ns / n / 1e3);
		if (counts->has_instructions)
			printf(" %.0f instructions,",
			    (double)mean.instructions / n);
	}
	printf(
	    " all clients %.2f us\n", (double)result->client_cpu_ns / n / 1e3);
}

static json_t *latency_json(const struct histogram *histogram)
{
	json_t *object = json_pack("{s:I, s:f, s:f}", "count",
	    (json_int_t)histogram->count, "min", (double)histogram->min / 1e3,
	    "max", (double)histogram->max / 1e3);
	size_t i;

	for (i = 0; object && i < N_PERCENTILES; i++)
		json_object_set_new(object, percentiles[i].name,
		    json_real(histogram_percentile(
				  histogram, percentiles[i].fraction) /
			1e3));
	return object;
}

/* The cost of a request for each role, as the mean of its processes. */
static json_t *costs_json(const struct load_counts *counts,
    const struct load_result *result, bool instructions)
{
	json_t *object = json_object();
	double n = (double)result->completed;
	struct load_count mean;
	uint32_t i, processes;
	bool known;

	for (i = 0; counts && n > 0 && i < counts->n; i++) {
		if (!load_counts_mean(counts, i, &mean, &processes))
			continue;
		known = !instructions || counts->has_instructions;
		json_object_set_new(object, mean.role,
		    !known ? json_null()
			   : json_real(instructions
				     ? (double)mean.instructions / n
				     : (double)mean.cpu_ns / n / 1e3));
	}
	if (!instructions && n > 0)
		json_object_set_new(object, "all_clients",
		    json_real((double)result->client_cpu_ns / n / 1e3));
	return object;
}

json_t *load_report_json(const char *store, const struct load_plan *plan,
    const struct load_result *result, const struct load_counts *counts)
{
	const struct load_mix *mix = &plan->mix;

	return json_pack(
	    "{s:s, s:s, s:f, s:s, s:f, s:I, s:i, s:i, s:i, s:f,"
	    " s:f, s:I, s:f, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o}",
	    "store", store, "workload", mix->name, "reads", mix->reads,
	    "distribution", mix->distribution == LOAD_ZIPF ? "zipf" : "uniform",
	    "theta", mix->distribution == LOAD_ZIPF ? plan->theta : 0.,
	    "records", (json_int_t)plan->records, "value_size",
	    (int)plan->value_size, "clients", (int)plan->clients, "outstanding",
	    (int)plan->outstanding, "target_rate", plan->rate, "seconds",
	    result->seconds, "completed", (json_int_t)result->completed,
	    "throughput", result->throughput, "latency_us",
	    latency_json(&result->all), "read_latency_us",
	    latency_json(&result->latency[LOAD_READ]), "update_latency_us",
	    latency_json(&result->latency[LOAD_UPDATE]), "unfinished",
	    (json_int_t)result->unfinished, "unknown",
	    (json_int_t)result->unknown, "refused", (json_int_t)result->refused,
	    "cpu_us", costs_json(counts, result, false), "instructions",
	    costs_json(counts, result, true));
}

static void csv_value(FILE *file, const json_t *value)
{
	if (json_is_string(value))
		fprintf(file, "%s", json_string_value(value));
	else if (json_is_integer(value))
		fprintf(file, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		fprintf(file, "%.6g", json_real_value(value));
}

/*
 * A line with the columns that the first result has: its members, and those of
 * its objects. result NULL: their names.
 */
static void csv_line(FILE *file, json_t *first, const json_t *result)
{
	const char *key, *inner_key, *comma = "";
	json_t *value, *inner;

	json_object_foreach(first, key, value)
	{
		const json_t *own = json_object_get(result, key);

		if (!json_is_object(value)) {
			fprintf(file, "%s%s", comma, result ? "" : key);
			csv_value(file, own);
			comma = ",";
			continue;
		}
		json_object_foreach(value, inner_key, inner)
		{
			fprintf(file, "%s", comma);
			if (!result)
				fprintf(file, "%s_%s", key, inner_key);
			csv_value(file, json_object_get(own, inner_key));
			comma = ",";
		}
	}
	fprintf(file, "\n");
}

int load_report_csv(struct result_file *file, const json_t *results)
{
	json_t *first = json_array_get(results, 0);
	size_t i;

	if (first)
		csv_line(file->stream, first, NULL);
	for (i = 0; i < json_array_size(results); i++)
		csv_line(file->stream, first, json_array_get(results, i));
	return result_file_close(file, true);
}
