/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Actors of runs with replay, and what comes of their work. Each source's seat
 * has an input, which its holders read to the end, one after the other. Targets
 * store effects of tuples in memory that all processes share, as dfi/replay.h
 * says: with routing by keys each tuple takes effect once, else at least once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "open_late.h"
#include "open_worker.h"
#include "random.h"
#include "runner.h"

#define COMMIT 3      /* batches */
#define MARK_EVERY 40 /* tuples */
#define PACE_EVERY 16
/* Who was stopped beyond its lease may find its seat, or its work, taken. */
#define FENCED (-ESTALE)

/* ---- Tuples -------------------------------------------------------------- */

static uint64_t replay_key(
    const struct open_plan *plan, uint32_t seat, uint64_t position)
{
	return mix(plan->seed ^ mix(position ^ mix(seat + 1)));
}

/* By which it is routed. */
static uint32_t replay_group(
    const struct open_plan *plan, uint32_t seat, uint64_t position)
{
	uint32_t n = plan->names_seats ? plan->n_targets : OPEN_GROUPS;

	return (uint32_t)(position * 7 + seat) % n;
}

static void make_replay_tuple(
    const struct open_plan *plan, uint32_t seat, uint64_t position, void *tuple)
{
	struct replay_tuple head = {
		.key = replay_key(plan, seat, position),
		.position = position,
		.seat = seat,
		.group = replay_group(plan, seat, position),
	};
	unsigned char *bytes = tuple;
	uint32_t i;

	memcpy(bytes, &head, sizeof(head));
	for (i = sizeof(head); i < plan->tuple_size; i++)
		bytes[i] = tuple_byte(head.key, i);
}

static bool is_replay_tuple(
    const struct open_plan *plan, uint32_t seat, const void *tuple)
{
	struct replay_tuple head;
	char same[4096];

	memcpy(&head, tuple, sizeof(head));
	if (head.seat != seat || !head.position ||
	    head.position > plan->n_input || plan->tuple_size > sizeof(same))
		return false;
	make_replay_tuple(plan, seat, head.position, same);
	return memcmp(same, tuple, plan->tuple_size) == 0;
}

/* ---- Sources ------------------------------------------------------------- */

uint32_t open_replay_seat(
    const struct open_plan *plan, const struct open_board *board, uint32_t from)
{
	uint32_t i, seat;

	for (i = 0; i < plan->n_sources; i++) {
		seat = (from + i) % plan->n_sources;
		if (!atomic_load(&board->replay.whole[seat]))
			return seat;
	}
	return DFI_ANY_SEAT;
}

static int resume(struct actor *actor, uint64_t *position)
{
	int ret;

	do {
		ret = dfi_source_resume(actor->source, position, NULL, 0);
		if (ret == -EAGAIN)
			open_sleep_us(2000);
	} while (ret == -EAGAIN);
	return ret;
}

/* In a seat that nobody holds, until somebody does. */
static int push_again(
    struct actor *actor, const struct open_plan *plan, uint64_t position)
{
	uint32_t seat = replay_group(plan, actor->at->seat, position);

	return plan->routing == DFI_ROUTE_DIRECT
	    ? dfi_source_push_to(actor->source, seat, actor->tuples)
	    : dfi_source_push(actor->source, actor->tuples);
}

static int push(
    struct actor *actor, const struct open_plan *plan, uint64_t position)
{
	int ret;

	make_replay_tuple(plan, actor->at->seat, position, actor->tuples);
	do {
		ret = push_again(actor, plan, position);
		if (ret == -EAGAIN)
			open_wait_for(dfi_source_fd(actor->source));
		else if (ret == -ENXIO)
			open_sleep_us(1000);
	} while (ret == -EAGAIN || (ret == -ENXIO && plan->names_seats));
	return ret;
}

/* More in one call: how many, or an error. */
static int push_batch(struct actor *actor, const struct open_plan *plan,
    uint64_t position, uint32_t n)
{
	uint32_t i;
	int ret;

	for (i = 0; i < n; i++)
		make_replay_tuple(plan, actor->at->seat, position + i,
		    actor->tuples + (size_t)i * plan->tuple_size);
	do {
		ret = dfi_source_push_batch(actor->source, actor->tuples, n);
		if (ret == -EAGAIN)
			open_wait_for(dfi_source_fd(actor->source));
	} while (ret == -EAGAIN);
	return ret;
}

/* What comes next, up to the next mark: how many, or an error. */
static int push_some(
    struct actor *actor, const struct open_plan *plan, uint64_t position)
{
	uint64_t most = MARK_EVERY - (position - 1) % MARK_EVERY;
	int ret;

	if (actor->what.style != OPEN_BATCH || plan->names_seats) {
		ret = push(actor, plan, position);
		return ret < 0 ? ret : 1;
	}
	if (most > plan->n_input + 1 - position)
		most = plan->n_input + 1 - position;
	if (most > MAX_RUN)
		most = MAX_RUN;
	return push_batch(actor, plan, position, (uint32_t)most);
}

static int mark(struct actor *actor, uint64_t value)
{
	int ret;

	do {
		ret = dfi_source_mark(actor->source, value);
		if (ret == -EAGAIN)
			open_wait_for(dfi_source_fd(actor->source));
	} while (ret == -EAGAIN);
	return ret;
}

int open_replay_push(
    struct actor *actor, const struct open_plan *plan, bool *whole)
{
	uint64_t position = 0, before;
	int ret = resume(actor, &position);

	while (!ret && position < plan->n_input) {
		open_acts(actor);
		if (actor->n_moved >= actor->what.n_tuples)
			return 0;
		ret = push_some(actor, plan, position + 1);
		if (ret < 0)
			return ret;
		before = position;
		position += (uint32_t)ret;
		atomic_fetch_add(&actor->at->pushed, (uint32_t)ret);
		open_count_moved(actor, (uint32_t)ret);
		ret = position % MARK_EVERY == 0 ? mark(actor, position) : 0;
		if (ret < 0)
			return ret;
		if (position / PACE_EVERY != before / PACE_EVERY)
			open_sleep_us(plan->pace_us);
	}
	*whole = !ret;
	return ret;
}

/* ---- The store ----------------------------------------------------------- */

struct replay_target {
	struct replay_state states[OPEN_PARTITIONS]; /* with all effects */
	bool held[OPEN_PARTITIONS];
	/* Without keys: effects that are not stored. */
	bool pending[OPEN_SEATS][OPEN_TUPLES];
};

/* What its last holder has not made current has not happened. */
static void lock_store(const struct actor *actor, const struct open_plan *plan,
    struct open_board *board)
{
	uint32_t none = 0, own = plan->process_of[actor->number] + 1;
	int64_t from = runner_now_ns();

	while (!atomic_compare_exchange_strong(
	    &board->replay.holder, &none, own)) {
		none = 0;
		open_sleep_us(100);
	}
	/* Its holder may be stopped. */
	open_late_note(from, runner_now_ns());
}

static void unlock_store(struct open_board *board)
{
	atomic_store(&board->replay.holder, 0);
}

void open_replay_release(struct open_board *board, uint32_t process)
{
	uint32_t held = process + 1;

	atomic_compare_exchange_strong(&board->replay.holder, &held, 0);
}

static const struct replay_state *stored(
    const struct open_board *board, uint32_t p)
{
	return &board->replay.of[p]
		    .states[atomic_load(&board->replay.of[p].current)];
}

static void make_current(
    struct open_board *board, uint32_t p, const struct replay_state *state)
{
	uint32_t other = !atomic_load(&board->replay.of[p].current);

	board->replay.of[p].states[other] = *state;
	atomic_store(&board->replay.of[p].current, other);
}

static int commit(
    struct actor *actor, const struct open_plan *plan, struct open_board *board)
{
	struct replay_target *own = actor->replay;
	bool current = true;
	uint32_t p, s, i;

	lock_store(actor, plan, board);
	for (p = 0; p < OPEN_PARTITIONS; p++) {
		if (!own->held[p])
			continue;
		if (stored(board, p)->epoch == own->states[p].epoch)
			make_current(board, p, &own->states[p]);
		else
			current = false;
	}
	unlock_store(board);
	for (s = 0; !plan->keyed && s < plan->n_sources; s++)
		for (i = 1; i <= plan->n_input; i++)
			if (own->pending[s][i])
				atomic_store(&board->replay.seen[s][i], true);
	memset(own->pending, 0, sizeof(own->pending));
	return current ? dfi_target_ack(actor->target) : FENCED;
}

static int gain(struct actor *actor, const struct open_plan *plan,
    struct open_board *board, const struct dfi_event *event)
{
	struct replay_target *own = actor->replay;
	uint32_t p = event->partition;
	struct replay_state state;
	bool newer;

	lock_store(actor, plan, board);
	state = *stored(board, p);
	newer = state.epoch < event->epoch;
	state.epoch = event->epoch;
	if (newer)
		make_current(board, p, &state);
	unlock_store(board);
	if (!newer)
		return FENCED;
	own->states[p] = state;
	own->held[p] = true;
	return dfi_partition_take(
	    actor->target, p, state.positions, actor->n_sources);
}

/* Holders of a source's seat take turns; one that was lost may be given up. */
static void note_holder(struct actor *actor, const struct open_plan *plan,
    const struct open_board *board, const struct dfi_event *event)
{
	struct holder *of = &actor->of[event->seat % OPEN_SEATS];

	switch (event->type) {
	case DFI_JOINED:
		if (of->incarnation)
			open_note_wrong(actor, "a seat has two holders");
		of->incarnation = event->incarnation;
		of->lost = false;
		return;
	case DFI_ENDED:
	case DFI_LOST:
	case DFI_EVICTED:
		if (of->incarnation != event->incarnation)
			open_note_wrong(actor, "a holder's end out of order");
		of->incarnation = 0;
		of->lost = event->type != DFI_ENDED;
		return;
	case DFI_GIVEN_UP:
		if (!of->lost ||
		    (!plan->return_timeout_ms &&
			!atomic_load(&board->replay.given_up[event->seat %
			    OPEN_SEATS]) &&
			!atomic_load(&board->finished)))
			open_note_wrong(actor, "a seat is given up");
		of->lost = false;
		return;
	default:
		return;
	}
}

static int take_event(
    struct actor *actor, const struct open_plan *plan, struct open_board *board)
{
	struct dfi_event event;
	int ret = dfi_target_event(actor->target, &event);

	if (ret < 0)
		return ret;
	actor->at->n_events++;
	if (event.type == DFI_GAINED)
		return gain(actor, plan, board, &event);
	if (event.type == DFI_MARK && event.value <= actor->watermark)
		open_note_wrong(actor, "the watermark falls");
	if (event.type == DFI_MARK)
		actor->watermark = event.value;
	else
		note_holder(actor, plan, board, &event);
	if (event.type == DFI_LEAVING || event.type == DFI_ACK_DUE)
		ret = commit(actor, plan, board);
	if (ret < 0 || event.type != DFI_LEAVING)
		return ret;
	actor->replay->held[event.partition] = false;
	return dfi_partition_release(actor->target, event.partition);
}

static void take(struct actor *actor, const struct open_plan *plan,
    uint32_t seat, const void *tuple)
{
	struct replay_target *own = actor->replay;
	struct replay_tuple head;
	struct replay_state *state;
	uint32_t p = 0;

	memcpy(&head, tuple, sizeof(head));
	if (seat >= plan->n_sources || !is_replay_tuple(plan, seat, tuple)) {
		open_note_wrong(actor, "a tuple that nobody made");
		return;
	}
	if (plan->names_seats && head.group != actor->at->seat) {
		open_note_wrong(actor, "a tuple for another target");
		return;
	}
	if (!plan->keyed) {
		own->pending[seat][head.position] = true;
		return;
	}
	if (dfi_target_partition(actor->target, tuple, &p) < 0 ||
	    p != open_partition_of(plan, head.group) || !own->held[p]) {
		open_note_wrong(actor, "a tuple of a partition of others");
		return;
	}
	state = &own->states[p];
	if (head.position <= state->positions[seat]) {
		open_note_wrong(actor, "a tuple that is stored, or was lent");
		return;
	}
	state->positions[seat] = head.position;
	state->counts[seat]++;
	state->sums[seat] += head.key;
}

/* -ENOMSG and the like are not for the caller. */
static int consume_some(
    struct actor *actor, const struct open_plan *plan, struct open_board *board)
{
	struct dfi_batch batch;
	int ret = dfi_target_consume_batch(actor->target, &batch);
	uint32_t i;

	if (ret == -EAGAIN) {
		open_wait_for(dfi_target_fd(actor->target));
		return 1;
	}
	if (ret == -ENOMSG || ret == -ENOBUFS) {
		ret = ret == -ENOMSG ? take_event(actor, plan, board)
				     : commit(actor, plan, board);
		return ret < 0 ? ret : 1;
	}
	if (ret <= 0)
		return ret;
	for (i = 0; i < batch.count; i++)
		take(actor, plan, batch.source,
		    (const char *)batch.tuples + (size_t)i * batch.stride);
	atomic_fetch_add(&actor->at->taken, batch.count);
	dfi_target_release(actor->target, &batch);
	open_count_moved(actor, batch.count);
	/* Also later than a ring is full. */
	ret = ++actor->flushed % (plan->spills ? 20 * COMMIT : COMMIT)
	    ? 0
	    : commit(actor, plan, board);
	return ret < 0 ? ret : 1;
}

int open_replay_consume(
    struct actor *actor, const struct open_plan *plan, struct open_board *board)
{
	int ret;

	memset(actor->replay, 0, sizeof(*actor->replay));
	actor->n_sources = plan->n_sources;
	do {
		if (open_acts(actor))
			return 0;
		ret = consume_some(actor, plan, board);
	} while (ret > 0);
	if (!ret)
		ret = commit(actor, plan, board);
	actor->at->ended = !ret;
	return ret;
}

size_t open_replay_target_size(void)
{
	return sizeof(struct replay_target);
}

/* ---- The verdict --------------------------------------------------------- */

static void judge_once(const struct open_plan *plan,
    const struct open_board *board, uint32_t seat, struct open_verdict *verdict)
{
	uint64_t n = 0, sum = 0, expected = 0;
	uint32_t i, p;

	for (p = 0; p < OPEN_PARTITIONS; p++) {
		n += stored(board, p)->counts[seat];
		sum += stored(board, p)->sums[seat];
	}
	for (i = 1; i <= plan->n_input; i++)
		expected += replay_key(plan, seat, i);
	if (n == plan->n_input && sum == expected)
		return;
	printf("seed %" PRIu64 ": source %u: %" PRIu64
	       " effects of %u tuples%s\n",
	    plan->seed, seat, n, plan->n_input,
	    n == plan->n_input ? ", and not of these" : "");
	verdict->n[n < plan->n_input ? OPEN_LOST
		: n > plan->n_input  ? OPEN_DOUBLED
				     : OPEN_HARMED]++;
}

static void judge_at_least_once(const struct open_plan *plan,
    const struct open_board *board, uint32_t seat, struct open_verdict *verdict)
{
	uint32_t i, lost = 0, first = 0;

	for (i = 1; i <= plan->n_input; i++) {
		if (atomic_load(&board->replay.seen[seat][i]))
			continue;
		first = lost++ ? first : i;
	}
	if (!lost)
		return;
	printf("seed %" PRIu64 ": source %u: %u tuples are lost, from %u on\n",
	    plan->seed, seat, lost, first);
	verdict->n[OPEN_LOST]++;
}

void open_replay_judge(const struct open_plan *plan,
    const struct open_board *board, struct open_verdict *verdict)
{
	uint32_t s;

	for (s = 0; s < plan->n_sources; s++) {
		if (!atomic_load(&board->replay.whole[s])) {
			printf("seed %" PRIu64 ": source %u: its input was "
			       "not read to the end\n",
			    plan->seed, s);
			verdict->n[OPEN_HARMED]++;
		} else if (plan->keyed) {
			judge_once(plan, board, s, verdict);
		} else {
			judge_at_least_once(plan, board, s, verdict);
		}
	}
}
