/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The declarations of the flows. This is all it takes to change how the join
 * moves its data.
 */
#include "protocol.h"
#include "platform.h"

#include <stdio.h>

/*
 * Rings of the relations' flows. Segments hold whole lines. Rings of 256 KiB
 * stay in the second-level cache beside the lines of partitioning; all rings of
 * a target together take 2 MiB at most, until 4 segments is too few.
 */
#define SEGMENT_SIZE 8192
#define MAX_SEGMENTS 32
#define MIN_SEGMENTS 4
#define TARGET_SEGMENTS 256

static const struct dfi_field tuple_fields[] = {
	DFI_FIELD(struct tuple, key),
	DFI_FIELD(struct tuple, payload),
};
static const struct dfi_field start_fields[] = {
	DFI_FIELD(struct start, start_ns),
};
static const struct dfi_field report_fields[] = {
	DFI_FIELD(struct worker_report, kind),
	DFI_FIELD(struct worker_report, worker),
	DFI_FIELD_USER(struct worker_report, result, "result"),
	DFI_FIELD_USER(struct worker_report, expected, "result"),
	DFI_FIELD_USER(struct worker_report, times, "worker_times"),
	DFI_FIELD(struct worker_report, end_ns),
	DFI_FIELD(struct worker_report, progress),
};
static const struct dfi_field row_fields[] = {
	DFI_FIELD(struct row, inner),
	DFI_FIELD(struct row, outer),
};

static const struct dfi_schema schemas[N_FLOWS] = {
	[FLOW_INNER] = DFI_SCHEMA(struct tuple, tuple_fields),
	[FLOW_OUTER] = DFI_SCHEMA(struct tuple, tuple_fields),
	[FLOW_START] = DFI_SCHEMA(struct start, start_fields),
	[FLOW_REPORTS] = DFI_SCHEMA(struct worker_report, report_fields),
	[FLOW_ROWS] = DFI_SCHEMA(struct row, row_fields),
};

static void flow_name(
    const char *run, enum flow flow, char name[DFI_MAX_FLOW_NAME + 1])
{
	static const char *const names[N_FLOWS] = {
		"inner",
		"outer",
		"start",
		"reports",
		"rows",
	};

	snprintf(name, DFI_MAX_FLOW_NAME + 1, "%s.%s", run, names[flow]);
}

static uint32_t segments(uint32_t n_sources)
{
	uint32_t n = TARGET_SEGMENTS / n_sources;

	if (n > MAX_SEGMENTS)
		return MAX_SEGMENTS;
	return n < MIN_SEGMENTS ? MIN_SEGMENTS : n;
}

int protocol_create(
    struct dfi *dfi, const char *run, enum flow flow, const struct plan *plan)
{
	char name[DFI_MAX_FLOW_NAME + 1];
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &schemas[flow];
	attr.n_sources = flow == FLOW_START ? 1 : plan->n_workers;
	attr.n_targets = plan->n_workers;
	switch (flow) {
	case FLOW_INNER:
	case FLOW_OUTER:
		attr.routing = DFI_ROUTE_RADIX;
		attr.radix_bits = plan->bits;
		attr.segment_size = SEGMENT_SIZE;
		attr.segment_count = segments(plan->n_workers);
		break;
	case FLOW_START:
		attr.goal = DFI_LATENCY;
		attr.routing = DFI_ROUTE_DIRECT;
		break;
	case FLOW_REPORTS:
		attr.goal = DFI_LATENCY;
		attr.n_targets = 1;
		break;
	default:
		attr.n_targets = 1;
	}
	flow_name(run, flow, name);
	if (dfi_flow_create(dfi, name, &attr))
		return complain("%s", dfi_errmsg());
	return 0;
}

int protocol_source(struct dfi *dfi, const char *run, enum flow flow,
    uint32_t index, struct dfi_source_attr attr, struct dfi_source **source)
{
	char name[DFI_MAX_FLOW_NAME + 1];

	attr.schema = &schemas[flow];
	flow_name(run, flow, name);
	return dfi_source_open(dfi, name, index, &attr, source);
}

int protocol_target(struct dfi *dfi, const char *run, enum flow flow,
    uint32_t index, struct dfi_target_attr attr, struct dfi_target **target)
{
	char name[DFI_MAX_FLOW_NAME + 1];

	attr.schema = &schemas[flow];
	flow_name(run, flow, name);
	return dfi_target_open(dfi, name, index, &attr, target);
}
