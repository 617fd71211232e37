/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of a run of chaos in an open flow. Each of its actors has a thread,
 * goes on with the stay that is next on the board, and writes there what comes
 * of it.
 *
 * open_chaos worker BOARD_FD SEED VOLUME PROCESS REGISTRY CELL MACHINES
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "open_late.h"
#include "open_worker.h"
#include "runner.h"

#define OPEN_TIMEOUT_MS 5000
/* Longer than a busy machine takes; the judge then calls it a hang. */
#define SETTLE_NS (INT64_C(60) * 1000000000)

static struct open_plan plan;
static struct open_board *board;
static uint32_t process, volume;
static struct dfi *dfi;

void open_sleep_us(uint32_t us)
{
	struct timespec ts = {
		.tv_sec = us / 1000000,
		.tv_nsec = (long)(us % 1000000) * 1000,
	};

	nanosleep(&ts, NULL);
}

static void set_state(struct actor *actor, enum stay_state state)
{
	atomic_store(&actor->at->state, state);
}

/* From now on others may lose it. */
static void note_gone(struct actor *actor)
{
	int64_t none = 0;

	atomic_compare_exchange_strong(
	    &actor->at->gone_ns, &none, open_stamp(board));
}

void open_note(struct actor *actor, enum open_harm harm, const char *text)
{
	if (actor->at->wrong)
		return;
	snprintf(actor->at->text, sizeof(actor->at->text), "%s", text);
	actor->at->harm = harm;
	actor->at->wrong = true;
}

void open_note_wrong(struct actor *actor, const char *text)
{
	open_note(actor, OPEN_HARMED, text);
}

static int failed(struct actor *actor, int ret)
{
	actor->at->failed_ns = open_stamp(board);
	actor->at->ret = ret;
	if (ret == -ESTALE)
		actor->at->late_ns = open_late_within(INT64_C(1000000) *
		    (2 * plan.evict_after_ms + open_own_news_ms(&plan)));
	if (!actor->at->wrong)
		snprintf(actor->at->text, sizeof(actor->at->text), "%s",
		    dfi_errmsg());
	return ret;
}

/* After -EAGAIN. Without a time limit, so that a lost wake-up is a hang. */
void open_wait_for(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	poll(&pollfd, 1, -1);
}

void open_count_moved(struct actor *actor, uint32_t n)
{
	const struct stay_plan *what = &actor->what;
	uint32_t before = actor->n_moved;

	actor->n_moved += n;
	if (what->pause_every &&
	    before / what->pause_every != actor->n_moved / what->pause_every)
		open_sleep_us(what->pause_us);
}

static void cancel(struct actor *actor)
{
	actor->at->cancelled = dfi_target_cancel(actor->target) == 0;
	if (!actor->at->cancelled)
		open_note_wrong(actor, dfi_errmsg());
}

/* Act as planned, if it is time: whether the stay is over. */
bool open_acts(struct actor *actor)
{
	enum open_act act = actor->what.act;

	if (act == OPEN_STAY || actor->n_moved < actor->what.act_at)
		return false;
	if (act == OPEN_GIVE) {
		actor->what.act = OPEN_STAY;
		if (dfi_target_leave(actor->target) < 0)
			open_note_wrong(actor, dfi_errmsg());
		return false;
	}
	note_gone(actor);
	if (act == OPEN_EXIT || act == OPEN_DIE)
		atomic_store(&board->died_ns[process], open_stamp(board));
	if (act == OPEN_DIE)
		kill(getpid(), SIGKILL);
	else if (act == OPEN_EXIT)
		_exit(EXIT_SUCCESS);
	actor->at->aborted = act == OPEN_ABORT;
	if (act == OPEN_ABORT && actor->source)
		dfi_source_abort(actor->source);
	else if (act == OPEN_ABORT)
		dfi_target_abort(actor->target);
	else if (act == OPEN_CANCEL)
		cancel(actor);
	actor->what.act = OPEN_STAY;
	return act == OPEN_LEAVE || act == OPEN_CANCEL;
}

/* ---- Sources ----------------------------------------------------------- */

static bool is_direct(void)
{
	return plan.routing == DFI_ROUTE_DIRECT;
}

/* For DFI_ROUTE_FUNCTION. */
static uint32_t route(void *arg, const void *tuple, uint32_t n_targets)
{
	struct replay_tuple replay;
	struct open_tuple head;

	(void)arg;
	(void)n_targets;
	memcpy(&replay, tuple, sizeof(replay));
	memcpy(&head, tuple, sizeof(head));
	return plan.replays ? replay.group : head.target;
}

static uint32_t group_for(const struct actor *actor, uint32_t n)
{
	return (n * 7 + actor->id) % OPEN_GROUPS;
}

static uint32_t seat_for(const struct actor *actor, uint32_t n)
{
	if (actor->rest)
		return actor->rest - 1;
	return (n * 7 + actor->id + actor->shift) % plan.n_targets;
}

/* The next count tuples, for a seat if the flow is direct. */
static void make_tuples(
    struct actor *actor, void *tuples, uint32_t count, uint32_t seat)
{
	uint32_t n = atomic_load(&actor->at->pushed), i;
	uint32_t ms =
	    (uint32_t)((atomic_load(&board->clock_ns) - board->start_ns) /
		1000000);
	struct open_tuple head = {
		.stay = actor->id,
		.seat = actor->at->seat,
		.target = plan.names_seats ? seat : DFI_ANY_SEAT,
	};

	for (i = 0; i < count; i++) {
		head.n = n + i;
		if (plan.keyed)
			head.target = group_for(actor, n + i);
		if (plan.keyed)
			seat = open_partition_of(&plan, head.target);
		board->sent[actor->id][n + i] = (uint8_t)(seat + 1);
		board->marked[actor->id][n + i] = actor->mark;
		board->sent_ms[actor->id][n + i] = ms;
		open_make_tuple(
		    &plan, &head, (char *)tuples + (size_t)i * plan.tuple_size);
	}
	atomic_store(&actor->at->attempted, n + count);
}

/* Build tuples in place: how many, or an error. */
static int claim(struct actor *actor, uint32_t seat, uint32_t most)
{
	struct dfi_span span;
	int ret = dfi_source_claim(actor->source, seat, &span);

	if (ret < 0)
		return ret;
	if (span.count < most)
		most = span.count;
	make_tuples(actor, span.tuples, most, seat);
	ret = dfi_source_commit(actor->source, &span, most);
	return ret < 0 ? ret : (int)most;
}

static int push_by_cursor(struct actor *actor, uint32_t seat)
{
	struct dfi_source_cursor cursor = dfi_source_cursor_open(
	    actor->source, seat, plan.tuple_size);

	dfi_source_cursor_push(&cursor, actor->tuples, plan.tuple_size);
	return dfi_source_cursor_close(cursor);
}

/* Push some: how many, or an error. */
static int push_some(struct actor *actor)
{
	uint32_t n = atomic_load(&actor->at->pushed);
	int pushed;
	uint32_t seat = plan.names_seats ? seat_for(actor, n)
	    : plan.replicates            ? DFI_ALL_TARGETS
					 : 0;
	uint32_t most = actor->what.n_tuples - n;

	if (most > MAX_RUN)
		most = MAX_RUN;
	if (actor->what.style == OPEN_CLAIM)
		return claim(actor, seat, most);
	if (actor->what.style != OPEN_BATCH)
		most = 1;
	make_tuples(actor, actor->tuples, most, seat);
	if (actor->what.style == OPEN_BATCH) {
		pushed = is_direct()
		    ? dfi_source_push_batch_to(
			  actor->source, seat, actor->tuples, most)
		    : dfi_source_push_batch(actor->source, actor->tuples, most);
		/* The close fails if the rest is not repeated there. */
		actor->rest = pushed == -EAGAIN ||
			(pushed > 0 && pushed < (int)most)
		    ? seat + 1
		    : 0;
		return pushed;
	}
	if (actor->what.style == OPEN_CURSOR)
		pushed = push_by_cursor(actor, seat);
	else if (is_direct())
		pushed = dfi_source_push_to(actor->source, seat, actor->tuples);
	else
		pushed = dfi_source_push(actor->source, actor->tuples);
	return pushed ? pushed : 1;
}

/* Joined and left take turns, of one incarnation each. */
static void take_source_events(struct actor *actor)
{
	struct dfi_event event;
	struct holder *of;

	while (actor->what.events &&
	    dfi_source_event(actor->source, &event) == 0) {
		of = &actor->of[event.seat];
		actor->at->n_events++;
		if (event.type == DFI_JOINED
			? of->incarnation != 0
			: of->incarnation != event.incarnation)
			open_note_wrong(
			    actor, "events of a target out of order");
		of->incarnation = event.type == DFI_JOINED ? event.incarnation
							   : 0;
	}
}

/* Values rise over all sources, so that no source is far behind. */
static int mark(struct actor *actor)
{
	uint32_t value = atomic_fetch_add(&board->newest_mark, 1) + 1;
	int ret;

	while ((ret = dfi_source_mark(actor->source, value)) == -EAGAIN)
		open_wait_for(dfi_source_fd(actor->source));
	if (ret < 0)
		return ret;
	actor->mark = value;
	actor->marked_n = actor->n_moved;
	return 0;
}

/* Not before the rest of a batch is repeated. */
static int mark_when_due(struct actor *actor)
{
	return plan.mark_every && !actor->rest &&
		actor->n_moved - actor->marked_n >= plan.mark_every
	    ? mark(actor)
	    : 0;
}

static int push_all(struct actor *actor)
{
	struct stay_board *at = actor->at;
	int ret = 0;

	while (atomic_load(&at->pushed) < actor->what.n_tuples) {
		open_acts(actor);
		ret = push_some(actor);
		if (ret == -EAGAIN) {
			open_wait_for(dfi_source_fd(actor->source));
			continue;
		}
		if (ret == -ENXIO && plan.names_seats) {
			/* Nobody is in this seat. */
			actor->shift++;
			actor->rest = 0;
			at->n_repeats++;
			open_sleep_us(1000);
			continue;
		}
		if (ret < 0)
			return ret;
		atomic_fetch_add(&at->pushed, (uint32_t)ret);
		open_count_moved(actor, (uint32_t)ret);
		take_source_events(actor);
		ret = mark_when_due(actor);
		if (ret < 0)
			return ret;
		if (actor->what.flush_every &&
		    actor->n_moved - actor->flushed >=
			actor->what.flush_every) {
			actor->flushed = actor->n_moved;
			/* In an ordered flow it may wait for a view. */
			while (
			    (ret = dfi_source_flush(actor->source)) == -EAGAIN)
				open_wait_for(dfi_source_fd(actor->source));
			if (ret < 0)
				return ret;
			atomic_store(&at->flushed, atomic_load(&at->pushed));
		}
	}
	open_acts(actor);
	return 0;
}

/* Wait until each tuple was received, or counts as dropped. */
static int settle(struct actor *actor)
{
	int64_t until = runner_now_ns() + SETTLE_NS;
	struct stay_board *at = actor->at;
	int ret;

	set_state(actor, STAY_SETTLING);
	/* Targets that align wait for it. */
	ret = plan.mark_every ? mark(actor) : 0;
	if (ret < 0)
		return ret;
	do {
		ret = dfi_source_flush(actor->source);
		take_source_events(actor);
		dfi_source_dropped(actor->source, &at->dropped);
		if (ret < 0)
			return ret;
		at->settled = atomic_load(&at->received) + at->dropped >=
		    atomic_load(&at->pushed);
		if (!at->settled)
			open_sleep_us(2000);
	} while (!at->settled && runner_now_ns() < until);
	if (!at->settled)
		open_note_wrong(
		    actor, "tuples are neither received nor dropped");
	return 0;
}

static int open_source(struct actor *actor)
{
	struct dfi_source_attr attr = {
		.size = sizeof(attr),
		.route = plan.routing == DFI_ROUTE_FUNCTION ? route : NULL,
		.flags = (actor->what.nonblock ? DFI_NONBLOCK : 0u) |
		    (actor->what.events ? (unsigned)DFI_EVENTS : 0u),
		.wait = actor->what.wait,
		.open_timeout_ms = OPEN_TIMEOUT_MS,
		.linger_us = actor->what.linger_us,
	};
	int ret = dfi_source_open(
	    dfi, OPEN_FLOW, actor->what.seat, &attr, &actor->source);

	if (!ret)
		actor->at->seat = (uint32_t)dfi_source_seat(actor->source);
	return ret;
}

/* ---- Targets ----------------------------------------------------------- */

/*
 * Tuples of a group come in order at one target, and also as it passes from one
 * to the next, unless a target that is out still consumes what it has.
 */
static const char *check_group(
    struct actor *actor, const struct open_tuple *head)
{
	uint32_t group = head->target % OPEN_GROUPS, last;
	bool all_end = !plan.evict_after_ms && !plan.lease_ms;

	if (actor->what.events &&
	    !actor->owns[open_partition_of(&plan, head->target)])
		return "a tuple of a partition of others";
	if (head->n < actor->next_of[head->stay][group])
		return "a tuple of its group out of order";
	actor->next_of[head->stay][group] = head->n + 1;
	last = atomic_exchange(&board->last[head->stay][group], head->n + 1);
	return all_end && last > head->n
	    ? "a tuple behind what the next owner had"
	    : NULL;
}

/* A partition is gained or leaves. */
static void take_partition(struct actor *actor, const struct dfi_event *event)
{
	bool leaves = event->type == DFI_LEAVING;
	int ret;

	if (!plan.keyed || event->partition >= OPEN_PARTITIONS ||
	    actor->owns[event->partition] != leaves) {
		open_note_wrong(actor, "events of a partition out of order");
		return;
	}
	actor->owns[event->partition] = !leaves;
	if (!leaves)
		atomic_store(&actor->at->gained[event->partition], true);
	ret = leaves ? dfi_partition_release(actor->target, event->partition)
		     : 0;
	/* Others are of the flow or the target. */
	if (ret == -EINVAL || ret == -ERANGE)
		open_note_wrong(actor, dfi_errmsg());
}

/*
 * The watermark is not above the last mark before a tuple, unless it was when
 * the source joined, in an ordered flow when its first tuple was due, or the
 * tuple is late. A target that aligns gets nothing behind a mark above the
 * watermark, but for sources that are gone, and while partitions move.
 */
static const char *check_marks(
    struct actor *actor, const struct open_tuple *head)
{
	uint32_t before = board->marked[head->stay][head->n];
	struct holder *of = &actor->of[head->seat];

	if (!actor->what.events || !plan.mark_every)
		return NULL;
	/* Others may have marked between the event and this place (K6). */
	if (plan.ordered && head->n == 0)
		of->watermark = actor->watermark;
	if (actor->watermark > before && actor->watermark > of->watermark &&
	    !(actor->what.idle_after_ms && dfi_target_late(actor->target) == 1))
		return "a tuple behind the watermark";
	return actor->what.aligns && !plan.keyed && !plan.evict_after_ms &&
		before > actor->watermark &&
		!atomic_load(&board->stays[head->stay].gone_ns)
	    ? "a tuple behind a mark that others lack"
	    : NULL;
}

static const char skipped[] = "a tuple is skipped";

/* seat: of the source, or DFI_ANY_SEAT if it isn't known. */
static const char *check_tuple(struct actor *actor, const void *tuple,
    uint32_t seat, struct open_tuple *head)
{
	const char *wrong = NULL;
	struct holder *of;

	memcpy(head, tuple, sizeof(*head));
	if (!open_check_tuple(&plan, tuple))
		return "a tuple that nobody made";
	if (head->seat >= plan.n_sources ||
	    (seat != DFI_ANY_SEAT && seat != head->seat))
		return "a tuple of another seat";
	if (plan.names_seats && head->target != actor->at->seat)
		return "a tuple for another target";
	if (plan.keyed)
		wrong = check_group(actor, head);
	else if (head->n < actor->next_n[head->stay])
		wrong = "a tuple out of order";
	if (wrong)
		return wrong;
	if (head->n >= atomic_load(&board->stays[head->stay].attempted))
		return "a tuple that was not pushed";
	of = &actor->of[head->seat];
	if (actor->what.events && !of->incarnation)
		return "a tuple of a source that has not joined";
	if (plan.replicates && !plan.ordered && actor->what.events &&
	    !of->stay && head->n != of->first)
		return "the event named another first tuple";
	if (plan.replicates && actor->next_n[head->stay] &&
	    head->n != actor->next_n[head->stay])
		return skipped;
	if (of->stay && of->stay != head->stay + 1 && actor->what.events)
		return "a tuple of another stay in that seat";
	return check_marks(actor, head);
}

static void take(struct actor *actor, const void *tuple, uint32_t seat)
{
	struct open_tuple head;
	const char *wrong = check_tuple(actor, tuple, seat, &head);
	static const char twice[] = "a tuple twice";
	char text[200];
	uint16_t none = 0;

	if (!wrong && !plan.replicates &&
	    !atomic_compare_exchange_strong(&board->owner[head.stay][head.n],
		&none, (uint16_t)(actor->id + 1)))
		wrong = twice;
	if (wrong) {
		snprintf(text, sizeof(text),
		    "%s: %u of stay %u, seat %u, for %u; got before by %d",
		    wrong, head.n, head.stay, head.seat, head.target, none - 1);
		open_note(actor,
		    wrong == twice         ? OPEN_DOUBLED
			: wrong == skipped ? OPEN_LOST
					   : OPEN_HARMED,
		    text);
		return;
	}
	actor->next_n[head.stay] = head.n + 1;
	board->last_of[actor->id][head.stay] = head.n + 1;
	actor->of[head.seat].stay = head.stay + 1;
	atomic_fetch_add(&board->stays[head.stay].received, 1);
	atomic_fetch_add(&actor->at->taken, 1);
}

/*
 * In an ordered flow: positions rise, and each tuple has the same one at all
 * targets, in whichever way they consume, if it is the last of its segment.
 */
static void check_position(struct actor *actor, const void *tuple)
{
	uint64_t position, others = 0;
	struct open_tuple head;

	if (!plan.ordered)
		return;
	if (dfi_target_position(actor->target, &position) < 0) {
		open_note_wrong(actor, dfi_errmsg());
		return;
	}
	if (position < actor->position)
		open_note_wrong(actor, "positions fall");
	actor->position = position;
	memcpy(&head, tuple, sizeof(head));
	if (!open_check_tuple(&plan, tuple) ||
	    atomic_compare_exchange_strong(
		&board->position[head.stay][head.n], &others, position) ||
	    others == position)
		return;
	open_note_wrong(actor, "a tuple has two positions");
}

void open_take_event(struct actor *actor)
{
	struct dfi_event event;
	struct holder *of;
	int ret;

	/* It may be killed before it knows what it has gained. */
	atomic_store(&actor->at->gaining, true);
	ret = dfi_target_event(actor->target, &event);
	if (ret == 0 && (event.type == DFI_GAINED || event.type == DFI_LEAVING))
		take_partition(actor, &event);
	atomic_store(&actor->at->gaining, false);
	if (ret < 0) {
		open_note_wrong(actor, "-ENOMSG without an event");
		return;
	}
	actor->at->n_events++;
	if (event.type == DFI_GAINED || event.type == DFI_LEAVING)
		return;
	if (event.type == DFI_MARK) {
		if (event.value <= actor->watermark)
			open_note_wrong(actor, "the watermark falls");
		actor->watermark = event.value;
		return;
	}
	/* Positions that are gaps for all: of no source. */
	if (event.type == DFI_GAP && plan.ordered)
		return;
	of = &actor->of[event.seat];
	if (event.type == DFI_JOINED ? of->incarnation != 0
				     : of->incarnation != event.incarnation)
		open_note_wrong(actor, "events of a source out of order");
	if (event.type != DFI_JOINED && of->stay)
		board->fate[actor->id][of->stay - 1] = (uint8_t)event.type;
	if (plan.replicates && event.type == DFI_ENDED && of->stay &&
	    actor->next_n[of->stay - 1] !=
		atomic_load(&board->stays[of->stay - 1].pushed))
		open_note(actor, OPEN_LOST,
		    "a source has ended before its last tuple");
	*of = (struct holder){
		.incarnation = event.type == DFI_JOINED ? event.incarnation : 0,
		.first = event.value,
		.watermark = actor->watermark,
	};
}

static int consume_batch(struct actor *actor)
{
	struct dfi_batch batch;
	int ret = dfi_target_consume_batch(actor->target, &batch);
	uint32_t i;

	for (i = 0; ret > 0 && i < batch.count; i++)
		take(actor,
		    (const char *)batch.tuples + (size_t)i * batch.stride,
		    batch.source);
	if (ret > 0)
		check_position(actor,
		    (const char *)batch.tuples +
			(size_t)(batch.count - 1) * batch.stride);
	if (ret > 0)
		dfi_target_release(actor->target, &batch);
	return ret;
}

static int consume_run(struct actor *actor)
{
	struct dfi_target_cursor cursor = dfi_target_cursor_open(
	    actor->target, plan.tuple_size);
	const void *tuple;
	int ret, n = 0;

	while (n < MAX_RUN &&
	    (tuple = dfi_target_cursor_get(&cursor, plan.tuple_size))) {
		take(actor, tuple, DFI_ANY_SEAT);
		n++;
	}
	ret = dfi_target_cursor_close(cursor);
	return n && (ret >= 0 || ret == -EAGAIN || ret == -ENOMSG) ? n : ret;
}

static int consume(struct actor *actor)
{
	const void *tuple;
	int ret;

	if (actor->what.style == OPEN_BATCH || actor->what.style == OPEN_CLAIM)
		return consume_batch(actor);
	if (actor->what.style == OPEN_CURSOR)
		return consume_run(actor);
	ret = dfi_target_consume(actor->target, &tuple);
	if (ret > 0) {
		take(actor, tuple, DFI_ANY_SEAT);
		check_position(actor, tuple);
	}
	return ret;
}

static int consume_all(struct actor *actor)
{
	int ret;

	for (;;) {
		if (open_acts(actor))
			return 0;
		ret = consume(actor);
		if (ret == -EAGAIN)
			open_wait_for(dfi_target_fd(actor->target));
		else if (ret == -ENOMSG)
			open_take_event(actor);
		else if (ret > 0)
			open_count_moved(actor, (uint32_t)ret);
		else
			break;
	}
	actor->at->ended = !ret;
	return ret;
}

static int open_target(struct actor *actor)
{
	struct dfi_target_attr attr = {
		.size = sizeof(attr),
		.flags = (actor->what.nonblock ? DFI_NONBLOCK : 0u) |
		    (actor->what.events ? (unsigned)DFI_EVENTS : 0u) |
		    (actor->what.aligns ? (unsigned)DFI_ALIGN : 0u),
		.idle_after_ms = actor->what.idle_after_ms,
		.wait = actor->what.wait,
		.open_timeout_ms = OPEN_TIMEOUT_MS,
	};
	int ret = dfi_target_open(
	    dfi, OPEN_FLOW, actor->what.seat, &attr, &actor->target);

	if (!ret)
		actor->at->seat = (uint32_t)dfi_target_seat(actor->target);
	return ret;
}

/* ---- Both -------------------------------------------------------------- */

/* What a visitor tries again: the seat is held, or nobody is there yet. */
static bool is_early(int ret)
{
	return ret == -EEXIST || ret == -EBUSY || ret == -ETIMEDOUT ||
	    ret == -ENOTCONN || ret == -ECONNREFUSED || ret == -EHOSTUNREACH ||
	    ret == -ENETUNREACH;
}

static bool is_over(const struct actor *actor)
{
	return actor->source || actor->target ? false
	    : open_is_source(&plan, actor->number)
	    ? atomic_load(&board->finished)
	    : atomic_load(&board->no_more_sources);
}

static int open_actor(struct actor *actor)
{
	int ret;

	do {
		atomic_store(&actor->at->opening_ns, open_stamp(board));
		ret = open_is_source(&plan, actor->number) ? open_source(actor)
							   : open_target(actor);
		if (is_early(ret)) {
			actor->at->n_repeats++;
			open_sleep_us(5000);
		}
	} while (is_early(ret) && !is_over(actor));
	return ret;
}

static void close_actor(struct actor *actor)
{
	struct stay_board *at = actor->at;

	note_gone(actor);
	if (actor->source)
		dfi_source_dropped(actor->source, &at->dropped);
	set_state(actor, STAY_CLOSING);
	at->close_ret = actor->source ? dfi_source_close(actor->source)
				      : dfi_target_close(actor->target);
	if (at->close_ret < 0 && !at->ret)
		failed(actor, at->close_ret);
	at->closed_ns = open_stamp(board);
	set_state(actor, STAY_CLOSED);
}

/* *whole: the source has pushed its input to the end. */
static int run_replay(struct actor *actor, bool *whole)
{
	int ret;

	if (!actor->source)
		return open_replay_consume(actor, &plan, board);
	ret = open_replay_push(actor, &plan, whole);
	/* It leaves for another to go on. */
	if (!ret && !*whole) {
		actor->at->aborted = true;
		dfi_source_abort(actor->source);
	}
	return ret;
}

static int run_combine(struct actor *actor)
{
	return actor->source ? open_combine_push(actor, &plan, board)
			     : open_combine_consume(actor, &plan, board);
}

static void run_stay(struct actor *actor)
{
	struct stay_board *at = actor->at;
	bool whole = false;
	int ret;

	open_sleep_us(actor->what.delay_ms * 1000);
	set_state(actor, STAY_OPENING);
	ret = open_actor(actor);
	if (ret < 0) {
		failed(actor, ret);
		set_state(actor, STAY_REFUSED);
		return;
	}
	atomic_store(&at->opened_ns, open_stamp(board));
	set_state(actor, STAY_OPEN);
	ret = plan.replays  ? run_replay(actor, &whole)
	    : plan.combines ? run_combine(actor)
	    : actor->source ? push_all(actor)
			    : consume_all(actor);
	if (!ret && actor->source && actor->what.settles && !plan.replays)
		ret = settle(actor);
	if (ret < 0)
		failed(actor, ret);
	close_actor(actor);
	if (whole && !at->ret && !at->close_ret)
		atomic_store(&board->replay.whole[at->seat], true);
}

/* The next stay, or false: there is none. */
static bool begin_stay(struct actor *actor)
{
	uint32_t number = atomic_load(&board->next_stay[actor->number]);
	bool reads = plan.replays && open_is_source(&plan, actor->number);
	uint32_t seat = reads
	    ? open_replay_seat(&plan, board, actor->number + number)
	    : 0;

	if (number == OPEN_STAYS || seat == DFI_ANY_SEAT ||
	    (number >= plan.n_stays[actor->number] && !reads &&
		!plan.resident[actor->number]))
		return false;
	if (open_is_source(&plan, actor->number)
		? atomic_load(&board->finished)
		: number >= plan.n_stays[actor->number] &&
		    atomic_load(&board->no_more_sources))
		return false;
	atomic_store(&board->next_stay[actor->number], number + 1);
	actor->id = open_stay_id(actor->number, number);
	actor->what = open_stay_plan(&plan, volume, actor->number, number);
	if (reads)
		actor->what.seat = seat;
	actor->at = &board->stays[actor->id];
	if (atomic_load(&board->excused[process]))
		atomic_store(&actor->at->excused, true);
	actor->at->seat = actor->what.seat;
	actor->source = NULL;
	actor->target = NULL;
	actor->n_moved = actor->flushed = actor->shift = actor->rest = 0;
	actor->position = actor->watermark = 0;
	actor->mark = actor->marked_n = 0;
	actor->gives_up_ns = 0;
	memset(actor->next_n, 0, sizeof(actor->next_n));
	memset(actor->of, 0, sizeof(actor->of));
	memset(actor->next_of, 0, sizeof(actor->next_of));
	memset(actor->owns, 0, sizeof(actor->owns));
	return true;
}

static void *run_actor(void *arg)
{
	struct actor *actor = arg;

	while (begin_stay(actor))
		run_stay(actor);
	atomic_store(&board->done[actor->number], true);
	return NULL;
}

static int open_context(const char *address)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	int ret;

	attr.registry = address;
	attr.lease_ttl_ms = plan.lease_ms;
	do {
		ret = dfi_open(&attr, &dfi);
		if (ret < 0)
			open_sleep_us(5000);
	} while (is_early(ret) ||
	    (ret < 0 && atomic_load(&board->excused[process])));
	if (ret < 0)
		fprintf(stderr, "dfi_open: %s\n", dfi_errmsg());
	return ret;
}

int open_worker(int argc, char **argv)
{
	static struct actor actors[OPEN_ACTORS];
	uint32_t a;

	if (argc != 9)
		return EXIT_FAILURE;
	/* If chaos is killed, its processes end as well. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED,
	    atoi(argv[2]), 0);
	if (board == MAP_FAILED)
		return EXIT_FAILURE;
	volume = (uint32_t)strtoul(argv[4], NULL, 10);
	open_make_plan(&plan, strtoull(argv[3], NULL, 10), argv[7],
	    (uint32_t)strtoul(argv[8], NULL, 10));
	process = (uint32_t)strtoul(argv[5], NULL, 10);
	if (open_late_start() || open_context(argv[6]) < 0)
		return EXIT_FAILURE;
	for (a = 0; a < plan.n_actors; a++) {
		if (plan.process_of[a] != process)
			continue;
		actors[a].number = a;
		actors[a].tuples = malloc((size_t)MAX_RUN * plan.tuple_size);
		actors[a].replay = malloc(open_replay_target_size());
		pthread_create(&actors[a].thread, NULL, run_actor, &actors[a]);
	}
	for (a = 0; a < plan.n_actors; a++)
		if (actors[a].tuples) {
			pthread_join(actors[a].thread, NULL);
			free(actors[a].tuples);
			free(actors[a].replay);
		}
	return dfi_close(dfi) < 0 && !atomic_load(&board->excused[process])
	    ? EXIT_FAILURE
	    : EXIT_SUCCESS;
}
