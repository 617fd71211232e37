/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a flow besides its tuples: creating it, attaching a target and a
 * source, the first tuple, the end, and removing it. Repeats in one process and
 * one context. The first flow warms up and does not count.
 */
#include <dfi/dfi.h>
#include <string.h>

#include "../common/complain.h"
#include "bench.h"
#include "session.h"
#include "tuple.h"
#include "values.h"

static const struct column columns[] = {
	{ "step", "step", 12, 0, false },
	{ "iterations", "flows", 11, 0, false },
	{ "value", "result[us]", 15, 1, false },
	{ "p99", "99 %[us]", 20, 1, false },
	{ "max", "max[us]", 9, 1, false },
	{ "min", "min[us]", 8, 1, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

enum step {
	STEP_CREATE = 0,
	STEP_TARGET_OPEN,
	STEP_SOURCE_OPEN,
	STEP_FIRST_TUPLE, /* from its push to its arrival */
	STEP_CLOSE,       /* the end mark, its arrival, and both handles */
	STEP_REMOVE,
	STEP_ALL,
	N_STEPS,
};

static const char *const step_names[N_STEPS] = { "create", "target open",
	"source open", "first tuple", "close", "remove", "all" };

static struct histogram histograms[N_STEPS];

/* Set up one flow. times gets its start, and then the end of each step. */
static int set_up(struct session *session, struct plan *plan,
    const struct raw_geometry *asked, uint64_t *times)
{
	static uint64_t tuple[DFI_MAX_TUPLE_SIZE / 8];
	struct dfi_source *source;
	struct dfi_target *target;
	const void *received;
	int ret;

	times[0] = now_ns();
	if (!session_create_flows(session, plan, asked))
		return -EIO;
	times[1 + STEP_CREATE] = now_ns();
	ret = dfi_target_open(session->dfi, plan->flow, 0, NULL, &target);
	if (ret < 0)
		return ret;
	times[1 + STEP_TARGET_OPEN] = now_ns();
	ret = dfi_source_open(session->dfi, plan->flow, 0, NULL, &source);
	if (ret < 0)
		return ret;
	times[1 + STEP_SOURCE_OPEN] = now_ns();
	tuple[0] = session->n_flows;
	ret = dfi_source_push(source, tuple);
	if (!ret)
		ret = dfi_source_flush(source);
	if (!ret)
		ret = dfi_target_consume(target, &received);
	if (ret < 0 || memcmp(received, tuple, plan->tuple_size) != 0)
		return ret < 0 ? ret : -EBADMSG;
	times[1 + STEP_FIRST_TUPLE] = now_ns();
	ret = dfi_source_close(source);
	if (!ret)
		ret = dfi_target_consume(target, &received);
	if (!ret)
		ret = dfi_target_close(target);
	if (ret)
		return ret < 0 ? ret : -EBADMSG;
	times[1 + STEP_CLOSE] = now_ns();
	ret = dfi_flow_remove(session->dfi, plan->flow);
	times[1 + STEP_REMOVE] = now_ns();
	return ret;
}

static void count_times(const uint64_t *times)
{
	uint32_t step;

	for (step = 0; step < STEP_ALL; step++)
		histogram_add(&histograms[step], times[step + 1] - times[step]);
	histogram_add(&histograms[STEP_ALL], times[STEP_ALL] - times[0]);
}

static bool measure(
    const struct setup_options *options, struct session *session)
{
	const struct common_options *common = &options->common;
	struct plan plan = {
		.job = JOB_FLOW,
		.n_sources = 1,
		.n_targets = 1,
		.tuple_size = common->tuple_sizes[0],
	};
	uint64_t times[N_STEPS], i;
	int ret;

	for (i = 0; i <= options->iterations; i++) {
		ret = set_up(session, &plan, &common->geometry, times);
		if (ret < 0) {
			complain("setup: flow %lu: %s", (unsigned long)i,
			    ret == -EBADMSG ? "not the tuple that was sent"
					    : dfi_errmsg());
			return false;
		}
		if (i)
			count_times(times);
	}
	return true;
}

static void add_row(struct report *report, enum step step)
{
	const struct histogram *histogram = &histograms[step];
	struct summary summary = {
		.median = histogram_percentile(histogram, 0.5) / 1000,
		.min = (double)histogram->min / 1000,
		.max = (double)histogram->max / 1000,
	};
	json_t *row = json_pack("{s:s, s:s, s:I}", "experiment", "setup",
	    "step", step_names[step], "iterations",
	    (json_int_t)histogram->count);

	report_result(row, "us", &summary, 1, true);
	json_object_set_new(row, "p99",
	    report_number(histogram_percentile(histogram, 0.99) / 1000));
	report_baseline(row, NULL, NULL, NULL, 0);
	report_row(report, row);
}

int bench_setup(int argc, char **argv)
{
	static struct setup_options options;
	struct session session;
	struct report report;
	uint32_t step;
	int status;
	bool done;

	setup_options_parse(argc, argv, &options);
	if (!session_open(&options.common, &session))
		return 1;
	report_open(&report, options.common.format, "setup", columns, 1);
	done = measure(&options, &session);
	for (step = 0; done && step < N_STEPS; step++)
		add_row(&report, step);
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
