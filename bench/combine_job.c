/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending and receiving loops of combiner flows. The target receives a
 * result for each group, so checking computes all results again.
 */
#include "combine_job.h"

#include <errno.h>
#include <stdlib.h>

void value_schema_init(struct tuple_schema *schema, uint32_t tuple_size)
{
	tuple_schema_init(schema, tuple_size);
	schema->fields[1] = (struct dfi_field){
		.name = "value",
		.type = DFI_INT64,
		.offset = 8,
		.size = 8,
	};
	schema->fields[2] = (struct dfi_field){
		.name = "rest",
		.type = DFI_BYTES,
		.offset = 16,
		.size = tuple_size - 16,
	};
	schema->schema.n_fields = tuple_size > 16 ? 3 : 2;
}

void result_schema_init(struct tuple_schema *schema, uint64_t n_groups)
{
	struct dfi_field *sum = &schema->fields[n_groups ? 1 : 0];

	tuple_schema_init(schema, 8);
	*sum = (struct dfi_field){
		.name = "sum_value",
		.type = DFI_INT64,
		.offset = n_groups ? 8 : 0,
		.size = 8,
	};
	schema->schema.n_fields = n_groups ? 2 : 1;
	schema->schema.tuple_size = sum->offset + 8;
}

static force_inline int send_groups(struct sender *sender, size_t tuple_size)
{
	struct pattern pattern = pattern_from(sender->first_word);
	uint64_t left = sender->plan->tuples;
	const uint64_t n_groups = sender->plan->n_groups;
	struct dfi_span span;
	uint32_t n, i;
	char *next;
	int ret;

	while (left > 0) {
		ret = dfi_source_claim(sender->source, 0, &span);
		if (ret < 0)
			return ret;
		n = left < span.count ? (uint32_t)left : span.count;
		next = span.tuples;
		for (i = 0; i < n; i++, next += tuple_size)
			tuple_fill_group(next, tuple_size, &pattern, n_groups);
		ret = dfi_source_commit(sender->source, &span, n);
		if (ret < 0)
			return ret;
		left -= n;
	}
	return 0;
}

int combine_send(struct sender *sender)
{
	/* Without groups the source works like that of a shuffle flow. */
	if (!sender->plan->n_groups)
		return flow_send(sender);
	RETURN_BY_SIZE(send_groups, sender, sender->plan->tuple_size);
}

/* ---- The results -----------------------------------------------------------
 */

/* A result without groups has only the sum. */
struct group_sum {
	uint64_t key;
	uint64_t sum;
};

/* Add what all sources sent for each group, minus what has come. */
static void add_expected(const struct plan *plan, uint64_t *sums)
{
	const uint64_t words = plan->tuple_size / 8;
	uint64_t word, i;
	uint32_t source;

	for (source = 0; source < plan->n_sources; source++) {
		word = source_first_word(source);
		for (i = 0; i < plan->tuples; i++, word += words)
			sums[plan->n_groups ? group_of(word, plan->n_groups)
					    : 0] += word + 1;
	}
}

static void take_results(
    struct receiver *receiver, const struct dfi_batch *batch, uint64_t *sums)
{
	const struct plan *plan = receiver->plan;
	const struct group_sum *result = batch->tuples;
	const uint64_t *total = batch->tuples;
	uint32_t i;

	if (!plan->n_groups) {
		receiver->sum.odd += *total;
		if (sums)
			sums[0] -= *total;
		return;
	}
	for (i = 0; i < batch->count; i++, result++) {
		receiver->sum.odd += result->sum;
		if (result->key >= plan->n_groups)
			receiver->bad++;
		else if (sums)
			sums[result->key] -= result->sum;
	}
}

static int receive_results(struct receiver *receiver, uint64_t *sums)
{
	struct dfi_target *target = receiver->targets[0];
	struct dfi_target_stats stats;
	struct dfi_batch batch;
	int ret;

	while ((ret = dfi_target_consume_batch(target, &batch)) > 0) {
		take_results(receiver, &batch, sums);
		dfi_target_release(target, &batch);
	}
	dfi_target_query(target, &stats);
	/* Partial aggregates have sizes of their own. */
	receiver->tuples = stats.bytes;
	return ret;
}

int combine_receive(struct receiver *receiver)
{
	const struct plan *plan = receiver->plan;
	uint64_t n = plan->n_groups ? plan->n_groups : 1, i;
	uint64_t *sums = NULL;
	int ret;

	if (!plan->check)
		return receive_results(receiver, NULL);
	sums = calloc(n, sizeof(*sums));
	if (!sums)
		return -ENOMEM;
	add_expected(plan, sums);
	ret = receive_results(receiver, sums);
	for (i = 0; i < n; i++)
		receiver->bad += sums[i] != 0;
	free(sums);
	return ret;
}
