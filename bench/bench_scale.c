/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What grows with the number of sources, targets or flows between two
 * processes: bandwidth, an empty poll, the way of a single tuple, memory and
 * descriptors.
 */
#include <dfi/dfi.h>
#include <stdio.h>

#include "../common/complain.h"
#include "bench.h"
#include "host.h"
#include "runner.h"
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

/* Both processes, and what one of them has to know. */
struct bench {
	const struct scale_options *options;
	struct session session;
	struct scale_board *board;
	struct children children;
	int32_t cpu; /* of the sources' thread; -1: any */
};

static struct scale shape(struct bench *bench, uint32_t n)
{
	uint32_t axis = bench->options->axis;

	return (struct scale){
		.n_flows = axis == AXIS_FLOWS ? n : 1,
		.n_sources = axis == AXIS_SOURCES || axis == AXIS_DECLARED ? n
									   : 1,
		.n_targets = axis == AXIS_TARGETS ? n : 1,
		.n_attached = axis == AXIS_SOURCES ? n : 1,
		.session = &bench->session,
		.board = bench->board,
		.children = &bench->children,
		.asked = bench->options->common.geometry,
		.apart = bench->options->apart,
		.cpu = bench->cpu,
		.timeout_ns = bench->options->common.timeout_s *
		    UINT64_C(1000000000),
	};
}

struct measured {
	double polls[STATS_MAX_VALUES], rates[STATS_MAX_VALUES];
	double bytes;
	uint32_t connections;
	char device[96]; /* "": none is needed */
	bool verified;
};

/*
 * The connections that the sources have, queue pairs or what libfabric
 * connects, and the first device that has some.
 */
static int add_connections(void *arg, const struct dfi_transport_stats *stats)
{
	struct measured *measured = arg;

	measured->connections += stats->connections;
	if (stats->connections && !*measured->device)
		host_device(
		    stats->device, measured->device, sizeof(measured->device));
	return 0;
}

/* The bytes that all endpoints reserve, as planned. */
static bool plan_bytes(struct scale *scale, double *bytes)
{
	uint64_t each;

	if (!session_needs(
		scale->session, &scale->plans[0], &scale->asked, &each))
		return false;
	*bytes = (double)each * scale->n_flows;
	return true;
}

/* In one more round. */
static bool check(const struct common_options *common, struct scale *scale)
{
	double ignored;

	if (!common->verify)
		return true;
	scale_check(scale);
	return scale_send_all(scale, common->seconds, &ignored);
}

static bool measure(const struct scale_options *options, struct scale *scale,
    struct measured *measured)
{
	const struct common_options *common = &options->common;
	double ignored;
	uint32_t i;
	bool done = scale_open(scale) && plan_bytes(scale, &measured->bytes) &&
	    scale_poll(scale, options->iterations, &ignored);

	for (i = 0; i < common->repeat && done; i++)
		done = scale_poll(
		    scale, options->iterations, &measured->polls[i]);
	if (!done)
		return false;
	measured->connections = 0;
	*measured->device = '\0';
	dfi_context_query(scale->dfi, add_connections, measured);
	heard = (struct histogram){ .count = 0 };
	scale_start(scale);
	done = scale_send_all(scale, common->seconds / 4, &ignored) &&
	    scale_send_each(scale, options->iterations, &heard);
	for (i = 0; i < common->repeat && done; i++)
		done = scale_send_all(
		    scale, common->seconds, &measured->rates[i]);
	done = done && check(common, scale);
	return scale_stop(scale, &measured->verified) && done;
}

static bool add_row(struct bench *bench, uint32_t count, struct report *report)
{
	static struct measured measured;
	const struct scale_options *options = bench->options;
	struct scale scale = shape(bench, count);
	uint32_t repeat = options->common.repeat;
	struct summary rates, polls;
	json_t *row;
	bool done = measure(options, &scale, &measured);

	done = scale_close(&scale) && done;
	if (!done)
		return false;
	rates = stats_summary(measured.rates, repeat);
	polls = stats_summary(measured.polls, repeat);
	row = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i}",
	    "experiment", "scale", "of", axis_name(options->axis), "count",
	    (int)count, "tuple_size", SCALE_TUPLE, "flows", (int)scale.n_flows,
	    "sources", (int)scale.n_sources, "targets", (int)scale.n_targets,
	    "attached_sources", (int)scale.n_attached, "descriptors",
	    scale.files + scale.board->files);
	json_object_set_new(row, "procs", json_integer(2));
	if (options->apart)
		json_object_set_new(row, "apart", json_true());
	report_result(row, "GB/s", &rates, repeat, measured.verified);
	json_object_set_new(
	    row, "connections", json_integer(measured.connections));
	json_object_set_new(row, "device",
	    *measured.device ? json_string(measured.device) : json_null());
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

/* The processors of both threads; -1: any. */
static void choose_cpus(
    const struct placement *placement, int32_t *sources, int32_t *targets)
{
	int32_t cpus[2];

	*sources = *targets = -1;
	if (placement->off)
		return;
	if (placement->cpus) {
		*sources = placement->cpus[0];
		*targets = placement->cpus[placement->n_cpus > 1];
	} else if (usable_cpus(cpus, 2) == 2) {
		*sources = cpus[0];
		*targets = cpus[1];
	}
}

static bool start(struct bench *bench)
{
	const struct common_options *common = &bench->options->common;

	bench->board = scale_targets_start(&bench->children);
	if (!bench->board)
		return false;
	choose_cpus(&common->placement, &bench->cpu, &bench->board->cpu);
	if (!session_open(common, &bench->session))
		return false;
	snprintf(bench->board->registry, sizeof(bench->board->registry), "%s",
	    bench->session.address);
	return true;
}

int bench_scale(int argc, char **argv)
{
	static struct scale_options options;
	struct bench bench = { .options = &options };
	struct report report;
	uint32_t i;
	int status = 1;
	bool done;

	scale_options_parse(argc, argv, &options);
	done = start(&bench);
	if (done) {
		report_open(
		    &report, options.common.format, "scale", columns, 2);
		for (i = 0; i < options.n_counts && done; i++)
			done = add_row(
			    &bench, (uint32_t)options.counts[i], &report);
		status = report_close(&report);
	}
	scale_targets_end(bench.board, &bench.children);
	session_close(&bench.session);
	return done ? status : 1;
}
