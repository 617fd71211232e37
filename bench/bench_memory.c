/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a shuffle between all threads of all nodes takes on a node,
 * by dfi_flow_estimate(). The limit is the DFI paper's: a ring of the same
 * segments at both ends of each pair of a source and a target.
 */
#include <dfi/dfi.h>

#include "../common/complain.h"
#include "bench.h"
#include "flow_job.h"
#include "session.h"

static const struct column columns[] = {
	{ "nodes", "nodes", 5, 0, false },
	{ "threads", "threads", 7, 0, false },
	{ "rings", "rings", 8, 0, false },
	{ "endpoint_mib", "endpoint[MiB]", 13, 2, false },
	{ "value", "result[MiB]", 11, 1, false },
	{ "baseline_value", "limit[MiB]", 10, 1, false },
	{ "ratio", "ratio", 6, 3, false },
	{ "baseline", "limit is", 14, 0, false },
	{ "segment_size", "segment[B]", 10, 0, true },
	{ "segment_count", "segments", 8, 0, true },
	{ 0 },
};

#define MIB (1024.0 * 1024)

/* What a node's sources reserve for rings towards the targets of all nodes. */
static double sources_bytes(
    const struct node_count *count, const struct dfi_flow_needs *needs)
{
	double targets = (double)count->nodes * count->threads;

	return count->threads *
	    ((double)needs->source_bytes +
		targets * (double)needs->shadow_bytes);
}

static bool add_row(const struct memory_options *options,
    const struct session *session, const struct node_count *count,
    struct report *report)
{
	const struct common_options *common = &options->common;
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct tuple_schema schema;
	struct dfi_flow_needs needs;
	struct summary summary;
	double paper, planned;
	json_t *row;

	tuple_schema_init(&schema, common->tuple_sizes[0]);
	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema.schema;
	attr.n_sources = attr.n_targets = count->nodes * count->threads;
	attr.transport = session->transport;
	attr.segment_size = common->geometry.segment_size;
	attr.segment_count = common->geometry.segment_count;
	if (dfi_flow_estimate(session->dfi, &attr, &needs) < 0) {
		complain("dfi_flow_estimate: %s", dfi_errmsg());
		return false;
	}
	planned = (count->threads * (double)needs.target_bytes +
		      sources_bytes(count, &needs)) /
	    MIB;
	paper = 2.0 * count->threads * attr.n_sources * needs.segment_size *
	    needs.segment_count / MIB;
	summary = stats_summary(&planned, 1);
	row = json_pack("{s:s, s:i, s:i, s:I, s:i, s:i}", "experiment",
	    "memory", "nodes", (int)count->nodes, "threads",
	    (int)count->threads, "rings", (json_int_t)needs.rings,
	    "segment_size", (int)needs.segment_size, "segment_count",
	    (int)needs.segment_count);
	report_result(row, "MiB", &summary, 1, true);
	json_object_set_new(row, "endpoints", json_integer(attr.n_sources));
	json_object_set_new(
	    row, "endpoint_mib", report_number(planned / count->threads));
	report_baseline(row, "rings both ends", &planned, &paper, 1);
	report_row(report, row);
	return true;
}

int bench_memory(int argc, char **argv)
{
	static struct memory_options options;
	struct session session;
	struct report report;
	bool done = true;
	uint32_t i;
	int status;

	memory_options_parse(argc, argv, &options);
	if (!session_open(&options.common, &session))
		return 1;
	report_open(&report, options.common.format, "memory", columns, 1);
	for (i = 0; i < options.n_counts && done; i++)
		done = add_row(&options, &session, &options.counts[i], &report);
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
