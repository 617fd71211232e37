/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that scale measures. */
#include "scale_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/complain.h"
#include "board.h"
#include "tuple.h"

#define BATCH 64 /* tuples that a source sends before it is another's turn */

static bool fail_dfi(const char *call)
{
	complain("%s: %s", call, dfi_errmsg());
	return false;
}

static uint32_t all_sources(const struct scale *scale)
{
	return scale->n_flows * scale->n_attached;
}

static uint32_t all_targets(const struct scale *scale)
{
	return scale->n_flows * scale->n_targets;
}

static bool open_targets(struct scale *scale)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	uint32_t i;

	attr.flags = DFI_NONBLOCK;
	/* Sources that never attach are no error meanwhile. */
	attr.open_timeout_ms = 3600 * 1000;
	for (i = 0; i < all_targets(scale); i++)
		if (dfi_target_open(scale->session->dfi,
			scale->plans[i / scale->n_targets].flow,
			i % scale->n_targets, &attr, &scale->targets[i]) < 0)
			return fail_dfi("dfi_target_open");
	return true;
}

static bool open_group(struct scale *scale)
{
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	uint32_t i;

	attr.flags = DFI_NONBLOCK;
	if (dfi_target_group_open(scale->session->dfi, &attr, &scale->group) <
	    0)
		return fail_dfi("dfi_target_group_open");
	for (i = 0; i < all_targets(scale); i++)
		if (dfi_target_group_add(
			scale->group, scale->targets[i], NULL) < 0)
			return fail_dfi("dfi_target_group_add");
	return true;
}

bool scale_open(struct scale *scale)
{
	struct dfi_source_attr of_source = DFI_SOURCE_ATTR_INIT;
	struct dfi_attr attr = DFI_ATTR_INIT;
	uint64_t begin;
	uint32_t i;

	scale->plans = calloc(scale->n_flows, sizeof(scale->plans[0]));
	scale->sources = calloc(all_sources(scale), sizeof(scale->sources[0]));
	scale->targets = calloc(all_targets(scale), sizeof(scale->targets[0]));
	if (!scale->plans || !scale->sources || !scale->targets) {
		complain("scale: out of memory");
		return false;
	}
	attr.registry = scale->session->address;
	attr.node_name = "dfi-bench-sources";
	if (dfi_open(&attr, &scale->from) < 0)
		return fail_dfi("dfi_open");
	for (i = 0; i < scale->n_flows; i++, scale->n_created++) {
		scale->plans[i] = (struct plan){
			.job = JOB_FLOW,
			.n_sources = scale->n_sources,
			.n_targets = scale->n_targets,
			.tuple_size = SCALE_TUPLE,
		};
		if (!session_create_flows(scale->session, &scale->plans[i],
			&(struct raw_geometry){ 0 }))
			return false;
	}
	begin = now_ns();
	if (!open_targets(scale))
		return false;
	for (i = 0; i < all_sources(scale); i++) {
		if (dfi_source_open(scale->from,
			scale->plans[i / scale->n_attached].flow,
			i % scale->n_attached, &of_source,
			&scale->sources[i]) < 0)
			return fail_dfi("dfi_source_open");
		if (scale->n_flows > 1 && !scale->apart)
			of_source.share_with = scale->sources[0];
	}
	scale->open_ns = now_ns() - begin;
	return all_targets(scale) == 1 || open_group(scale);
}

void scale_close(struct scale *scale)
{
	uint32_t i;

	for (i = 0; scale->sources && i < all_sources(scale); i++)
		dfi_source_close(scale->sources[i]);
	dfi_target_group_close(scale->group);
	for (i = 0; scale->targets && i < all_targets(scale); i++)
		dfi_target_close(scale->targets[i]);
	for (i = 0; i < scale->n_created; i++)
		session_remove_flows(scale->session, &scale->plans[i]);
	if (scale->from)
		dfi_close(scale->from);
	free(scale->plans);
	free(scale->sources);
	free(scale->targets);
}

static force_inline void take(
    struct scale *scale, const struct dfi_batch *batch, struct word_sum *sum)
{
	const char *tuple = batch->tuples;
	uint32_t i;

	for (i = 0; i < batch->count; i++, tuple += SCALE_TUPLE)
		tuple_sum(tuple, SCALE_TUPLE, sum);
	/* Pairs with the acquire in wait_heard(); protects nothing. */
	atomic_store_explicit(&scale->heard,
	    atomic_load_explicit(&scale->heard, memory_order_relaxed) +
		batch->count,
	    memory_order_release);
}

/* Poll once: the tuples that were there, -EAGAIN, or an error. */
static int poll_once(struct scale *scale, struct word_sum *sum)
{
	struct dfi_target_group_batch of_group;
	struct dfi_batch batch;
	int ret;

	if (scale->group) {
		ret = dfi_target_group_consume_batch(scale->group, &of_group);
		if (ret > 0) {
			take(scale, &of_group.batch, sum);
			dfi_target_group_release(scale->group, &of_group);
		}
		return ret;
	}
	ret = dfi_target_consume_batch(scale->targets[0], &batch);
	if (ret > 0) {
		take(scale, &batch, sum);
		dfi_target_release(scale->targets[0], &batch);
	}
	return ret;
}

bool scale_poll(struct scale *scale, uint64_t n, double *ns)
{
	struct word_sum sum = { 0 };
	uint64_t i, start = now_ns();

	for (i = 0; i < n; i++)
		if (poll_once(scale, &sum) != -EAGAIN)
			return fail_dfi("a poll that finds nothing");
	*ns = (double)(now_ns() - start) / (double)n;
	return true;
}

static void *receive(void *arg)
{
	struct scale *scale = arg;
	struct word_sum sum = { 0 };
	int ret = -EAGAIN;

	while (!atomic_load_explicit(&scale->stop, memory_order_relaxed)) {
		ret = poll_once(scale, &sum);
		if (ret == -EAGAIN || ret > 0)
			continue;
		complain("scale: polling: %s", ret ? dfi_errmsg() : "an end");
		atomic_store(&scale->failed, 1);
		break;
	}
	scale->sum = word_sum_total(&sum);
	return NULL;
}

bool scale_start(struct scale *scale)
{
	int err = pthread_create(&scale->receiver, NULL, receive, scale);

	scale->receives = !err;
	if (err)
		complain("scale: a thread: %s", strerror(err));
	return !err;
}

/* Wait until all that was sent is there. */
static bool wait_heard(struct scale *scale)
{
	uint64_t give_up = now_ns() + scale->timeout_ns;

	while (atomic_load_explicit(&scale->heard, memory_order_acquire) !=
	    scale->pushed) {
		if (atomic_load_explicit(&scale->failed, memory_order_relaxed))
			return false;
		if (now_ns() < give_up)
			continue;
		complain("scale: of %lu tuples %lu have arrived in time",
		    (unsigned long)scale->pushed,
		    (unsigned long)atomic_load(&scale->heard));
		return false;
	}
	return true;
}

/* Make the next tuple, and add its words to the sum. */
static void make(struct scale *scale, uint64_t *tuple)
{
	const uint64_t n = SCALE_TUPLE / 8;
	uint64_t key = scale->pushed++ * n;

	tuple_make(tuple, SCALE_TUPLE, key);
	scale->pushed_sum += n * key + n * (n - 1) / 2;
}

bool scale_send_each(
    struct scale *scale, uint64_t n, struct histogram *histogram)
{
	uint64_t tuple[SCALE_TUPLE / 8], start, i, which = 1;
	struct dfi_source *source;

	for (i = 0; i < n; i++) {
		/* Knuth's generator: the sources come in no order. */
		which = which * UINT64_C(6364136223846793005) +
		    UINT64_C(1442695040888963407);
		source = scale->sources[(which >> 33) % all_sources(scale)];
		make(scale, tuple);
		start = now_ns();
		if (dfi_source_push(source, tuple) < 0 ||
		    dfi_source_flush(source) < 0)
			return fail_dfi("dfi_source_push");
		if (!wait_heard(scale))
			return false;
		histogram_add(histogram, now_ns() - start);
	}
	return true;
}

bool scale_send_all(struct scale *scale, double seconds, double *rate)
{
	static uint64_t tuples[BATCH][SCALE_TUPLE / 8];
	uint64_t sent = 0, start = now_ns();
	uint64_t end = start + (uint64_t)(seconds * 1e9);
	uint32_t i = 0, k;

	while (now_ns() < end) {
		for (k = 0; k < BATCH; k++)
			make(scale, tuples[k]);
		if (dfi_source_push_batch(scale->sources[i], tuples, BATCH) !=
		    BATCH)
			return fail_dfi("dfi_source_push_batch");
		sent += BATCH;
		if (++i == all_sources(scale))
			i = 0;
	}
	for (i = 0; i < all_sources(scale); i++)
		if (dfi_source_flush(scale->sources[i]) < 0)
			return fail_dfi("dfi_source_flush");
	if (!wait_heard(scale))
		return false;
	*rate = (double)sent * SCALE_TUPLE / (double)(now_ns() - start);
	return true;
}

bool scale_stop(struct scale *scale, bool *verified)
{
	if (!scale->receives)
		return false;
	atomic_store(&scale->stop, true);
	pthread_join(scale->receiver, NULL);
	scale->receives = false;
	*verified = scale->sum == scale->pushed_sum &&
	    atomic_load(&scale->heard) == scale->pushed;
	return !atomic_load(&scale->failed);
}
