/* SPDX-License-Identifier: Apache-2.0 */
/* The sources that scale measures. */
#include "scale_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/complain.h"
#include "board.h"
#include "tuple.h"

#define BATCH 64 /* tuples that a source sends before it is another's turn */

/* How often the other process is looked at while this one waits for it. */
#define LOOK_NS (UINT64_C(100) * 1000 * 1000)

static bool fail_dfi(const char *call)
{
	complain("%s: %s", call, dfi_errmsg());
	return false;
}

static uint32_t all_sources(const struct scale *scale)
{
	return scale->n_flows * scale->n_attached;
}

static bool order(struct scale *scale, enum order order)
{
	scale_order(scale->board, order);
	return scale_wait(scale->board, scale->children, scale->timeout_ns);
}

static bool create_flows(struct scale *scale)
{
	uint32_t i;

	for (i = 0; i < scale->n_flows; i++, scale->n_created++) {
		scale->plans[i] = (struct plan){
			.job = JOB_FLOW,
			.n_sources = scale->n_sources,
			.n_targets = scale->n_targets,
			.tuple_size = SCALE_TUPLE,
		};
		if (!session_create_flows(
			scale->session, &scale->plans[i], &scale->asked))
			return false;
		memcpy(scale->board->names[i], scale->plans[i].flow,
		    PLAN_NAME_SIZE);
	}
	return true;
}

static bool open_targets(struct scale *scale)
{
	struct scale_board *board = scale->board;

	board->n_flows = scale->n_flows;
	board->n_targets = scale->n_targets;
	board->n_sources = scale->n_sources;
	scale->opened = true;
	return order(scale, ORDER_OPEN);
}

static bool open_sources(struct scale *scale)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	uint64_t begin = now_ns();
	uint32_t i;

	for (i = 0; i < all_sources(scale); i++) {
		if (dfi_source_open(scale->dfi,
			scale->plans[i / scale->n_attached].flow,
			i % scale->n_attached, &attr, &scale->sources[i]) < 0)
			return fail_dfi("dfi_source_open");
		if (scale->n_flows > 1 && !scale->apart)
			attr.share_with = scale->sources[0];
	}
	scale->open_ns = scale->board->open_ns + now_ns() - begin;
	return true;
}

bool scale_open(struct scale *scale)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	int before = scale_files();

	scale->plans = calloc(scale->n_flows, sizeof(scale->plans[0]));
	scale->sources = calloc(all_sources(scale), sizeof(scale->sources[0]));
	if (!scale->plans || !scale->sources) {
		complain("scale: out of memory");
		return false;
	}
	attr.registry = scale->session->address;
	attr.node_name = "dfi-bench-sources";
	if (dfi_open(&attr, &scale->dfi) < 0)
		return fail_dfi("dfi_open");
	/* Threads of the library stay on any. */
	if (!scale_pin(scale->cpu))
		return false;
	if (!create_flows(scale) || !open_targets(scale) ||
	    !open_sources(scale))
		return false;
	scale->files = scale_files() - before;
	return true;
}

bool scale_close(struct scale *scale)
{
	uint32_t i;
	bool closed;

	for (i = 0; scale->sources && i < all_sources(scale); i++)
		if (scale->sources[i])
			dfi_source_close(scale->sources[i]);
	closed = !scale->opened || order(scale, ORDER_CLOSE);
	for (i = 0; i < scale->n_created; i++)
		session_remove_flows(scale->session, &scale->plans[i]);
	if (scale->dfi && dfi_close(scale->dfi) < 0)
		closed = fail_dfi("dfi_close");
	free(scale->plans);
	free(scale->sources);
	return scale_pin(-1) && closed;
}

bool scale_poll(struct scale *scale, uint64_t n, double *ns)
{
	scale->board->n_polls = n;
	if (!order(scale, ORDER_POLL))
		return false;
	*ns = scale->board->poll_ns;
	return true;
}

void scale_start(struct scale *scale)
{
	struct scale_board *board = scale->board;

	atomic_store(&board->heard, 0);
	atomic_store(&board->stop, false);
	atomic_store(&board->failed, false);
	atomic_store(&board->checks, false);
	board->bad_tuples = 0;
	scale_order(board, ORDER_RECEIVE);
	scale->receives = true;
}

/* Wait until all that was sent is there. */
static bool wait_heard(struct scale *scale)
{
	uint64_t now = now_ns(), give_up = now + scale->timeout_ns;
	uint64_t look = now + LOOK_NS;
	struct scale_board *board = scale->board;

	while (atomic_load_explicit(&board->heard, memory_order_acquire) !=
	    scale->pushed) {
		if (atomic_load_explicit(&board->failed, memory_order_relaxed))
			return false;
		now = now_ns();
		if (now >= look && children_check(scale->children) < 0)
			return false;
		if (now >= look)
			look = now + LOOK_NS;
		if (now < give_up)
			continue;
		complain("scale: of %lu tuples %lu have arrived in time",
		    (unsigned long)scale->pushed,
		    (unsigned long)atomic_load(&board->heard));
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

void scale_check(struct scale *scale)
{
	/* The next tuple is read only after it was sent. */
	atomic_store(&scale->board->checks, true);
}

bool scale_stop(struct scale *scale, bool *verified)
{
	struct scale_board *board = scale->board;

	*verified = false;
	if (!scale->receives)
		return false;
	scale->receives = false;
	atomic_store(&board->stop, true);
	if (!scale_wait(board, scale->children, scale->timeout_ns))
		return false;
	*verified = board->sum == scale->pushed_sum &&
	    atomic_load(&board->heard) == scale->pushed && !board->bad_tuples;
	return true;
}
