/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends measurements to all targets, which prefer new ones to all of them. Lost
 * segments are not sent again, and a target gets a report of each gap. Only
 * multicasts over RDMA lose segments; elsewhere there are no gaps.
 */
#include <inttypes.h>
#include <stdint.h>
#include "small.h"

enum {
	N_TARGETS = 2,
	N_SAMPLES = 100000
};
struct sample {
	uint64_t number;
};
static const struct dfi_field fields[] = { DFI_FIELD(struct sample, number) };
static const struct dfi_schema schema = DFI_SCHEMA(struct sample, fields);

static struct dfi *dfi;

struct receiver {
	uint32_t index;
	uint64_t got, gaps, lost;
};

static void *receive(void *arg)
{
	struct receiver *self = arg;
	struct dfi_target *target;
	const void *tuple;
	struct dfi_gap gap;
	int ret;

	check(dfi_target_open(dfi, "samples", self->index, NULL, &target));
	while ((ret = dfi_target_consume(target, &tuple)) != 0) {
		if (ret == 1) {
			self->got++;
			continue;
		}
		if (ret != -ENODATA)
			check(ret);
		/* In a flow for latency a segment is a tuple. */
		check(dfi_target_gap(target, &gap));
		self->gaps++;
		self->lost += gap.count;
	}
	check(dfi_target_close(target));
	return NULL;
}

int main(void)
{
	struct receiver receivers[N_TARGETS] = { { .index = 0 },
		{ .index = 1 } };
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_registry *registry;
	pthread_t threads[N_TARGETS];
	struct dfi_source *source;
	struct sample sample;
	int wrong = 0;

	dfi = start(&registry);
	flow.kind = DFI_REPLICATE;
	flow.goal = DFI_LATENCY;
	flow.replicate.loss_policy = DFI_LOSS_NOTIFY;
	flow.schema = &schema;
	flow.n_sources = 1;
	flow.n_targets = N_TARGETS;
	check(dfi_flow_create(dfi, "samples", &flow));
	for (int i = 0; i < N_TARGETS; i++)
		threads[i] = spawn(receive, &receivers[i]);
	check(dfi_source_open(dfi, "samples", 0, NULL, &source));
	for (sample.number = 0; sample.number < N_SAMPLES; sample.number++)
		check(dfi_source_push(source, &sample));
	check(dfi_source_close(source));
	for (int i = 0; i < N_TARGETS; i++) {
		struct receiver *r = &receivers[i];

		pthread_join(threads[i], NULL);
		printf("target %d: %" PRIu64 " samples, %" PRIu64
		       " gaps of %" PRIu64 " samples\n",
		    i, r->got, r->gaps, r->lost);
		wrong |= r->got + r->lost != N_SAMPLES;
	}
	stop(dfi, registry);
	return wrong;
}
