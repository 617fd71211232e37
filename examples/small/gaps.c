/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends measurements to all targets, which prefer new ones to all of them. Lost
 * segments are not sent again, and a target gets a report of each gap. Only
 * multicasts over RDMA lose segments; elsewhere there are no gaps.
 */
#include <inttypes.h>
#include <stdint.h>
#include "small.h"

#define N_TARGETS 2
#define N_SAMPLES 100000

struct sample {
	uint64_t number;
};
static const struct dfi_field fields[] = { DFI_FIELD(struct sample, number) };
static const struct dfi_schema schema = DFI_SCHEMA(struct sample, fields);

static struct dfi *dfi;

static void *receive(void *arg)
{
	uint64_t got = 0, gaps = 0, lost = 0;
	const uint32_t *index = arg;
	struct dfi_target *target;
	const void *tuple;
	struct dfi_gap gap;
	int ret;

	check(dfi_target_open(dfi, "samples", *index, NULL, &target));
	while ((ret = dfi_target_consume(target, &tuple)) != 0) {
		if (ret == 1) {
			got++;
			continue;
		}
		if (ret != -ENODATA)
			check(ret);
		/* In a flow for latency a segment is a tuple. */
		check(dfi_target_gap(target, &gap));
		gaps++;
		lost += gap.count;
	}
	check(dfi_target_close(target));
	printf("target %" PRIu32 ": %" PRIu64 " samples, %" PRIu64
	       " gaps of %" PRIu64 " samples\n",
	    *index, got, gaps, lost);
	if (got + lost != N_SAMPLES)
		errx(1, "some samples are neither there nor in a gap");
	return NULL;
}

int main(void)
{
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	uint32_t indices[N_TARGETS] = { 0, 1 };
	struct dfi_registry *registry;
	pthread_t threads[N_TARGETS];
	struct dfi_source *source;
	struct sample sample;

	dfi = start(&registry);
	flow.kind = DFI_REPLICATE;
	flow.goal = DFI_LATENCY;
	flow.replicate.loss_policy = DFI_LOSS_NOTIFY;
	flow.schema = &schema;
	flow.n_sources = 1;
	flow.n_targets = N_TARGETS;
	check(dfi_flow_create(dfi, "samples", &flow));
	for (int i = 0; i < N_TARGETS; i++)
		threads[i] = spawn(receive, &indices[i]);
	check(dfi_source_open(dfi, "samples", 0, NULL, &source));
	for (sample.number = 0; sample.number < N_SAMPLES; sample.number++)
		check(dfi_source_push(source, &sample));
	check(dfi_source_close(source));
	for (int i = 0; i < N_TARGETS; i++)
		pthread_join(threads[i], NULL);
	stop(dfi, registry);
	return 0;
}
