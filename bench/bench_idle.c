/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a waiting target: the processor time of its thread, and of its
 * whole process with the library's control thread, while nothing arrives.
 */
#include <dfi/dfi.h>
#include <math.h>

#include "bench.h"
#include "compare.h"
#include "values.h"

static const struct column columns[] = {
	{ "how", "how", 7, 0, false },
	{ "wait", "wait", 8, 0, false },
	{ "seconds", "time[s]", 8, 1, false },
	{ "value", "thread[%]", 9, 3, false },
	{ "process", "process[%]", 14, 3, false },
	{ "procs", "procs", 5, 0, true },
	{ "min", "min[%]", 8, 3, true },
	{ "max", "max[%]", 8, 3, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

/* Processor time in percent of the time that the target's seat was watched. */
static double share(const struct board *board, uint64_t ns)
{
	return 100.0 * (double)ns /
	    (double)board->seats[board->n_sources].seen_ns;
}

static double value_thread(const struct side *side, const struct board *board,
    const struct outcome *outcome)
{
	(void)side;
	(void)outcome;
	return share(board, board->seats[board->n_sources].used_ns);
}

static bool measure(const struct idle_options *options, struct session *session,
    struct side *side, double *process)
{
	const struct common_options *common = &options->common;
	struct runner_attr attr = {
		.n_sources = 1,
		.n_target_threads = 1,
		.procs = common->procs,
		.registry = session->address,
		.timeout_s = common->timeout_s,
		.placement = &common->placement,
	};
	struct comparison comparison = {
		.session = session,
		.options = common,
		.sides = side,
		.n_sides = 1,
		.smaller = "a smaller --segment-size, or fewer --segments",
		.value = value_thread,
	};
	struct runner runner;
	struct outcome outcome;
	bool done = true;
	uint32_t i;

	if (!compare_start(&comparison, &attr, &runner))
		return false;
	*process = 0;
	for (i = 0; i < common->repeat && done; i++) {
		done = compare_round(&comparison, side, true, &outcome);
		*process = fmax(*process,
		    share(runner.board,
			runner.board->seats[attr.n_sources].spent_ns));
	}
	runner_stop(&runner);
	return done;
}

int bench_idle(int argc, char **argv)
{
	static struct idle_options options;
	static struct side side;
	const struct common_options *common = &options.common;
	struct session session;
	struct report report;
	struct summary summary;
	double process;
	json_t *row;
	int status;
	bool done;

	idle_options_parse(argc, argv, &options);
	if (!session_open(common, &session))
		return 1;
	report_open(&report, common->format, "idle", columns, 2);
	side = (struct side){
		.plan = {
			.job = JOB_IDLE,
			.wait = common->wait,
			.how = options.how,
			.n_sources = 1,
			.n_targets = 1,
			.n_target_threads = 1,
			.tuple_size = common->tuple_sizes[0],
			.tuples = 1,
			.idle_ns = (uint64_t)(common->seconds * 1e9),
		},
		.asked = common->geometry,
		.verified = true,
	};
	done = measure(&options, &session, &side, &process);
	if (done) {
		summary = stats_summary(side.values, side.n_values);
		row = json_pack("{s:s, s:i, s:s, s:s, s:f}", "experiment",
		    "idle", "procs", (int)common->procs, "how",
		    how_name(options.how), "wait", wait_name(common->wait),
		    "seconds", common->seconds);
		report_result(
		    row, "% CPU", &summary, side.n_values, side.verified);
		json_object_set_new(row, "process", report_number(process));
		report_baseline(row, NULL, side.values, NULL, side.n_values);
		report_row(&report, row);
	}
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
