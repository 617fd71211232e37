/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Actors of combiner flows, and what comes of their work. A source begins in
 * some window and goes on to the next after some tuples. Each stay has
 * groups of its own, so results say whose tuples they have: of each group, by
 * window, the next of its tuples in the order of pushes. They come in their
 * window, or later if that is flagged.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "open_worker.h"
#include "random.h"
#include "runner.h"

/* In which news of a target that is gone comes. */
#define GIVE_UP_NS (INT64_C(5) * 1000000000)

static uint64_t group_value(
    const struct open_plan *plan, uint64_t group, uint64_t n)
{
	/* Their sum fits 64 bits. */
	return mix(plan->seed ^ mix(group << 32 | n)) >> 16;
}

/* ---- Sources ------------------------------------------------------------- */

/*
 * Wait for room, or news. Without a time limit, unless a target has failed:
 * where that was before this source has seen it, it waits for another one. Then
 * the source gives up.
 */
static void wait_for_room(struct actor *actor, const struct open_board *board)
{
	struct pollfd pollfd = {
		.fd = dfi_source_fd(actor->source),
		.events = POLLIN,
	};

	while (!poll(&pollfd, 1, 100) && !atomic_load(&board->combine.failed))
		;
	if (!atomic_load(&board->combine.failed))
		return;
	if (!actor->gives_up_ns)
		actor->gives_up_ns = runner_now_ns() + GIVE_UP_NS;
	if (runner_now_ns() > actor->gives_up_ns)
		dfi_source_abort(actor->source);
}

/* Repeat a call that had no room. */
#define REPEAT(actor, board, ret, call)     \
	while (((ret) = (call)) == -EAGAIN) \
	wait_for_room(actor, board)

static void note_newest(struct open_board *board, uint64_t window)
{
	uint64_t seen = atomic_load(&board->combine.newest);

	while (seen < window &&
	    !atomic_compare_exchange_weak(
		&board->combine.newest, &seen, window))
		;
}

/* The newest or the next, or one that others have left. */
static uint64_t choose_first(
    const struct actor *actor, const struct open_board *board)
{
	uint64_t newest = atomic_load(&board->combine.newest);
	uint64_t first = actor->id % 5 == 4 ? newest / 2
					    : newest + actor->id % 2;

	return first ? first : 1;
}

/* Begin the window of tuple n. */
static int begin_window(struct actor *actor, const struct open_plan *plan,
    struct open_board *board, uint32_t n)
{
	uint64_t *first = &board->combine.first[actor->id];
	uint64_t window;
	int ret;

	if (!*first)
		*first = choose_first(actor, board);
	window = *first + n / plan->per_window;
	REPEAT(actor, board, ret, dfi_source_mark(actor->source, window));
	if (!ret)
		note_newest(board, window);
	return ret;
}

static void make_tuples(struct actor *actor, const struct open_plan *plan,
    uint32_t n, uint32_t count)
{
	struct combine_tuple head;
	uint32_t i;

	for (i = 0; i < count; i++) {
		head.group = (uint64_t)actor->id * OPEN_PARTS +
		    (n + i) % OPEN_PARTS;
		head.n = n + i;
		head.value = group_value(plan, head.group, head.n);
		memcpy(actor->tuples + (size_t)i * plan->tuple_size, &head,
		    sizeof(head));
	}
	atomic_store(&actor->at->attempted, n + count);
}

/* How many of a window, or an error. */
static int push_some(struct actor *actor, const struct open_plan *plan,
    const struct open_board *board, uint32_t n)
{
	uint32_t most = plan->per_window - n % plan->per_window;
	int ret;

	if (most > actor->what.n_tuples - n)
		most = actor->what.n_tuples - n;
	if (most > MAX_RUN)
		most = MAX_RUN;
	if (actor->what.style != OPEN_BATCH)
		most = 1;
	make_tuples(actor, plan, n, most);
	if (actor->what.style == OPEN_BATCH) {
		REPEAT(actor, board, ret,
		    dfi_source_push_batch(actor->source, actor->tuples, most));
		return ret;
	}
	REPEAT(
	    actor, board, ret, dfi_source_push(actor->source, actor->tuples));
	return ret < 0 ? ret : 1;
}

int open_combine_push(
    struct actor *actor, const struct open_plan *plan, struct open_board *board)
{
	const struct stay_plan *what = &actor->what;
	uint32_t n = 0, begun = UINT32_MAX;
	int ret;

	while (n < what->n_tuples) {
		open_acts(actor);
		/* A batch may end within a window. */
		if (n / plan->per_window != begun) {
			begun = n / plan->per_window;
			ret = begin_window(actor, plan, board, n);
			if (ret < 0)
				return ret;
		}
		ret = push_some(actor, plan, board, n);
		if (ret < 0)
			return ret;
		n += (uint32_t)ret;
		atomic_store(&actor->at->pushed, n);
		open_count_moved(actor, (uint32_t)ret);
		if (!what->flush_every ||
		    n - actor->flushed < what->flush_every)
			continue;
		actor->flushed = n;
		REPEAT(actor, board, ret, dfi_source_flush(actor->source));
		if (ret < 0)
			return ret;
	}
	open_acts(actor);
	return 0;
}

/* ---- Targets ------------------------------------------------------------- */

/* As the flow's aggregates are (open_chaos.c). */
struct result {
	uint64_t group, count, sum;
};

static void note_results(struct actor *actor, struct open_board *board,
    const struct result *results, uint32_t n)
{
	struct combine_board *combine = &board->combine;
	uint32_t at = atomic_fetch_add(&combine->n_results, n), i, flags;
	uint64_t window;

	if (dfi_target_window(actor->target, &window) < 0 ||
	    dfi_target_window_flags(actor->target, &flags) < 0) {
		open_note_wrong(actor, dfi_errmsg());
		return;
	}
	for (i = 0; i < n && at + i < OPEN_RESULTS; i++)
		combine->results[at + i] = (struct combine_result){
			.group = results[i].group,
			.window = window,
			.count = results[i].count,
			.sum = results[i].sum,
			.flags = flags,
			.target = actor->id,
		};
	atomic_fetch_add(&actor->at->taken, n);
}

static int consume(struct actor *actor, struct open_board *board)
{
	struct dfi_batch batch;
	const void *tuple;
	int ret;

	if (actor->what.style == OPEN_BATCH ||
	    actor->what.style == OPEN_CLAIM) {
		ret = dfi_target_consume_batch(actor->target, &batch);
		if (ret > 0) {
			note_results(actor, board, batch.tuples, batch.count);
			dfi_target_release(actor->target, &batch);
		}
		return ret;
	}
	ret = dfi_target_consume(actor->target, &tuple);
	if (ret > 0)
		note_results(actor, board, tuple, 1);
	return ret;
}

int open_combine_consume(
    struct actor *actor, const struct open_plan *plan, struct open_board *board)
{
	int ret;

	(void)plan;
	do {
		ret = consume(actor, board);
		if (ret == -EAGAIN)
			open_wait_for(dfi_target_fd(actor->target));
		else if (ret == -ENOMSG)
			open_take_event(actor);
		else if (ret > 0)
			open_count_moved(actor, (uint32_t)ret);
	} while (ret > 0 || ret == -EAGAIN || ret == -ENOMSG);
	actor->at->ended = !ret;
	/* No other takes its seat. */
	if (ret < 0) {
		atomic_store(&board->combine.failed, true);
		atomic_store(&board->finished, true);
	}
	return ret;
}

/* ---- The verdict --------------------------------------------------------- */

struct judge {
	const struct open_plan *plan;
	const struct open_board *board;
	struct open_verdict *verdict;
	bool whole; /* all targets have come to the end */
};

/* The results of one group, by rising windows. */
struct run {
	const struct combine_result *at;
	uint32_t n;
	uint32_t stay, part;
};

static void blame(struct judge *judge, const struct run *run,
    enum open_harm harm, uint64_t window, const char *what)
{
	judge->verdict->n[harm]++;
	printf("seed %" PRIu64 ": source, stay %u, part %u, window %" PRIu64
	       ": %s\n",
	    judge->plan->seed, run->stay, run->part, window, what);
}

/* How many of the first n tuples of a stay are of this part. */
static uint64_t of_part(const struct run *run, uint64_t n)
{
	return (n + OPEN_PARTS - 1 - run->part) / OPEN_PARTS;
}

/* How many of them were pushed for windows up to this one. */
static uint64_t until(
    const struct judge *judge, const struct run *run, uint64_t window)
{
	uint64_t first = judge->board->combine.first[run->stay];
	uint64_t most = atomic_load(&judge->board->stays[run->stay].attempted);
	uint64_t n = window < first
	    ? 0
	    : (window - first + 1) * judge->plan->per_window;

	return of_part(run, n < most ? n : most);
}

static uint64_t sum_of(
    const struct judge *judge, const struct run *run, uint64_t from, uint64_t n)
{
	uint64_t group = (uint64_t)run->stay * OPEN_PARTS + run->part;
	uint64_t sum = 0, i;

	for (i = from; i < from + n; i++)
		sum += group_value(
		    judge->plan, group, i * OPEN_PARTS + run->part);
	return sum;
}

/* One result behind which the group has had total tuples. */
static void judge_result(struct judge *judge, const struct run *run,
    const struct combine_result *result, uint64_t total)
{
	uint64_t due = until(judge, run, result->window);
	uint64_t own = result->window
	    ? due - until(judge, run, result->window - 1)
	    : due;
	bool late = result->flags & DFI_WINDOW_LATE;

	if (total > until(judge, run, UINT32_MAX)) {
		blame(judge, run, OPEN_DOUBLED, result->window,
		    "more tuples than were pushed");
		return;
	}
	if (result->sum !=
	    sum_of(judge, run, total - result->count, result->count))
		blame(judge, run, OPEN_HARMED, result->window,
		    "not the sum of these tuples");
	if (total > due)
		blame(judge, run, OPEN_HARMED, result->window,
		    "tuples of a later window");
	else if (result->count > own && !late)
		blame(judge, run, OPEN_HARMED, result->window,
		    "late tuples, and no flag");
}

/* What is missing was of a source that was lost, and the window says so. */
static void judge_rest(
    struct judge *judge, const struct run *run, uint64_t total, bool late)
{
	const struct combine_result *last = run->n ? &run->at[run->n - 1]
						   : NULL;
	char text[100];

	if (!judge->whole || total >= until(judge, run, UINT32_MAX))
		return;
	if (open_is_whole(judge->plan, judge->board, run->stay)) {
		snprintf(text, sizeof(text),
		    "%" PRIu64 " of %" PRIu64 " tuples", total,
		    until(judge, run, UINT32_MAX));
		blame(judge, run, OPEN_LOST, last ? last->window : 0, text);
	} else if (last && !late && total < until(judge, run, last->window) &&
	    !(last->flags & DFI_WINDOW_LOST)) {
		blame(judge, run, OPEN_HARMED, last->window,
		    "it lacks tuples, and has no flag");
	}
}

static void judge_run(struct judge *judge, const struct run *run)
{
	uint64_t total = 0;
	bool late = false;
	uint32_t i;

	for (i = 0; i < run->n; i++) {
		if (i && run->at[i].window == run->at[i - 1].window)
			blame(judge, run, OPEN_DOUBLED, run->at[i].window,
			    "it has two results");
		if (run->at[i].target != run->at[0].target)
			blame(judge, run, OPEN_HARMED, run->at[i].window,
			    "results at two targets");
		total += run->at[i].count;
		late |= (run->at[i].flags & DFI_WINDOW_LATE) != 0;
		judge_result(judge, run, &run->at[i], total);
	}
	judge_rest(judge, run, total, late);
}

static int by_group(const void *a, const void *b)
{
	const struct combine_result *x = a, *y = b;

	return x->group != y->group  ? (x->group > y->group) * 2 - 1
	    : x->window != y->window ? (x->window > y->window) * 2 - 1
				     : 0;
}

static bool all_whole(
    const struct open_plan *plan, const struct open_board *board)
{
	uint32_t a;

	for (a = plan->n_source_actors; a < plan->n_actors; a++)
		if (!open_is_whole(plan, board, open_stay_id(a, 0)))
			return false;
	return true;
}

void open_combine_judge(const struct open_plan *plan,
    const struct open_board *board, struct open_verdict *verdict)
{
	struct judge judge = { plan, board, verdict, all_whole(plan, board) };
	uint32_t n = atomic_load(&board->combine.n_results), i = 0;
	uint64_t group,
	    groups = (uint64_t)plan->n_source_actors * OPEN_STAYS * OPEN_PARTS;
	struct combine_result *results;
	struct run run;

	results = malloc(sizeof(board->combine.results));
	if (n > OPEN_RESULTS || !results) {
		printf("seed %" PRIu64 ": no room for %u results\n", plan->seed,
		    n);
		verdict->n[OPEN_HARMED]++;
		free(results);
		return;
	}
	memcpy(results, board->combine.results, n * sizeof(*results));
	qsort(results, n, sizeof(*results), by_group);
	for (group = 0; group < groups; group++) {
		run = (struct run){ .at = results + i,
			.stay = (uint32_t)(group / OPEN_PARTS),
			.part = (uint32_t)(group % OPEN_PARTS) };
		for (; i < n && results[i].group == group; i++)
			run.n++;
		judge_run(&judge, &run);
	}
	if (i < n) {
		printf("seed %" PRIu64 ": a group that nobody pushed\n",
		    plan->seed);
		verdict->n[OPEN_HARMED]++;
	}
	free(results);
}
