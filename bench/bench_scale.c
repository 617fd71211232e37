/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What grows with the number of sources, targets or flows: bandwidth, an empty
 * poll, the way of a single tuple, memory and descriptors.
 */
#include <dfi/dfi.h>
#include <dirent.h>

#include "../common/complain.h"
#include "bench.h"
#include "scale_job.h"
#include "values.h"

static const struct column columns[] = {
	{ "of", "of", 8, 0, false },
	{ "count", "count", 5, 0, false },
	{ "value", "result[GB/s]", 12, 2, false },
	{ "poll_ns", "poll[ns]", 8, 1, false },
	{ "heard_us", "heard[us]", 9, 2, false },
	{ "open_us", "open[us]", 8, 1, false },
	{ "memory_mib", "memory[MiB]", 11, 1, false },
	{ "descriptors", "descriptors", 11, 0, false },
	{ "connections", "connections", 11, 0, false },
	{ "heard_p99_us", "99 %[us]", 8, 2, true },
	{ "min", "min[GB/s]", 9, 2, true },
	{ "max", "max[GB/s]", 9, 2, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

#define MIB (1024.0 * 1024)

static struct histogram heard;

/* The open descriptors of this process; -1: they cannot be counted. */
static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int n = 0;

	if (!folder)
		return -1;
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

static struct scale shape(
    const struct scale_options *options, struct session *session, uint32_t n)
{
	uint32_t axis = options->axis;

	return (struct scale){
		.n_flows = axis == AXIS_FLOWS ? n : 1,
		.n_sources = axis == AXIS_SOURCES || axis == AXIS_DECLARED ? n
									   : 1,
		.n_targets = axis == AXIS_TARGETS ? n : 1,
		.n_attached = axis == AXIS_SOURCES ? n : 1,
		.session = session,
		.apart = options->apart,
		.timeout_ns = options->common.timeout_s * UINT64_C(1000000000),
	};
}

struct measured {
	double polls[STATS_MAX_VALUES], rates[STATS_MAX_VALUES];
	double bytes;
	int descriptors;
	uint32_t connections;
	bool verified;
};

static int add_connections(void *arg, const struct dfi_transport_stats *stats)
{
	uint32_t *n = arg;

	*n += stats->connections;
	return 0;
}

/* Those that the sources have: queue pairs, or what libfabric connects. */
static uint32_t connections(const struct scale *scale)
{
	uint32_t n = 0;

	if (scale->from)
		dfi_context_query(scale->from, add_connections, &n);
	return n;
}

/* The bytes that all endpoints reserve, as planned. */
static bool plan_bytes(struct scale *scale, double *bytes)
{
	uint64_t each;

	if (!session_needs(scale->session, &scale->plans[0],
		&(struct raw_geometry){ 0 }, &each))
		return false;
	*bytes = (double)each * scale->n_flows;
	return true;
}

static bool measure(const struct scale_options *options, struct scale *scale,
    struct measured *measured)
{
	const struct common_options *common = &options->common;
	int before = descriptors();
	double ignored;
	uint32_t i;
	bool done = scale_open(scale) && plan_bytes(scale, &measured->bytes) &&
	    scale_poll(scale, options->iterations, &ignored);

	measured->descriptors = descriptors() - before;
	for (i = 0; i < common->repeat && done; i++)
		done = scale_poll(
		    scale, options->iterations, &measured->polls[i]);
	measured->connections = connections(scale);
	heard = (struct histogram){ .count = 0 };
	done = done && scale_start(scale) &&
	    scale_send_all(scale, common->seconds / 4, &ignored) &&
	    scale_send_each(scale, options->iterations, &heard);
	for (i = 0; i < common->repeat && done; i++)
		done = scale_send_all(
		    scale, common->seconds, &measured->rates[i]);
	return scale_stop(scale, &measured->verified) && done;
}

static bool add_row(const struct scale_options *options,
    struct session *session, uint32_t count, struct report *report)
{
	static struct measured measured;
	struct scale scale = shape(options, session, count);
	uint32_t repeat = options->common.repeat;
	struct summary rates, polls;
	json_t *row;
	bool done = measure(options, &scale, &measured);

	scale_close(&scale);
	if (!done)
		return false;
	rates = stats_summary(measured.rates, repeat);
	polls = stats_summary(measured.polls, repeat);
	row = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i}",
	    "experiment", "scale", "of", axis_name(options->axis), "count",
	    (int)count, "tuple_size", SCALE_TUPLE, "flows", (int)scale.n_flows,
	    "sources", (int)scale.n_sources, "targets", (int)scale.n_targets,
	    "attached_sources", (int)scale.n_attached, "descriptors",
	    measured.descriptors);
	if (options->apart)
		json_object_set_new(row, "apart", json_true());
	report_result(row, "GB/s", &rates, repeat, measured.verified);
	json_object_set_new(
	    row, "connections", json_integer(measured.connections));
	json_object_set_new(row, "asked_transport",
	    json_string(transport_name(options->common.transport)));
	json_object_set_new(row, "open_us",
	    report_number((double)scale.open_ns * 1e-3 / scale.n_flows /
		(scale.n_attached + scale.n_targets)));
	json_object_set_new(row, "poll_ns", report_number(polls.median));
	json_object_set_new(row, "heard_us",
	    report_number(histogram_percentile(&heard, 0.5) / 1000));
	json_object_set_new(row, "heard_p99_us",
	    report_number(histogram_percentile(&heard, 0.99) / 1000));
	json_object_set_new(
	    row, "memory_mib", report_number(measured.bytes / MIB));
	report_baseline(row, NULL, NULL, NULL, 0);
	report_row(report, row);
	return true;
}

int bench_scale(int argc, char **argv)
{
	static struct scale_options options;
	struct session session;
	struct report report;
	bool done = true;
	uint32_t i;
	int status;

	scale_options_parse(argc, argv, &options);
	if (!session_open(&options.common, &session))
		return 1;
	report_open(&report, options.common.format, "scale", columns, 2);
	for (i = 0; i < options.n_counts && done; i++)
		done = add_row(
		    &options, &session, (uint32_t)options.counts[i], &report);
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
