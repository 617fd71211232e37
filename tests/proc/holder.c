/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that holds a flow while others query it. It creates the flow "held"
 * with three sources and two targets, "held-by-all", and "held-in-parts", which
 * has a tree. Then it attaches a target of the first, prints "ready", and
 * leaves at the end of stdin. On an "r" it reads one tuple of a hundred of the
 * flow "cancelled", and on a following "c" cancels it. Takes the registry from
 * DFI_REGISTRY.
 *
 * holder NODE_NAME
 */
#include <stdio.h>
#include <stdlib.h>

#include "worker.h"

static void check(int ret)
{
	if (ret < 0) {
		fprintf(stderr, "holder: %s\n", dfi_errmsg());
		exit(EXIT_FAILURE);
	}
}

#define N_PUSHED 100

static struct dfi_source *source;
static struct dfi_target *reading;

static void read_one(struct dfi *dfi)
{
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct worker_tuple tuple;
	const void *read;
	uint32_t i;

	flow.kind = DFI_SHUFFLE;
	flow.schema = &worker_schema;
	flow.n_sources = flow.n_targets = 1;
	flow.segment_size = N_PUSHED * sizeof(tuple);
	flow.segment_count = 4;
	check(dfi_flow_create(dfi, "cancelled", &flow));
	check(dfi_target_open(dfi, "cancelled", 0, NULL, &reading));
	check(dfi_source_open(dfi, "cancelled", 0, NULL, &source));
	for (i = 0; i < N_PUSHED; i++) {
		worker_make_tuple(0, i, &tuple);
		check(dfi_source_push(source, &tuple));
	}
	check(dfi_target_consume(reading, &read));
}

static void close_both(void)
{
	if (!reading)
		return;
	check(dfi_source_close(source));
	check(dfi_target_close(reading));
}

int main(int argc, char **argv)
{
	static const struct dfi_aggregate count = { .function = DFI_COUNT };
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_target *target;
	struct dfi *dfi;
	int c;

	attr.node_name = argc > 1 ? argv[1] : NULL;
	check(dfi_open(&attr, &dfi));
	flow.kind = DFI_SHUFFLE;
	flow.schema = &worker_schema;
	flow.n_sources = 3;
	flow.n_targets = 2;
	flow.key = "number";
	flow.segment_size = 1600;
	flow.segment_count = 5;
	check(dfi_flow_create(dfi, "held", &flow));
	check(dfi_target_open(dfi, "held", 1, NULL, &target));
	flow.kind = DFI_REPLICATE;
	flow.key = NULL;
	check(dfi_flow_create(dfi, "held-by-all", &flow));
	flow.kind = DFI_COMBINE;
	flow.n_sources = 5;
	flow.combine.group_by = "key";
	flow.combine.aggregates = &count;
	flow.combine.n_aggregates = 1;
	flow.combine.fan_in = 2;
	check(dfi_flow_create(dfi, "held-in-parts", &flow));
	puts("ready");
	fflush(stdout);
	while ((c = getchar()) != EOF)
		if (c == 'r')
			read_one(dfi);
		else if (c == 'c')
			check(dfi_target_cancel(reading));
	close_both();
	check(dfi_target_close(target));
	check(dfi_close(dfi));
	return EXIT_SUCCESS;
}
