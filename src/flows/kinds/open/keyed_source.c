/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of open flows that route by keys. */
#include "keyed.h"

#include <string.h>
#include "base/counter.h"
#include "base/error.h"

/* ---- Sending ------------------------------------------------------------- */

/* With replay, pushes count. */
void dfi__keyed_count(struct dfi_source *source, const struct dfi_source *end)
{
	struct writer *writer = &source->writers[0];
	uint64_t bytes = source_filled(end, 0);

	if (!open_source(source)->keyed->replays)
		owned_add(&writer->total,
		    likely(bytes == writer->geometry.segment_bytes)
			? writer->geometry.segment_tuples
			: bytes / source->head.tuple_size);
}

/* What goes wrong shows later. */
void dfi__keyed_send_end(struct dfi_source *source, struct dfi_source *end)
{
	struct writer *writer = &source->writers[0];

	if (!source_filled(end, 0))
		return;
	dfi__keyed_count(source, end);
	counter_add(&writer->segments, 1);
	counter_add(&writer->partial_segments,
	    source_filled(end, 0) != writer->geometry.segment_bytes);
	replay_set_input(source, end);
	(void)dfi__source_send(end, 0);
	if (unlikely(open_source(source)->keyed->linger_ns))
		dfi__keyed_park(open_source(source)->keyed, end);
}

/* A lane has no more room, or was parked and has its first tuple. */
static inline void reached_end(
    struct dfi_source *source, struct dfi_source *end)
{
	if (unlikely(end->head.lanes->next != end->writers[0].end))
		dfi__keyed_linger_start(source, end);
	else
		dfi__keyed_send_end(source, end);
}

/* Put a tuple into a seat's end: 1, 0 without room, or -ENXIO: it is lost. */
static always_inline int put(struct dfi_source *source, struct dfi_source *end,
    uint32_t seat, const void *tuple)
{
	struct dfi_source_lane *lane = end->head.lanes;
	size_t size = source->head.tuple_size;
	int ret;

	if (unlikely(!end->writers[0].segment)) {
		ret = dfi__open_end_segment(end);
		if (ret <= 0)
			return ret;
	}
	if (unlikely(open_source(source)->keyed->ways != NULL))
		dfi__keyed_note(source, seat, tuple);
	dfi_copy_tuple(lane->next, tuple, size);
	lane->next += size;
	if (unlikely(lane->next == end->writers[0].end))
		dfi__keyed_send_end(source, end);
	else if (unlikely(open_source(source)->keyed->linger_ns))
		dfi__keyed_linger_start(source, end);
	return 1;
}

/* ---- Tuples that wait -------------------------------------------------- */

/* Find no room for the first tuple of a partition. */
static void find_full(
    struct dfi_source *source, uint32_t partition, uint32_t seat)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;

	/* It comes first in the next round. */
	if (!memchr(keyed->full, true, open_seats(source)))
		keyed->held.begin = partition;
	keyed->full[seat] = true;
	keyed->needs_room |= !open_is_lost(open->ends[seat]);
	open_note_room(open, seat, false);
}

/*
 * Send the first tuple of a partition that waits, if its owner is there and has
 * room. Without keys any target may do.
 */
static bool send_first(struct dfi_source *source, uint32_t partition)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	const char *tuple = keyed->held.tuples +
	    (size_t)keyed->held.first[partition] * source->head.tuple_size;
	struct dfi_source *end;
	uint16_t seat;

	for (;; find_full(source, partition, seat)) {
		keyed->held.n_looks++;
		if (keyed->ways)
			dfi__keyed_choose(source, true);
		seat = open_source_owner(&keyed->state, partition);
		end = keyed_end(open, seat);
		if (!end || keyed->full[seat])
			return false;
		if (put(source, end, seat, tuple) > 0)
			break;
	}
	open_note_room(open, seat, true);
	keyed->begun[seat] = keyed->has_sent = true;
	if (keyed->ways)
		dfi__keyed_took(source, end);
	dfi__keyed_drop_first(keyed, partition);
	return true;
}

/*
 * Send begun segments that have tuples that waited, so that they don't wait for
 * newer ones. If half of a ring is full, only whole segments go there: partial
 * ones would fill it with few tuples. A target that has consumed all returns
 * more than half of its ring.
 */
static void send_begun(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	struct dfi_source *end;
	struct writer *ring;
	uint32_t i;

	for (i = 0; i < open_seats(source); i++) {
		if (!keyed->begun[i])
			continue;
		end = open->ends[i];
		ring = end ? &end->rings[0] : NULL;
		/* With replay, room may come only once these tuples have. */
		if (!keyed->replays && end && source_filled(end, 0) &&
		    !open_is_lost(end) &&
		    !dfi__writer_room(
			ring, (ring->geometry.segment_count + 1) / 2)) {
			keyed->needs_room = true;
			continue;
		}
		keyed->begun[i] = false;
		keyed->has_sent = true;
		if (end)
			dfi__keyed_send_end(source, end);
	}
}

/* Send what may go, of each partition in order. */
void dfi__keyed_send_held(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	uint32_t i, n = keyed->table.n_partitions, begin = keyed->held.begin;
	uint32_t before = keyed->held.n;

	memset(keyed->full, 0, open_seats(source));
	for (i = 0; i < n && keyed->held.n; i++)
		while (keyed->held.first[(begin + i) % n] != HELD_NONE &&
		    send_first(source, (begin + i) % n))
			;
	send_begun(source);
	if (keyed->held.n != before)
		dfi__keyed_route(open);
}

/* ---- Pushes ------------------------------------------------------------ */

static uint32_t seat_of(
    const struct open_source *open, const struct dfi_source *end)
{
	uint32_t i = 0;

	while (open->ends[i] != end)
		i++;
	return i;
}

/* The tuple found no room: 0 to try again, or an error. */
static int make_room(struct dfi_source *source, uint32_t partition,
    const struct dfi_source *end, int64_t *until)
{
	struct open_source *open = open_source(source);
	uint32_t seat = end ? seat_of(open, end) : open_seats(source);
	int ret = source_check(source);

	if (!ret && end && open_is_lost(open->ends[seat]))
		return dfi__open_lose(source, seat);
	if (end)
		open_note_room(open, seat, false);
	/* The owner of tuples that wait may have been lost without news. */
	if (!ret && !end)
		ret = dfi__open_drop_lost(source);
	if (!ret)
		ret = dfi__open_adopt(source);
	if (ret < 0 || keyed_to(open->keyed, partition) != end)
		return ret;
	if (!end) {
		dfi__keyed_send_held(source);
		if (open->may_push &&
		    open->keyed->held.n < open->keyed->most_held)
			return 0;
		ret = dfi__open_expect_some(source, seat);
	}
	if (!ret && source_interrupted(source))
		ret = dfi__source_interrupted(source);
	return ret < 0 ? ret : dfi__open_await_room(source, seat, until);
}

/* With replay: input positions rise. */
static int check_position(struct dfi_source *source, const void *tuple)
{
	uint64_t position = flow_input_position(&source->flow, tuple);
	uint64_t last = open_source(source)->keyed->last;

	return position > last
	    ? 0
	    : dfi__source_refuse(source,
		  dfi__fail(-EINVAL,
		      "flow '%s': %s %u: input position %lu: the last one "
		      "was %lu, and they rise, from 1 on",
		      source->flow.name, SOURCE_ID(source),
		      (unsigned long)position, (unsigned long)last));
}

/* A way is a seat, which nobody holds, as far as is known. */
static bool is_empty(struct dfi_source *source, uint32_t seat)
{
	return flow_names_seats(&source->flow) &&
	    open_source(source)->may_push && !open_source(source)->ends[seat] &&
	    !dfi__open_is_expected(source, seat);
}

/* The owner is not there, a segment must be opened first, or with replay. */
static __attribute__((__noinline__)) int push_slow(
    struct dfi_source *source, uint32_t partition, const void *tuple)
{
	struct keyed *keyed = open_source(source)->keyed;
	struct writer *writer = &source->writers[0];
	struct dfi_source *end;
	bool waited = false;
	int64_t until = 0;
	uint32_t seat;
	int ret = 0;

	if (unlikely(keyed->replays))
		ret = check_position(source, tuple);
	if (unlikely(ret < 0))
		return ret;
	for (;;) {
		if (keyed->ways)
			dfi__keyed_choose(source, false);
		end = keyed_to(keyed, partition);
		if (unlikely(
			keyed->ways && !end && is_empty(source, partition))) {
			writer->refused = 0;
			/* Also if it is the source that has lost its seat. */
			ret = dfi__open_adopt(source);
			return ret < 0
			    ? ret
			    : dfi__open_empty_seat(source, partition);
		}
		seat = open_source_route(&keyed->state, partition);
		if (likely(end) ? put(source, end, seat, tuple) > 0
				: dfi__keyed_hold(source, partition, tuple))
			break;
		waited = true;
		ret = make_room(source, partition, end, &until);
		if (ret < 0) {
			writer->refused = ret;
			source->head.inline_routing = DFI_INLINE_NONE;
			return ret;
		}
	}
	if (unlikely(writer->refused || waited)) {
		writer->refused = 0;
		source->head.inline_routing = keyed->inline_routing;
		if (end && end == keyed_to(keyed, partition))
			open_note_room(open_source(source),
			    seat_of(open_source(source), end), true);
	}
	if (unlikely(keyed->ways && end))
		dfi__keyed_took(source, end);
	if (unlikely(keyed->replays)) {
		keyed->last = flow_input_position(&source->flow, tuple);
		owned_add(&writer->total, 1);
	}
	return 0;
}

/* Inside the latch: push a tuple of a partition. */
static always_inline int push(
    struct dfi_source *source, uint32_t partition, const void *tuple)
{
	const struct keyed *keyed = open_source(source)->keyed;
	struct dfi_source *end = keyed_to(keyed, partition);
	struct dfi_source_lane *lane = keyed->lanes[partition];

	if (unlikely(!end || !end->writers[0].segment ||
		source->writers[0].refused || keyed->replays))
		return push_slow(source, partition, tuple);
	dfi_copy_tuple(lane->next, tuple, source->head.tuple_size);
	lane->next += source->head.tuple_size;
	if (unlikely(lane->next == lane->end))
		reached_end(source, end);
	return 0;
}

/*
 * A tuple was pushed to a lane without room, or waits in the spare room: push
 * it again.
 */
static int push_again(struct dfi_source *source, uint32_t partition, bool waits)
{
	struct keyed *keyed = open_source(source)->keyed;
	struct dfi_source *end = keyed_to(keyed, partition);
	int ret;

	/* The end may be freed while the tuple waits for room. */
	if (!waits) {
		memcpy(keyed->spare, end->spare, source->head.tuple_size);
		source_close_lane(end, 0);
	}
	ret = source_check(source);
	return ret < 0 ? ret : push_slow(source, partition, keyed->spare);
}

int dfi__keyed_full(struct dfi_source *source, uint32_t partition)
{
	struct keyed *keyed = open_source(source)->keyed;
	/* Its partition had no lane with room, or the table was shut. */
	bool waits = keyed->waiting.next != keyed->spare;
	struct dfi_source *end;
	int ret = 0;

	if (unlikely(waits)) {
		dfi__keyed_close_waiting(source);
		if (latch_is_wanted(keyed))
			dfi__latch_wait(keyed);
	}
	end = keyed_to(keyed, partition);
	if (source_aborted(source))
		ret = dfi__source_give_up(source);
	else if (unlikely(waits || !end->writers[0].segment))
		ret = push_again(source, partition, waits);
	else
		reached_end(source, end);
	latch_leave(keyed);
	return ret;
}

static always_inline uint32_t partition_of(
    struct dfi_source *source, const void *tuple)
{
	const struct router *router = &source->router;
	uint64_t key;

	if (unlikely(!open_source(source)->keyed->hash64))
		return dfi__keyed_way(source, 0, tuple);
	memcpy(&key, (const char *)tuple + router->keys[0].offset, sizeof(key));
	return dfi_hash64_partition(key, router->n_targets);
}

int dfi__keyed_push(struct dfi_source *source, const void *tuple)
{
	struct keyed *keyed = open_source(source)->keyed;
	int ret;

	latch_enter(keyed);
	ret = source_check(source);
	if (likely(!ret))
		ret = push(source, partition_of(source, tuple), tuple);
	latch_leave(keyed);
	return ret;
}

uint32_t dfi__keyed_push_batch(
    struct dfi_source *source, const char *tuples, uint32_t n, int *ret)
{
	struct keyed *keyed = open_source(source)->keyed;
	uint32_t taken;

	*ret = 0;
	latch_enter(keyed);
	for (taken = 0; taken < n; taken++) {
		if (unlikely(latch_is_wanted(keyed)))
			dfi__latch_wait(keyed);
		*ret = push(source, partition_of(source, tuples), tuples);
		if (*ret < 0)
			break;
		tuples += source->head.tuple_size;
	}
	latch_leave(keyed);
	return taken;
}

/* ---- Pushes to a seat -------------------------------------------------- */

static int check_seat(struct dfi_source *source, uint32_t seat)
{
	return seat < open_seats(source)
	    ? 0
	    : dfi__source_refuse(source, dfi__source_no_target(source, seat));
}

int dfi__keyed_push_to(
    struct dfi_source *source, uint32_t seat, const void *tuple)
{
	int ret = check_seat(source, seat);

	if (ret < 0)
		return ret;
	latch_enter(open_source(source)->keyed);
	ret = push_slow(source, seat, tuple);
	latch_leave(open_source(source)->keyed);
	return ret;
}

uint32_t dfi__keyed_push_batch_to(struct dfi_source *source, uint32_t seat,
    const char *tuples, uint32_t n, int *ret)
{
	uint32_t taken;

	*ret = 0;
	for (taken = 0; taken < n; taken++) {
		*ret = dfi__keyed_push_to(source, seat, tuples);
		if (*ret < 0)
			break;
		tuples += source->head.tuple_size;
	}
	return taken;
}

/* ---- The table of lanes ------------------------------------------------ */

/* The lane is never open, and no call may name it. */
int dfi__keyed_no_lane(struct dfi_source *source, uint32_t lane)
{
	return dfi__source_no_target(source, lane);
}

static void send_ends(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	uint32_t i;

	for (i = 0; i < open_seats(source); i++)
		if (open->ends[i])
			dfi__keyed_send_end(source, open->ends[i]);
}

int dfi__keyed_send_pushed(struct dfi_source *source)
{
	dfi__keyed_send_held(source);
	send_ends(source);
	return !open_source(source)->keyed->held.n;
}

int dfi__keyed_flush(struct dfi_source *source, uint32_t lane)
{
	struct open_source *open = open_source(source);
	int ret;

	(void)lane;
	keyed_enter(open);
	send_ends(source);
	ret = dfi__open_adopt(source);
	keyed_leave(open);
	return ret;
}

/* Wait until no tuple waits. */
static int empty_hold(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	int64_t until; /* of one wait: the close has a time of its own */
	int ret = 0;

	while (!ret && open->keyed->held.n) {
		until = 0;
		ret = source_check(source);
		if (!ret)
			ret = dfi__open_drop_lost(source);
		if (!ret)
			ret = dfi__open_adopt(source);
		if (ret < 0)
			return ret;
		dfi__keyed_send_held(source);
		if (!open->keyed->held.n)
			return 0;
		ret = dfi__open_expect_some(source, open_seats(source));
		if (!ret)
			ret = dfi__open_await_room(
			    source, open_seats(source), &until);
	}
	return ret;
}

int dfi__keyed_finish(struct dfi_source *source, int64_t deadline)
{
	struct open_source *open = open_source(source);
	int ret = dfi__source_finish(source, deadline);

	/* A nonblocking one has none, and waits now. */
	if (!ret && !open->notify)
		ret = dfi__notify_new(&open->notify);
	if (ret < 0)
		return ret;
	open_sleep_to_close(source);
	keyed_enter(open);
	ret = open->keyed->replays ? dfi__replay_await(source)
				   : empty_hold(source);
	keyed_leave(open);
	return ret < 0 ? ret : dfi__keyed_flush(source, 0);
}

/* Those of all that was pushed and not sent; outside the latch. */
uint64_t dfi__keyed_waiting_bytes(const struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	uint64_t bytes = 0;
	uint32_t i;

	if (open->keyed->replays)
		return 0;
	keyed_enter(open);
	bytes = (uint64_t)open->keyed->held.n * source->head.tuple_size;
	for (i = 0; i < open_seats(source); i++)
		if (open->ends[i])
			bytes += source_filled(open->ends[i], 0);
	keyed_leave(open);
	return bytes;
}

int dfi__keyed_check_whole(const struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	int ret;

	keyed_enter(open);
	ret = dfi__open_lane_check_whole(source);
	keyed_leave(open);
	return ret;
}
