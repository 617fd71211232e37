/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The declarations of the flows. To change how the join moves its data, change
 * only this file.
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

/*
 * A silent machine is gone after this time. On one machine, the end of a
 * process is seen at once, and a stopped one may continue later.
 */
#define LEASE_MS 10000

static const struct dfi_field task_fields[] = {
	DFI_FIELD(struct task, inner),
	DFI_FIELD(struct task, outer),
	DFI_FIELD(struct task, seed),
	DFI_FIELD(struct task, selectivity),
	DFI_FIELD(struct task, zipf),
	DFI_FIELD(struct task, nodes),
	DFI_FIELD(struct task, threads),
	DFI_FIELD(struct task, radix_bits),
	DFI_FIELD(struct task, loopback),
	DFI_FIELD(struct task, verify),
	DFI_FIELD(struct task, progress),
	DFI_FIELD(struct task, replicates),
	DFI_FIELD(struct task, fixed_bits),
};
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
	DFI_FIELD(struct worker_report, progress),
};
static const struct dfi_field row_fields[] = {
	DFI_FIELD(struct row, inner),
	DFI_FIELD(struct row, outer),
};

static const struct dfi_schema schemas[N_FLOWS] = {
	[FLOW_TASK] = DFI_SCHEMA(struct task, task_fields),
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
		"task",
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

uint64_t protocol_ring_bytes(uint32_t n_workers)
{
	return (uint64_t)n_workers * segments(n_workers) * SEGMENT_SIZE;
}

int protocol_open(const struct options *options, const char *registry,
    const char *name, struct dfi **dfi)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	attr.registry = registry;
	attr.node_name = name;
	attr.open_timeout_ms = options->timeout_ms;
	if (options_across(options))
		attr.lease_ttl_ms = LEASE_MS;
	return dfi_open(&attr, dfi);
}

/* All differences between the declarations of the two strategies. */
static void choose_routing(
    struct dfi_flow_attr *attr, enum flow flow, const struct plan *plan)
{
	if (!plan->replicates) {
		attr->routing = DFI_ROUTE_RADIX;
		attr->radix_bits = plan->bits;
	} else if (flow == FLOW_INNER) {
		attr->kind = DFI_REPLICATE;
	} else {
		attr->routing = DFI_ROUTE_FUNCTION; /* to_self() */
	}
}

/* The target of outer tuples if the inner relation is replicated. */
static uint32_t to_self(void *arg, const void *tuple, uint32_t n_targets)
{
	(void)tuple;
	(void)n_targets;
	return (uint32_t)(uintptr_t)arg;
}

int protocol_create(struct dfi *dfi, const char *run, enum flow flow,
    uint32_t n_nodes, const struct plan *plan)
{
	char name[DFI_MAX_FLOW_NAME + 1];
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &schemas[flow];
	attr.n_sources = plan->n_workers;
	attr.n_targets = plan->n_workers;
	switch (flow) {
	case FLOW_TASK:
		attr.goal = DFI_LATENCY;
		attr.routing = DFI_ROUTE_DIRECT;
		attr.n_sources = 1;
		attr.n_targets = n_nodes;
		break;
	case FLOW_INNER:
	case FLOW_OUTER:
		choose_routing(&attr, flow, plan);
		attr.segment_size = SEGMENT_SIZE;
		attr.segment_count = segments(plan->n_workers);
		break;
	case FLOW_START:
		attr.goal = DFI_LATENCY;
		attr.routing = DFI_ROUTE_DIRECT;
		attr.n_sources = 1;
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

int protocol_count_targets(
    struct dfi *dfi, const char *run, enum flow flow, uint32_t *n)
{
	char name[DFI_MAX_FLOW_NAME + 1];
	struct dfi_flow_info info;
	int ret;

	flow_name(run, flow, name);
	ret = dfi_flow_lookup(dfi, name, &info);
	if (ret == 0)
		*n = info.attached_targets;
	return ret;
}

int protocol_source(struct dfi *dfi, const char *run, enum flow flow,
    uint32_t index, struct dfi_source_attr attr, struct dfi_source **source)
{
	char name[DFI_MAX_FLOW_NAME + 1];

	attr.schema = &schemas[flow];
	if (flow == FLOW_OUTER) {
		attr.route = to_self;
		attr.route_arg = (void *)(uintptr_t)index;
	}
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
