/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The distributed radix hash join: reads the input, joins it over flows or by
 * the local baseline, checks and reports the result. README.md describes the
 * files.
 */
#include "../../common/children.h"
#include "../../common/output.h"
#include "baseline.h"
#include "coordinator.h"
#include "node.h"
#include "options.h"
#include "platform.h"
#include "reference.h"
#include "report.h"
#include "rows.h"
#include "share.h"
#include "tables.h"

#include <stdlib.h>
#include <unistd.h>

/* The state of the first process. */
struct job {
	struct options options;
	struct tables tables;
	int image_fd;
	struct input input;
	struct rows rows;
	struct outcome outcome;
};

/* Load the tables, if there are any, and lay them out for all nodes. */
static int load(struct job *job)
{
	struct image_side sides[N_RELATIONS];
	const struct tables *tables = &job->tables;
	int r;

	if (!job->options.csv[INNER])
		return 0;
	if (tables_load(&job->options, &job->tables) ||
	    (job->options.output && rows_begin(&job->rows, tables)))
		return -1;
	for (r = 0; r < N_RELATIONS; r++) {
		sides[r] = tables_side(tables, (enum relation)r);
		job->outcome.keyless[r] = tables->csv[r].n_rows - sides[r].n;
	}
	job->image_fd = image_create(sides);
	return job->image_fd < 0 ? -1 : 0;
}

static int join(struct job *job, char **argv)
{
	const struct options *options = &job->options;
	struct outcome *outcome = &job->outcome;

	if (input_open(&job->input, options, job->image_fd))
		return -1;
	/* The memory of tables was checked when they were loaded. */
	if (!job->input.has_image && input_check_memory(&job->input, options))
		return -1;
	outcome->plan = job->input.plan;
	outcome->workers = calloc(
	    outcome->plan.n_workers, sizeof(*outcome->workers));
	if (!outcome->workers)
		return complain("no memory");
	if (options->baseline)
		return baseline_run(options, &job->input, outcome);
	return coordinator_run(options, argv, &job->input, job->image_fd,
	    options->output ? &job->rows : NULL, outcome);
}

/* The expected result; for synthetic input the workers have sent it. */
static int expect(struct job *job)
{
	struct outcome *outcome = &job->outcome;

	if (!job->options.verify)
		return 0;
	outcome->has_expected = true;
	if (job->input.has_image)
		return reference_join(
		    job->input.image.sides, &outcome->expected);
	if (outcome->expected.matches != job->input.generator.n_matches)
		return complain("the generator made %ju matching tuples "
				"instead of %ju",
		    (uintmax_t)outcome->expected.matches,
		    (uintmax_t)job->input.generator.n_matches);
	return 0;
}

static int run(struct job *job, char **argv)
{
	const struct options *options = &job->options;
	FILE *out = stdout;
	int ret;

	job->image_fd = -1;
	if (options->output && rows_open(&job->rows, options))
		return -1;
	/* Nothing else goes to the reader of the rows. */
	if (options->output && job->rows.file.is_stdout)
		out = stderr;
	ret = load(job);
	if (ret == 0)
		ret = join(job, argv);
	if (ret == 0)
		ret = expect(job);
	if (options->output &&
	    rows_close(&job->rows, ret == 0 && !outcome_wrong(&job->outcome)))
		ret = -1;
	if (ret == 0)
		ret = report(out, &job->outcome, options);
	input_close(&job->input);
	tables_free(&job->tables);
	if (job->image_fd >= 0)
		close(job->image_fd);
	free(job->outcome.workers);
	return ret;
}

int main(int argc, char **argv)
{
	static struct job job;
	int ret;

	output_open();
	child_enter();
	options_parse(&job.options, argc, argv);
	if (job.options.is_node)
		ret = node_run(&job.options);
	else if (job.options.first_node > 0)
		ret = share_run(&job.options, argv) ? 1 : 0;
	else
		ret = run(&job, argv) ? 1 : 0;
	options_free(&job.options);
	return ret;
}
