/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coordination uses flows as well: one 1:N flow gives nodes their task, another
 * one starts the workers, and an N:1 flow has their reports. This process
 * handles no tuples of the relations, and sleeps while the workers work.
 */
#include "coordinator.h"
#include "nodes.h"
#include "platform.h"
#include "protocol.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* How often it checks the processes, and rows if there are any. */
#define TICK_MS 100
#define TICK_NS UINT64_C(100000000)
#define ROWS_TICK_MS 1

/* The same while nodes and workers come. */
#define AWAIT_TICK_NS 10000000

/* If some are missing then, the library gets this time to find out which. */
#define LATE_MS 1000

/*
 * The time that nodes get to end after a failure. Running nodes learn of it by
 * their flows, and report it; before the start they learn nothing.
 */
#define FAILURE_GRACE_MS 1000
#define EARLY_GRACE_MS 500

#define PROGRESS_AFTER_NS UINT64_C(1000000000)

struct coordinator {
	const struct options *options;
	const struct input *input;
	struct rows *out; /* NULL: none are written */
	struct outcome *outcome;
	struct dfi_registry *registry; /* NULL: another process has it */
	const char *registry_address;  /* NULL: as the environment says */
	struct dfi *dfi;
	char run[MAX_RUN_NAME + 1];
	struct children children;
	struct dfi_source *start;
	struct dfi_target *reports, *rows;
	uint64_t begin_ns, start_ns; /* of the input, of the join */
	uint32_t n_ready, n_done;
	bool rows_ended;
	uint64_t progress, *worker_progress;
	bool shows_progress;
};

static int fail(const char *what)
{
	return complain("%s: %s", what, dfi_errmsg());
}

/* Join the registry, or start one for the nodes of this machine. */
static int open_registry(struct coordinator *c)
{
	const struct options *options = c->options;

	c->registry_address = options->registry;
	if (!options->registry && !options->run) {
		if (dfi_registry_start(NULL, &c->registry))
			return fail("registry");
		c->registry_address = dfi_registry_address(c->registry);
	}
	if (protocol_open(options, c->registry_address, "coordinator", &c->dfi))
		return fail("registry");
	if (options->run)
		snprintf(c->run, sizeof(c->run), "%s", options->run);
	else
		snprintf(c->run, sizeof(c->run), "radix_join-%d-%" PRIx64,
		    (int)getpid(), now_ns());
	return 0;
}

/* Publish the flows, and open the ends of this process. */
static int open_flows(struct coordinator *c)
{
	struct dfi_target_attr reports = DFI_TARGET_ATTR_INIT;
	struct dfi_target_attr rows = DFI_TARGET_ATTR_INIT;
	int flow;

	for (flow = 0; flow < N_FLOWS; flow++)
		if ((flow != FLOW_ROWS || c->out) &&
		    protocol_create(c->dfi, c->run, (enum flow)flow,
			c->options->nodes, &c->input->plan))
			return -1;
	reports.wait = DFI_WAIT_BLOCK;
	reports.stall_timeout_ms = c->out ? ROWS_TICK_MS : TICK_MS;
	if (protocol_target(
		c->dfi, c->run, FLOW_REPORTS, 0, reports, &c->reports))
		return fail("opening flows");
	rows.flags = DFI_NONBLOCK;
	c->rows_ended = !c->out;
	if (c->out &&
	    protocol_target(c->dfi, c->run, FLOW_ROWS, 0, rows, &c->rows))
		return fail("opening flows");
	return 0;
}

/*
 * Open the source of a flow to nodes or workers when all of them are attached.
 * If a process of this machine ends before, this fails at once. The time limit
 * is for other machines, whose processes it does not see.
 */
static int await(struct coordinator *c, enum flow flow, uint32_t n_targets,
    struct dfi_source **source)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	static const struct timespec interval = { 0, AWAIT_TICK_NS };
	uint64_t deadline = UINT64_MAX;
	uint32_t n = 0;
	int ret;

	if (options_across(c->options))
		deadline = now_ns() +
		    c->options->timeout_ms * UINT64_C(1000000);
	while (n < n_targets && now_ns() < deadline) {
		if (protocol_count_targets(c->dfi, c->run, flow, &n))
			return fail("waiting for nodes");
		if (children_check(&c->children))
			return -1;
		if (n < n_targets)
			nanosleep(&interval, NULL);
	}
	/* The library reports which ones are missing. */
	if (n < n_targets)
		attr.open_timeout_ms = LATE_MS;
	ret = protocol_source(c->dfi, c->run, flow, 0, attr, source);
	if (ret && n < n_targets)
		return complain("not all %s came in %" PRIu32
				" s (--timeout): %s",
		    flow == FLOW_TASK ? "nodes" : "workers",
		    c->options->timeout_ms / 1000, dfi_errmsg());
	return ret ? fail("waiting for nodes") : 0;
}

/* Send a tuple to each of n targets of a flow, and end it. */
static int push_to_all(struct dfi_source *source, const void *tuple, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (dfi_source_push_to(source, i, tuple) < 0)
			break;
	/* Returns the error of a push that failed. */
	return dfi_source_close(source);
}

/*
 * Gather the nodes, send them the task, and wait until all workers are
 * attached. From here on, the death of a process is an error of a flow to all
 * others.
 */
static int gather(struct coordinator *c)
{
	struct task task = task_of(c->options, &c->input->plan);
	struct dfi_source *source;

	if (await(c, FLOW_TASK, c->options->nodes, &source))
		return -1;
	if (push_to_all(source, &task, c->options->nodes))
		return fail("telling the nodes what to do");
	return await(c, FLOW_START, c->input->plan.n_workers, &c->start);
}

/* All workers are ready and wait for the start. */
static int start(struct coordinator *c)
{
	struct dfi_source *source = c->start;
	struct start tuple;

	c->start = NULL;
	c->start_ns = tuple.start_ns = now_ns();
	if (push_to_all(source, &tuple, c->input->plan.n_workers))
		return fail("starting");
	return 0;
}

static int take_report(
    struct coordinator *c, const struct worker_report *report)
{
	struct outcome *outcome = c->outcome;
	uint32_t worker = report->worker;
	uint64_t total_ns;

	if (worker >= c->input->plan.n_workers)
		return complain("a report of worker %" PRIu32
				", who doesn't exist",
		    worker);
	switch (report->kind) {
	case REPORT_READY:
		result_add(&outcome->expected, &report->expected);
		if (++c->n_ready == c->input->plan.n_workers)
			return start(c);
		return 0;
	case REPORT_DONE:
		c->n_done++;
		result_add(&outcome->result, &report->result);
		outcome->workers[worker] = report->times;
		total_ns = worker_total_ns(&report->times);
		if (total_ns > outcome->total_ns)
			outcome->total_ns = total_ns;
		return 0;
	default:
		c->progress += report->progress - c->worker_progress[worker];
		c->worker_progress[worker] = report->progress;
		return 0;
	}
}

/* Workers make their input before the start, and report when it is ready. */
static void show_input_progress(struct coordinator *c)
{
	if (now_ns() - c->begin_ns < PROGRESS_AFTER_NS ||
	    !isatty(STDERR_FILENO))
		return;
	c->shows_progress = true;
	fprintf(stderr,
	    "\r\033[Kradix_join: input of %" PRIu32 " of %" PRIu32
	    " workers is made, %.0f s",
	    c->n_ready, c->input->plan.n_workers,
	    (double)(now_ns() - c->begin_ns) / 1e9);
}

/* Each tuple is sent, received unless it stays with its sender, and joined. */
static void show_progress(struct coordinator *c)
{
	const struct plan *plan = &c->input->plan;
	uint64_t n = plan->n_tuples[INNER] + plan->n_tuples[OUTER];
	uint64_t all = 3 * n;

	if (plan->replicates)
		all = 2 * n + (2 * plan->n_workers - 1) * plan->n_tuples[INNER];
	else if (!c->options->loopback)
		all -= n / plan->n_workers;
	if (now_ns() - c->start_ns < PROGRESS_AFTER_NS ||
	    !isatty(STDERR_FILENO) || all == 0)
		return;
	c->shows_progress = true;
	fprintf(stderr, "\r\033[Kradix_join: %3.0f %%",
	    100 * (double)c->progress / (double)all);
}

static void hide_progress(struct coordinator *c)
{
	if (c->shows_progress)
		fprintf(stderr, "\r\033[K");
	c->shows_progress = false;
}

/* Write the rows that have come. */
static int take_rows(struct coordinator *c)
{
	struct dfi_batch batch;
	const struct row *rows;
	uint32_t i;
	int ret, err = 0;

	while (!c->rows_ended && err == 0) {
		ret = dfi_target_consume_batch(c->rows, &batch);
		if (ret == -EAGAIN)
			return 0;
		if (ret < 0)
			return fail("rows");
		if (ret == 0) {
			c->rows_ended = true;
			return 0;
		}
		rows = batch.tuples;
		for (i = 0; i < batch.count && err == 0; i++)
			err = rows_write(c->out, rows[i].inner, rows[i].outer);
		dfi_target_release(c->rows, &batch);
	}
	return err;
}

/* Take reports and rows until both flows have ended. */
static int collect(struct coordinator *c)
{
	uint64_t checked_ns = now_ns();
	bool reports_ended = false;
	const void *tuple;
	int ret;

	while (!reports_ended || !c->rows_ended) {
		if (now_ns() - checked_ns >= TICK_NS) {
			if (children_check(&c->children))
				return -1;
			checked_ns = now_ns();
		}
		ret = reports_ended ? -ETIMEDOUT
				    : dfi_target_consume(c->reports, &tuple);
		if (ret == 0) {
			reports_ended = true;
		} else if (ret > 0) {
			if (take_report(c, tuple))
				return -1;
			if (c->start_ns)
				show_progress(c);
		} else if (ret == -ETIMEDOUT) {
			if (!c->start_ns)
				show_input_progress(c);
		} else {
			return fail("reports");
		}
		if (c->start_ns && take_rows(c))
			return -1;
	}
	if (c->n_done != c->input->plan.n_workers)
		return complain("only %" PRIu32 " of %" PRIu32
				" workers are done",
		    c->n_done, c->input->plan.n_workers);
	return 0;
}

/* Close everything; whole is whether the join succeeded. */
static int finish(struct coordinator *c, bool whole)
{
	int32_t grace_ms = c->start_ns ? FAILURE_GRACE_MS : EARLY_GRACE_MS;
	int ret = 0;

	/*
	 * On failure, wait before leaving the flows. Otherwise workers would
	 * report that nobody takes their reports instead of the failed process.
	 */
	if (children_end(&c->children, whole ? -1 : grace_ms))
		ret = -1;
	if (c->start)
		dfi_source_abort(c->start);
	if (c->reports)
		dfi_target_close(c->reports);
	if (c->rows)
		dfi_target_close(c->rows);
	if (c->dfi)
		dfi_close(c->dfi);
	if (c->registry)
		dfi_registry_stop(c->registry);
	return ret;
}

int coordinator_run(const struct options *options, char **argv,
    const struct input *input, int image_fd, struct rows *rows,
    struct outcome *outcome)
{
	struct coordinator c = {
		.options = options,
		.input = input,
		.out = rows,
		.outcome = outcome,
		.begin_ns = now_ns(),
	};
	int ret;

	c.worker_progress = calloc(
	    input->plan.n_workers, sizeof(*c.worker_progress));
	if (!c.worker_progress)
		return complain("no memory");
	ret = open_registry(&c);
	if (ret == 0)
		ret = open_flows(&c);
	if (ret == 0)
		ret = nodes_start(&c.children, options, argv,
		    c.registry_address, c.run, image_fd);
	if (ret == 0)
		ret = gather(&c);
	if (ret == 0)
		ret = collect(&c);
	hide_progress(&c);
	if (finish(&c, ret == 0))
		ret = -1;
	free(c.worker_progress);
	return ret;
}
