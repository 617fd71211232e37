/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input of workers: one interface for synthetic relations and tables, for
 * the join over flows and for the baseline.
 */
#include "input.h"
#include "../../common/memory.h"
#include "hash_table.h"
#include "partition.h"
#include "platform.h"
#include "protocol.h"

#include <stdio.h>

/*
 * Up to this number, a lookup in the table, in the second-level or third-level
 * cache, is faster than partitioning the outer relation.
 */
#define DIRECT_TUPLES 65536

/* Further memory of a node, with the rings of the small flows. */
#define PROCESS_SIZE (UINT64_C(4) << 20)

/*
 * The cost of both strategies, counted in tuples that are moved into or out of
 * a ring, or built into a hash table, which takes about as long. Probing costs
 * the same in both.
 *
 *	repartition  all tuples but one in W travel; each inner one is built in
 *	replicate    each inner tuple travels to W workers, who all build it in
 */
static bool is_replicated(const struct plan *plan, enum strategy strategy)
{
	double workers = plan->n_workers;
	double inner = (double)plan->n_tuples[INNER];
	double outer = (double)plan->n_tuples[OUTER];

	if (strategy != STRATEGY_AUTO)
		return strategy == STRATEGY_REPLICATE;
	return 2 * workers * inner <
	    (inner + outer) * (workers - 1) / workers + inner;
}

void plan_make(struct plan *plan, const struct options *options,
    const uint64_t n_tuples[N_RELATIONS])
{
	memset(plan, 0, sizeof(*plan));
	plan->n_tuples[INNER] = n_tuples[INNER];
	plan->n_tuples[OUTER] = n_tuples[OUTER];
	plan->n_workers = options_workers(options);
	plan->replicates = !options->baseline &&
	    is_replicated(plan, options->strategy);
	plan->bits = options->radix_bits ? options->radix_bits
					 : partition_bits(plan);
	plan->direct = !options->baseline && !options->fixed_bits &&
	    plan_share(plan, INNER, 0) <= DIRECT_TUPLES;
}

int input_open(struct input *input, const struct options *options, int image_fd)
{
	uint64_t n_tuples[N_RELATIONS];
	int i;

	memset(input, 0, sizeof(*input));
	if (image_fd >= 0) {
		if (image_map(image_fd, &input->image))
			return -1;
		input->has_image = true;
	} else {
		generator_init(&input->generator, options->n_tuples[INNER],
		    options->n_tuples[OUTER], options->selectivity,
		    options->zipf, options->seed);
	}
	for (i = 0; i < N_RELATIONS; i++)
		n_tuples[i] = input->has_image ? input->image.sides[i].n
					       : options->n_tuples[i];
	plan_make(&input->plan, options, n_tuples);
	return 0;
}

/* The memory of a worker's lines and stores. */
static uint64_t stores_need(
    const struct plan *plan, const struct options *options)
{
	uint64_t partitions = plan_partitions(plan), owned = partitions;
	uint64_t share, need = big_size(partitions * sizeof(struct line));
	int r;

	if (!options->baseline && !plan->replicates)
		owned = partitions / plan->n_workers + 1;
	for (r = 0; r < N_RELATIONS; r++) {
		share = options->baseline
		    ? plan->n_tuples[r] / plan->n_workers + 1
		    : plan_share(plan, (enum relation)r, 0);
		if (plan->direct && r == OUTER)
			share = 0;
		need += big_size(owned * sizeof(struct line));
		/* Some more is touched: the last chunks are half full. */
		need += big_size((share + share / 64) * sizeof(struct tuple) +
		    owned / 2 * sizeof(struct chunk));
	}
	return need;
}

/* The memory of a worker's hash table. */
static uint64_t table_need(const struct plan *plan)
{
	uint64_t n = plan->direct ? plan_share(plan, INNER, 0) + 1
				  : 2 * (plan->n_tuples[INNER] >> plan->bits);
	uint64_t buckets = 16;

	while (buckets < n)
		buckets *= 2;
	return big_size(buckets * sizeof(struct bucket)) +
	    big_size(buckets * sizeof(uint32_t)) + big_size(buckets) +
	    big_size(n * sizeof(struct overflow));
}

static uint64_t plan_need(
    const struct plan *plan, const struct options *options)
{
	uint64_t workers = (uint64_t)options->local_nodes * options->threads;
	uint64_t need = stores_need(plan, options) + table_need(plan);
	int r;

	for (r = 0; r < N_RELATIONS; r++)
		need += big_size((plan->n_tuples[r] / plan->n_workers + 1) *
		    sizeof(struct tuple));
	if (!options->baseline)
		need += N_RELATIONS * protocol_ring_bytes(plan->n_workers);
	return need * workers + options->local_nodes * PROCESS_SIZE;
}

/* Without tuples, workers still need rings and lines. */
static uint64_t workers_need(
    const struct plan *plan, const struct options *options)
{
	struct plan empty = *plan;

	memset(empty.n_tuples, 0, sizeof(empty.n_tuples));
	return plan_need(&empty, options);
}

int plan_check_memory(const struct plan *plan, const struct options *options,
    uint64_t more, const char *what, const char *advice)
{
	uint64_t need = plan_need(plan, options) + more;
	char workers[64];

	if (workers_need(plan, options) <= need / 2)
		return memory_check(what, need, advice);
	snprintf(workers, sizeof(workers), "%ju workers%s need",
	    (uintmax_t)options->local_nodes * options->threads,
	    options->baseline ? "" : " with rings");
	return memory_check(workers, need, "choose fewer --nodes or --threads");
}

int input_check_memory(const struct input *input, const struct options *options)
{
	const struct plan *plan = &input->plan;
	uint64_t n = plan->n_tuples[INNER] + plan->n_tuples[OUTER];
	char what[64];

	snprintf(what, sizeof(what), "%ju tuples need",
	    (uintmax_t)(n * options->local_nodes / options->nodes));
	return plan_check_memory(
	    plan, options, 0, what, "choose fewer (--inner, --outer)");
}

void input_close(struct input *input)
{
	if (input->has_image)
		image_unmap(&input->image);
}

int slices_make(
    struct slices *slices, const struct input *input, uint32_t worker)
{
	uint64_t begin, end;
	int r;

	memset(slices, 0, sizeof(*slices));
	for (r = 0; r < N_RELATIONS; r++) {
		enum relation relation = (enum relation)r;

		begin = plan_slice(&input->plan, relation, worker);
		end = plan_slice(&input->plan, relation, worker + 1);
		slices->n[r] = end - begin;
		slices->tuples[r] = big_alloc(
		    (end - begin) * sizeof(struct tuple));
		if (!slices->tuples[r])
			return -1;
		if (input->has_image)
			image_tuples(&input->image, relation, begin, end,
			    slices->tuples[r]);
		else
			generate(&input->generator, relation, begin, end,
			    slices->tuples[r]);
	}
	return 0;
}

void slices_free(struct slices *slices)
{
	int r;

	for (r = 0; r < N_RELATIONS; r++)
		big_free(
		    slices->tuples[r], slices->n[r] * sizeof(struct tuple));
	memset(slices, 0, sizeof(*slices));
}

int matcher_match(void *arg, uint64_t inner_payload, uint64_t outer_payload)
{
	struct matcher *matcher = arg;
	const struct image *image = matcher->image;
	struct result *result = matcher->result;
	uint64_t inner = inner_payload - 1, outer = outer_payload - 1;
	int64_t value = 0;

	if (!image_equal(image, INNER, inner, OUTER, outer))
		return 0;
	count_add(&result->matches, 1);
	result->checksum += inner_payload * outer_payload;
	if (image->sides[INNER].values)
		value = image->sides[INNER].values[inner];
	else if (image->sides[OUTER].values)
		value = image->sides[OUTER].values[outer];
	sum_add(&result->sum, sum_of(value));
	return matcher->emit(matcher->emit_arg, inner, outer);
}
