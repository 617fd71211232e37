/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a worker. exchange.c moves the tuples; this file has the
 * endpoints, the start, the join and the reports to the first process.
 */
#include "worker.h"
#include "platform.h"

#include <inttypes.h>
#include <string.h>

#define PROGRESS_NS UINT64_C(100000000)

int worker_fail(const struct worker *worker, const char *what)
{
	return complain("node %" PRIu32 ", worker %" PRIu32 ": %s: %s",
	    worker->options->node, worker->index, what, dfi_errmsg());
}

static int send_report(struct worker *worker, enum report_kind kind)
{
	worker->report.kind = (uint32_t)kind;
	worker->report.worker = worker->index;
	/*
	 * Never waits long: there are more segments than important reports, and
	 * the first process takes them out.
	 */
	if (dfi_source_push(worker->reports, &worker->report) < 0)
		return worker_fail(worker, "reporting");
	return 0;
}

void worker_progress(struct worker *worker, uint64_t n)
{
	uint64_t now;

	worker->report.progress += n;
	if (!worker->options->progress)
		return;
	now = now_ns();
	if (now < worker->next_progress_ns)
		return;
	worker->next_progress_ns = now + PROGRESS_NS;
	/* An error is repeated with the last report. */
	(void)send_report(worker, REPORT_PROGRESS);
}

/* For join_run(). */
static void join_progress(void *arg, uint64_t n)
{
	worker_progress(arg, n);
}

/* For the matcher: pass a match on to be written. */
static int emit_row(void *arg, uint64_t inner, uint64_t outer)
{
	struct worker *worker = arg;
	const struct row row = { inner, outer };

	if (dfi_source_push(worker->rows, &row) < 0)
		return worker_fail(worker, "passing a row on");
	return 0;
}

/*
 * Open targets first: a source waits for the flow's targets, and other workers
 * open theirs in the same order. But open the reports before the start: when
 * the first process finds the targets of the start, each worker is attached to
 * the reports, and a death shows there.
 */
static int open_endpoints(struct worker *worker)
{
	const char *run = worker->options->run;
	struct dfi_target_attr target = DFI_TARGET_ATTR_INIT;
	struct dfi_target_attr start = DFI_TARGET_ATTR_INIT;
	struct dfi_source_attr source = DFI_SOURCE_ATTR_INIT;
	struct dfi_source_attr blocking = DFI_SOURCE_ATTR_INIT;
	struct dfi *dfi = worker->dfi;
	uint32_t i = worker->index;
	int ret;

	target.open_timeout_ms = start.open_timeout_ms =
	    source.open_timeout_ms = blocking.open_timeout_ms =
		options_wait_limit(worker->options);
	target.flags = DFI_NONBLOCK;
	source.flags = DFI_NONBLOCK;
	start.wait = DFI_WAIT_BLOCK;
	ret = protocol_target(
	    dfi, run, FLOW_INNER, i, target, &worker->targets[INNER]);
	if (!ret)
		ret = protocol_target(
		    dfi, run, FLOW_OUTER, i, target, &worker->targets[OUTER]);
	if (!ret)
		ret = protocol_source(
		    dfi, run, FLOW_REPORTS, i, blocking, &worker->reports);
	if (!ret)
		ret = protocol_target(
		    dfi, run, FLOW_START, i, start, &worker->start);
	if (!ret)
		ret = protocol_source(
		    dfi, run, FLOW_INNER, i, source, &worker->sources[INNER]);
	if (!ret)
		ret = protocol_source(
		    dfi, run, FLOW_OUTER, i, source, &worker->sources[OUTER]);
	if (!ret && worker->options->output)
		ret = protocol_source(
		    dfi, run, FLOW_ROWS, i, blocking, &worker->rows);
	return ret ? worker_fail(worker, "opening flows") : 0;
}

/* Reserve the memory for partitioning and joining. */
static int open_memory(struct worker *worker)
{
	const struct plan *plan = &worker->input->plan;
	uint64_t total, expected;
	uint32_t first, n;
	int r;

	plan_range(plan, worker->index, &first, &n);
	if (lines_open(&worker->lines, plan_partitions(plan)))
		return -1;
	for (r = 0; r < N_RELATIONS; r++) {
		total = plan->n_tuples[r];
		expected = plan_share(plan, (enum relation)r, worker->index);
		if (plan->direct && r == OUTER)
			total = expected = 0;
		if (lines_open(&worker->strays[r], n) ||
		    store_open(&worker->stores[r], first, n, total,
			expected + expected / 64))
			return -1;
	}
	worker->join.stores[INNER] = &worker->stores[INNER];
	worker->join.stores[OUTER] = &worker->stores[OUTER];
	worker->join.n_stores = 1;
	worker->join.first = first;
	worker->join.end = first + n;
	worker->join.progress = join_progress;
	worker->join.progress_arg = worker;
	if (worker->input->has_image && !worker->rows) {
		worker->join.groups = &worker->groups;
		return groups_open(&worker->groups, &worker->input->image,
		    plan->direct ? 0 : plan->bits);
	}
	if (plan->direct)
		return table_open(&worker->join.table, 0,
		    plan_share(plan, INNER, worker->index) + 1);
	return table_open(&worker->join.table, plan->bits,
	    2 * (plan->n_tuples[INNER] >> plan->bits));
}

static int make_input(struct worker *worker)
{
	const struct input *input = worker->input;

	if (slices_make(&worker->slices, input, worker->index))
		return -1;
	if (!input->has_image && worker->options->verify)
		generate_expect(&input->generator, worker->slices.tuples[OUTER],
		    worker->slices.n[OUTER], &worker->report.expected);
	if (!worker->rows)
		return 0;
	worker->matcher.image = &input->image;
	worker->matcher.result = &worker->report.result;
	worker->matcher.emit = emit_row;
	worker->matcher.emit_arg = worker;
	worker->join.match = matcher_match;
	worker->join.match_arg = &worker->matcher;
	return 0;
}

/* Wait until all workers are ready; *ns is when that was. */
static int wait_for_start(struct worker *worker, uint64_t *ns)
{
	const void *tuple;
	int ret;

	if (send_report(worker, REPORT_READY))
		return -1;
	ret = dfi_target_consume(worker->start, &tuple);
	if (ret < 0)
		return worker_fail(worker, "waiting for the start");
	if (ret == 0)
		return complain(
		    "worker %" PRIu32 ": there is no start", worker->index);
	/* Another machine's clock can't be compared with ours. */
	*ns = worker->options->first_node > 0
	    ? now_ns()
	    : ((const struct start *)tuple)->start_ns;
	return 0;
}

/*
 * A target that leaves before the end of its flow is an error to the source, so
 * wait for the end.
 */
static int end_start(struct worker *worker)
{
	const void *tuple;

	if (dfi_target_consume(worker->start, &tuple) != 0)
		return worker_fail(worker, "the end of the start");
	return 0;
}

/* The measured part. */
static int work(struct worker *worker)
{
	struct worker_times *times = &worker->report.times;
	uint64_t start = 0, inner, outer, end;

	if (wait_for_start(worker, &start))
		return -1;
	if (exchange_send(worker, INNER) || exchange_send(worker, OUTER) ||
	    exchange_finish(worker))
		return -1;
	outer = now_ns();
	inner = worker->ended_ns[INNER];
	if (!worker->input->plan.direct &&
	    join_run(&worker->join, &worker->report.result))
		return -1;
	end = now_ns();
	times->inner_ns = inner - start;
	times->outer_ns = outer - inner;
	times->join_ns = end - outer;
	return 0;
}

/* End the flows to the first process; whole is whether they are complete. */
static int close_reports(struct worker *worker, bool whole)
{
	struct dfi_source *ends[] = { worker->rows, worker->reports };
	int i, ret = 0;

	worker->rows = worker->reports = NULL;
	for (i = 0; i < 2; i++) {
		if (!ends[i])
			continue;
		if (!whole)
			dfi_source_abort(ends[i]);
		if (dfi_source_close(ends[i]) < 0 && whole)
			ret = worker_fail(worker, "reporting");
	}
	return ret;
}

static int close_endpoints(struct worker *worker, bool whole)
{
	int r, ret;

	ret = close_reports(worker, whole);
	for (r = 0; r < N_RELATIONS; r++) {
		if (worker->sources[r]) {
			dfi_source_abort(worker->sources[r]);
			dfi_source_close(worker->sources[r]);
		}
		if (worker->targets[r])
			dfi_target_close(worker->targets[r]);
	}
	if (worker->start)
		dfi_target_close(worker->start);
	return ret;
}

static void free_memory(struct worker *worker)
{
	int r;

	slices_free(&worker->slices);
	lines_close(&worker->lines);
	for (r = 0; r < N_RELATIONS; r++) {
		lines_close(&worker->strays[r]);
		store_close(&worker->stores[r]);
	}
	table_close(&worker->join.table);
	groups_close(&worker->groups);
}

int worker_run(const struct options *options, const struct input *input,
    struct dfi *dfi, uint32_t index)
{
	struct worker worker = {
		.options = options,
		.input = input,
		.dfi = dfi,
		.index = index,
	};
	int ret;

	if (options_pin(options))
		cpu_pin(index - options->first_node * options->threads);
	ret = open_endpoints(&worker);
	if (ret == 0)
		ret = open_memory(&worker);
	if (ret == 0)
		ret = make_input(&worker);
	if (ret == 0)
		ret = work(&worker);
	if (ret == 0)
		ret = end_start(&worker);
	if (ret == 0)
		ret = send_report(&worker, REPORT_DONE);
	if (close_endpoints(&worker, ret == 0))
		ret = -1;
	free_memory(&worker);
	return ret;
}
