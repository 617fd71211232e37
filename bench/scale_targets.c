/* SPDX-License-Identifier: Apache-2.0 */
/* The process of all targets that scale measures. */
#include "scale_targets.h"

#include <dfi/dfi.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/complain.h"
#include "board.h"
#include "tuple.h"

#define SLICE_NS (UINT64_C(100) * 1000 * 1000)

/* The targets of this process. */
struct ends {
	struct scale_board *board;
	struct dfi *dfi;
	struct dfi_target **targets;
	struct dfi_target_group *group; /* NULL: there is one target */
	uint64_t *next; /* the least key that may come, by target and source */
	int files_before;
};

static bool fail_dfi(const char *call)
{
	complain("%s: %s", call, dfi_errmsg());
	return false;
}

int scale_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int n = 0;

	if (!folder)
		return -1;
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

bool scale_pin(int32_t cpu)
{
	static cpu_set_t all;
	cpu_set_t cpus;

	if (CPU_COUNT(&all) == 0 && sched_getaffinity(0, sizeof(all), &all) < 0)
		return cpu < 0;
	cpus = all;
	if (cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET((unsigned)cpu, &cpus);
	}
	if (sched_setaffinity(0, sizeof(cpus), &cpus) == 0)
		return true;
	complain("scale: pinning a thread to processor %d: %s (see --pin)", cpu,
	    strerror(errno));
	return false;
}

static uint32_t all_targets(const struct scale_board *board)
{
	return board->n_flows * board->n_targets;
}

static bool open_targets(struct ends *ends)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	const struct scale_board *board = ends->board;
	uint32_t i;

	attr.flags = DFI_NONBLOCK;
	/* Sources that never attach are no error meanwhile. */
	attr.open_timeout_ms = 3600 * 1000;
	for (i = 0; i < all_targets(board); i++)
		if (dfi_target_open(ends->dfi,
			board->names[i / board->n_targets],
			i % board->n_targets, &attr, &ends->targets[i]) < 0)
			return fail_dfi("dfi_target_open");
	return true;
}

static bool open_group(struct ends *ends)
{
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	uint32_t i;

	attr.flags = DFI_NONBLOCK;
	if (dfi_target_group_open(ends->dfi, &attr, &ends->group) < 0)
		return fail_dfi("dfi_target_group_open");
	for (i = 0; i < all_targets(ends->board); i++)
		if (dfi_target_group_add(ends->group, ends->targets[i],
			&ends->next[(size_t)i * ends->board->n_sources]) < 0)
			return fail_dfi("dfi_target_group_add");
	return true;
}

static bool open_all(struct ends *ends)
{
	struct scale_board *board = ends->board;
	struct dfi_attr attr = DFI_ATTR_INIT;
	uint32_t n = all_targets(board);
	uint64_t begin;

	ends->files_before = scale_files();
	ends->targets = calloc(n, sizeof(struct dfi_target *));
	ends->next = calloc((size_t)n * board->n_sources, sizeof(*ends->next));
	if (!ends->targets || !ends->next) {
		complain("scale: out of memory");
		return false;
	}
	attr.registry = board->registry;
	attr.node_name = "dfi-bench-targets";
	if (dfi_open(&attr, &ends->dfi) < 0)
		return fail_dfi("dfi_open");
	/* Threads of the library stay on any. */
	if (!scale_pin(board->cpu))
		return false;
	begin = now_ns();
	if (!open_targets(ends))
		return false;
	board->open_ns = now_ns() - begin;
	return n == 1 || open_group(ends);
}

static bool close_all(struct ends *ends)
{
	uint32_t i;
	bool closed = true;

	if (ends->group)
		dfi_target_group_close(ends->group);
	for (i = 0; ends->targets && i < all_targets(ends->board); i++)
		if (ends->targets[i])
			dfi_target_close(ends->targets[i]);
	if (ends->dfi && dfi_close(ends->dfi) < 0)
		closed = fail_dfi("dfi_close");
	free(ends->targets);
	free(ends->next);
	*ends = (struct ends){ .board = ends->board };
	return scale_pin(-1) && closed;
}

/* The keys of a source's tuples grow, and a tuple's words count up from it. */
static void check(
    struct scale_board *board, const struct dfi_batch *batch, uint64_t *next)
{
	const char *tuple = batch->tuples;
	uint64_t words[SCALE_TUPLE / 8];
	uint32_t i, k;
	bool good;

	for (i = 0; i < batch->count; i++, tuple += batch->stride) {
		memcpy(words, tuple, sizeof(words));
		good = words[0] >= next[batch->source];
		for (k = 1; k < SCALE_TUPLE / 8; k++)
			good &= words[k] == words[0] + k;
		next[batch->source] = words[0] + SCALE_TUPLE / 8;
		board->bad_tuples += !good;
	}
}

static force_inline void take(struct scale_board *board,
    const struct dfi_batch *batch, uint64_t *next, struct word_sum *sum)
{
	const char *tuple = batch->tuples;
	uint32_t i;

	for (i = 0; i < batch->count; i++, tuple += SCALE_TUPLE)
		tuple_sum(tuple, SCALE_TUPLE, sum);
	if (atomic_load_explicit(&board->checks, memory_order_relaxed))
		check(board, batch, next);
	/* Pairs with the acquire in wait_heard(); protects nothing. */
	atomic_store_explicit(&board->heard,
	    atomic_load_explicit(&board->heard, memory_order_relaxed) +
		batch->count,
	    memory_order_release);
}

/* Poll once: the tuples that were there, -EAGAIN, or an error. */
static int poll_once(struct ends *ends, struct word_sum *sum)
{
	struct dfi_target_group_batch of_group;
	struct dfi_batch batch;
	int ret;

	if (ends->group) {
		ret = dfi_target_group_consume_batch(ends->group, &of_group);
		if (ret > 0) {
			take(ends->board, &of_group.batch, of_group.arg, sum);
			dfi_target_group_release(ends->group, &of_group);
		}
		return ret;
	}
	ret = dfi_target_consume_batch(ends->targets[0], &batch);
	if (ret > 0) {
		take(ends->board, &batch, ends->next, sum);
		dfi_target_release(ends->targets[0], &batch);
	}
	return ret;
}

static bool poll_nothing(struct ends *ends)
{
	struct scale_board *board = ends->board;
	struct word_sum sum = { 0 };
	uint64_t i, start = now_ns();

	for (i = 0; i < board->n_polls; i++)
		if (poll_once(ends, &sum) != -EAGAIN)
			return fail_dfi("a poll that finds nothing");
	board->poll_ns = (double)(now_ns() - start) / (double)board->n_polls;
	board->files = scale_files() - ends->files_before;
	return true;
}

static bool receive(struct ends *ends)
{
	struct scale_board *board = ends->board;
	struct word_sum sum = { 0 };
	int ret = -EAGAIN;

	while (!atomic_load_explicit(&board->stop, memory_order_relaxed)) {
		ret = poll_once(ends, &sum);
		if (ret == -EAGAIN || ret > 0)
			continue;
		complain("scale: polling: %s", ret ? dfi_errmsg() : "an end");
		atomic_store(&board->failed, true);
		return false;
	}
	board->sum = word_sum_total(&sum);
	return true;
}

static int serve(void *arg)
{
	static bool (*const does[])(struct ends *) = {
		[ORDER_OPEN] = open_all,
		[ORDER_POLL] = poll_nothing,
		[ORDER_RECEIVE] = receive,
		[ORDER_CLOSE] = close_all,
	};
	struct scale_board *board = arg;
	struct ends ends = { .board = board };
	uint32_t number;

	for (number = 1;; number++) {
		board_wait(&board->ordered, number, NO_DEADLINE);
		if (board->order == ORDER_END)
			return 0;
		board->succeeded = does[board->order](&ends);
		board_set(&board->done, number);
	}
}

struct scale_board *scale_targets_start(struct children *children)
{
	struct scale_board *board = mmap(NULL, sizeof(*board),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (board == MAP_FAILED) {
		complain(
		    "scale: memory for two processes: %s", strerror(errno));
		return NULL;
	}
	if (children_fork(children, "the targets' process", serve, board) < 0) {
		munmap(board, sizeof(*board));
		return NULL;
	}
	return board;
}

void scale_targets_end(struct scale_board *board, struct children *children)
{
	/* It may be in the middle of something that failed here. */
	if (board) {
		atomic_store(&board->stop, true);
		scale_order(board, ORDER_END);
	}
	children_end(children, 2000);
	if (board)
		munmap(board, sizeof(*board));
}

void scale_order(struct scale_board *board, enum order order)
{
	board->order = order;
	board_set(&board->ordered, atomic_load(&board->ordered) + 1);
}

bool scale_wait(
    struct scale_board *board, struct children *children, uint64_t timeout_ns)
{
	uint32_t number = atomic_load(&board->ordered);
	uint64_t give_up = now_ns() + timeout_ns;

	while (!board_wait(&board->done, number, now_ns() + SLICE_NS)) {
		if (children_check(children) < 0)
			return false;
		if (now_ns() < give_up)
			continue;
		complain("scale: the targets' process has not answered within "
			 "%lu s; --timeout sets this limit",
		    (unsigned long)(timeout_ns / 1000000000));
		return false;
	}
	return board->succeeded;
}
