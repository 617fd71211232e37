/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lane of a source of an open replicate flow. Its segment opens when each
 * ring has room, so that sending it waits for nobody. A target that has joined
 * gets the segments that are sent from then on, also the open one.
 */
#include "open_source.h"

#include <stdlib.h>
#include <string.h>
#include "base/bits.h"
#include "base/counter.h"
#include "base/error.h"
#include "flows/declare/declare.h"
#include "open_multicast.h"

#define ROOM_ALIGN 4096

int dfi__open_replica_init(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct ring_geometry geometry = dfi__flow_geometry(&source->flow);
	uint64_t bytes = align_up(geometry.segment_bytes, ROOM_ALIGN);
	int ret;

	open->replicates = true;
	/* The lane points to no target's segment. */
	open->chosen = open_seats(source);
	if (flow_is_multicast(&source->flow))
		return dfi__open_multicast_init(source);
	ret = dfi__ring_memory_take(
	    source->dfi, bytes, source->flow.name, SOURCE_ID(source));
	if (ret < 0)
		return ret;
	source->ring_memory += bytes;
	open->room = open->filled = aligned_alloc(ROOM_ALIGN, bytes);
	return open->room
	    ? 0
	    : dfi__fail(-ENOMEM, "flow '%s': out of memory", source->flow.name);
}

/* If this fails, the next look at the target tells that it is lost. */
void dfi__open_replica_greet(
    struct dfi_source *source, struct dfi_source *end, uint64_t position)
{
	struct writer *ring = &end->rings[0];

	if (open_source(source)->multicast) {
		dfi__open_multicast_greet(source, end);
		return;
	}
	if (ring->seq != RING_FIRST_SEGMENT)
		return;
	source_close_lane(end, 0);
	ring->global = position;
	ring->mark = open_source(source)->order
	    ? atomic_peek(&open_source(source)->mark)
	    : 0;
	/* No mark is 0. */
	(void)dfi__writer_publish_mark(
	    ring, atomic_peek(&source->writers[0].total) + 1);
}

/* ---- Sending ------------------------------------------------------------ */

/*
 * Copy the first bytes of the lane's segment into the ring of a pair, which has
 * room: 1. 0: the target is lost; or a sticky error.
 */
static int send_to(
    struct dfi_source *source, uint32_t seat, uint64_t bytes, uint64_t position)
{
	struct open_source *open = open_source(source);
	struct writer *ring = &open->ends[seat]->rings[0];

	if (open_is_lost(open->ends[seat]))
		return dfi__open_lose(source, seat);
	ring->segment = open->filled;
	ring->global = position;
	ring->targets = open->set;
	if (!bytes)
		open_note_mark(open->ends[seat]);
	counter_add(&source->writers[0].moved, bytes);
	return dfi__writer_publish(ring, bytes) < 0
	    ? dfi__open_lose(source, seat)
	    : 1;
}

/*
 * Send to all that read the shared ring, if that is used: to how many of the
 * set, or a sticky error.
 */
static int send_shared(struct dfi_source *source, uint64_t bytes)
{
	struct open_source *open = open_source(source);
	uint32_t i;
	int ret = 0, n = 0;

	if (!shared_is_used(open->shared))
		return 0;
	for (i = 0; !ret && i < open_seats(source); i++)
		if (shared_has(open->shared, i) && open_is_lost(open->ends[i]))
			ret = dfi__open_lose(source, i);
	if (ret < 0 || likely(!open->set))
		return ret < 0 ? ret : (int)dfi__open_shared_send(open, bytes);
	for (i = 0; i < open_seats(source); i++)
		n += shared_has(open->shared, i) && open_addresses(open, i);
	open->shared->writer.targets = open->set;
	if (n)
		(void)dfi__open_shared_send(open, bytes);
	return n;
}

int dfi__open_replica_drop(struct dfi_source *source, uint64_t bytes)
{
	struct open_source *open = open_source(source);
	uint64_t n = bytes / source->head.tuple_size;

	open->held = 0;
	owned_add(&open->dropped, n);
	if (source->flow.on_loss != DFI_ON_LOSS_FAIL)
		return 0;
	return dfi__source_fail(source,
	    dfi__fail(-ECONNRESET,
		"flow '%s': %s %u: %lu tuples are for the target set %#lx, of "
		"which nobody is attached any more",
		source->flow.name, SOURCE_ID(source), (unsigned long)n,
		(unsigned long)open->set));
}

/*
 * To a ring that nobody else reads. In an ordered flow those who are not in the
 * set get the position alone. 1: somebody of the set has got it; or a sticky
 * error.
 */
static always_inline int send_alone(
    struct dfi_source *source, uint32_t seat, uint64_t bytes, uint64_t position)
{
	struct open_source *open = open_source(source);
	int ret;

	if (!open->ends[seat] || shared_has(open->shared, seat))
		return 0;
	if (likely(open_addresses(open, seat)))
		return send_to(source, seat, bytes, position);
	ret = open->order ? send_to(source, seat, 0, position) : 0;
	return ret < 0 ? ret : 0;
}

/*
 * Send to all that are attached, and in the set: 0, or a sticky error. If
 * nobody is, the segment waits for the first who comes; in an ordered flow it
 * also waits for a view. With sets nothing waits for who comes.
 */
static int send_to_all(struct dfi_source *source, uint64_t bytes)
{
	struct open_source *open = open_source(source);
	struct writer *lane = &source->writers[0];
	uint64_t position = 0;
	uint32_t i, n = 0;
	int ret = 0;

	if (unlikely(open->set && !open_set_is_there(open, open->set)))
		return dfi__open_replica_drop(source, bytes);
	if (open->multicast)
		return dfi__open_multicast_send(source, bytes);
	open->held = bytes;
	if (open->order) {
		ret = dfi__open_order_take(source, &position);
		if (ret <= 0)
			return ret;
	} else {
		ret = send_shared(source, bytes);
		n = ret > 0 ? (uint32_t)ret : 0;
	}
	for (i = 0; ret >= 0 && i < open_seats(source); i++) {
		ret = send_alone(source, i, bytes, position);
		n += ret > 0;
	}
	if (open->order)
		dfi__open_order_sent(source, position);
	if (unlikely(ret >= 0 && !n && open->set)) {
		/* Others have got its position, so it counts for who joins. */
		if (open->order)
			owned_add(
			    &lane->total, bytes / source->head.tuple_size);
		return dfi__open_replica_drop(source, bytes);
	}
	open->held = n ? 0 : bytes;
	if (unlikely(!n && open->filled != open->room)) {
		memcpy(open->room, open->filled, bytes);
		open->filled = open->room;
	}
	if (ret < 0 || !n)
		return ret < 0 ? ret : 0;
	owned_add(&lane->total, bytes / source->head.tuple_size);
	counter_add(&lane->segments, 1);
	counter_add(
	    &lane->partial_segments, bytes != lane->geometry.segment_bytes);
	return 0;
}

static int look_at_all(struct dfi_source *source, uint32_t *seat)
{
	struct open_source *open = open_source(source);
	uint32_t i;
	int ret;

	*seat = open_seats(source);
	for (i = 0; i < open_seats(source); i++) {
		if (!open->ends[i])
			continue;
		ret = dfi__open_mark_end(source, i);
		if (ret < 0)
			return ret;
		if (!open->ends[i])
			continue;
		ret = open_is_lost(open->ends[i]) ? -ECONNRESET
						  : open_credit(open, i);
		if (ret >= 0)
			open_note_room(open, i, ret > 0);
		if (ret < 0)
			ret = dfi__open_lose(source, i);
		else if (!ret && *seat == open_seats(source))
			*seat = i;
		if (ret < 0)
			return ret;
	}
	return open->n_ends && *seat == open_seats(source);
}

int dfi__open_look_for_room(struct dfi_source *source, uint32_t *seat)
{
	struct open_source *open = open_source(source);
	int ret;

	do {
		dfi__open_shared_turn(open);
		ret = look_at_all(source, seat);
		/* Readers of the shared ring may have been lost. */
	} while (unlikely(
	    ret > 0 && shared_is_used(open->shared) && open->shared->outdated));
	return ret;
}

static void open_lane(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct writer *lane = &source->writers[0];

	lane->segment = open->filled = open->multicast ? writer_payload(lane)
	    : shared_is_used(open->shared)
	    ? writer_payload(&open->shared->writer)
	    : open->room;
	lane->end = lane->segment + lane->geometry.segment_bytes;
	lane->refused = 0;
	source->head.only.next = lane->segment;
	lane_set_end(&source->head.only, lane->end);
}

static void close_lane(struct dfi_source *source)
{
	source->writers[0].segment = NULL;
	source_close_lane(source, 0);
}

/* Send what waits: 1 if nothing waits, and each target has room. */
static int send_held(struct dfi_source *source, uint32_t *seat)
{
	struct open_source *open = open_source(source);
	int ret = open->may_push ? dfi__open_look_for_room(source, seat) : 0;

	if (ret <= 0 || !open->held)
		return ret;
	ret = send_to_all(source, open->held);
	return ret || open->held ? ret : dfi__open_look_for_room(source, seat);
}

/*
 * Open the lane, if it is closed, once each target has room for its segment and
 * for one that waits: as dfi__open_look_for_room().
 */
static int open_when_room(struct dfi_source *source, uint32_t *seat)
{
	struct open_source *open = open_source(source);
	int ret;

	*seat = open_seats(source);
	if (source->writers[0].segment)
		return 1;
	ret = send_held(source, seat);
	if (ret > 0) {
		dfi__open_shared_enter(open);
		open_lane(source);
	}
	return ret;
}

/* Close the lane, and send its segment. */
static int send_segment(struct dfi_source *source)
{
	uint64_t bytes = source_filled(source, 0);

	close_lane(source);
	if (!bytes)
		return 0;
	open_source(source)->set = source->head.targets;
	return send_to_all(source, bytes);
}

int dfi__open_replica_send(struct dfi_source *source, uint32_t lane)
{
	(void)lane;
	return send_segment(source);
}

/* Whether somebody is there, or a target of an ordered flow will be. */
static bool has_targets(const struct open_source *open)
{
	return open->n_ends || (open->order && open->order->lacks_pairs);
}

/* Whether a target of the set has a seat, whose ring is made. */
static bool set_will_be_there(struct open_source *open, uint64_t targets)
{
	struct seat_watch *seats = &open->pairs.seats;
	bool expected = false;
	uint32_t i;

	pthread_mutex_lock(&seats->lock);
	for (i = 0; i < open_seats(open->source); i++)
		if (targets >> i & 1)
			expected |= dfi__pairs_expected(&open->pairs, i);
	pthread_mutex_unlock(&seats->lock);
	return expected;
}

/*
 * Whether the next segment has a target: 1; 0: it will have one; or -ENXIO,
 * which is not sticky. Before those are there who must be, it is too early to
 * tell.
 */
static int find_set(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	uint64_t targets = source->head.targets;

	if (likely(!targets) || open_set_is_there(open, targets))
		return 1;
	if (!open->may_push || set_will_be_there(open, targets))
		return 0;
	return dfi__fail(-ENXIO,
	    "flow '%s': %s %u: the target set %#lx: nobody holds a seat of it",
	    source->flow.name, SOURCE_ID(source), (unsigned long)targets);
}

/*
 * Wait until the lane is open, or, of a segment that waits for a view while
 * targets are there, until it is sent.
 */
static int await_lane(struct dfi_source *source, bool only_sent)
{
	struct open_source *open = open_source(source);
	int64_t until = 0;
	uint32_t seat;
	int ret;

	for (;;) {
		seat = open_seats(source);
		ret = source_check(source);
		if (!ret)
			ret = dfi__open_adopt(source);
		/* What waits may be for another set. */
		if (!ret)
			ret = open->held && !only_sent
			    ? send_held(source, &seat)
			    : 1;
		if (ret > 0 && !only_sent)
			ret = find_set(source);
		if (ret > 0)
			ret = open_when_room(source, &seat);
		if (ret != 0)
			return ret < 0 ? ret : 0;
		if (only_sent && (!open->held || !has_targets(open)))
			return 0;
		if (seat == open_seats(source))
			ret = dfi__open_expect_some(source, seat);
		if (!ret && source_interrupted(source))
			ret = dfi__source_interrupted(source);
		if (!ret)
			ret = dfi__open_await_room(source, seat, &until);
		if (ret < 0)
			return ret;
	}
}

/*
 * In an ordered flow, wait for a view. The tuples are taken: in a push, all but
 * sticky errors are for the next call.
 */
static int await_sent(struct dfi_source *source)
{
	struct open_source *open = open_source(source);

	return open->order && open->held && has_targets(open)
	    ? await_lane(source, true)
	    : 0;
}

/* The next push finds that nobody of its set is there. */
static void close_without_set(struct dfi_source *source)
{
	if (unlikely(source->head.targets && source->writers[0].segment &&
		!source_filled(source, 0) &&
		!open_set_is_there(open_source(source), source->head.targets)))
		close_lane(source);
}

/*
 * The lane's segment is full, and all targets read the shared ring: send it as
 * a closed flow does, and open the next one. false: that has to be looked at;
 * what was sent is no more in the lane.
 */
static always_inline bool go_on(
    struct dfi_source *source, struct open_source *open)
{
	struct writer *lane = &source->writers[0];
	int ret = dfi__open_shared_send_full(open);

	if (unlikely(ret < 0))
		return false;
	owned_add(&lane->total, lane->geometry.segment_tuples);
	counter_add(&lane->segments, 1);
	if (unlikely(!ret)) {
		close_lane(source);
		return false;
	}
	lane->segment = open->filled = writer_payload(&open->shared->writer);
	lane->end = lane->segment + lane->geometry.segment_bytes;
	source->head.only.next = lane->segment;
	lane_set_end(&source->head.only, lane->end);
	return true;
}

/* Send what the lane has, and look who is there. */
static __attribute__((__noinline__)) int look_and_send(
    struct dfi_source *source)
{
	uint32_t seat;
	int ret = send_segment(source);

	if (!ret)
		ret = dfi__open_adopt(source);
	if (!ret)
		ret = open_when_room(source, &seat);
	if (ret >= 0)
		ret = await_sent(source);
	close_without_set(source);
	return ret < 0 && source->status ? ret : 0;
}

int dfi__open_replica_reached(struct dfi_source *source, uint32_t lane)
{
	struct open_source *open = open_source(source);

	(void)lane;
	if (source_aborted(source))
		return dfi__source_give_up(source);
	if (likely(open->shared && open->shared->has_all &&
		pairs_changes(&open->pairs) == open->seen &&
		go_on(source, open)))
		return 0;
	return look_and_send(source);
}

int dfi__open_replica_choose(struct dfi_source *source, uint64_t targets)
{
	int ret = send_segment(source);

	/* What waits for its number is not in the way of the next set. */
	if (!ret)
		ret = await_sent(source);
	if (ret < 0)
		return ret;
	source->head.targets = targets;
	close_without_set(source);
	return 0;
}

/* While nobody is there, what the lane has waits for the first who comes. */
int dfi__open_replica_flush(struct dfi_source *source, uint32_t lane)
{
	uint32_t seat;
	int ret = dfi__open_adopt(source);

	(void)lane;
	if (!ret)
		ret = await_sent(source);
	if (!ret && has_targets(open_source(source)))
		ret = send_segment(source);
	if (!ret)
		ret = await_sent(source);
	if (!ret)
		ret = open_when_room(source, &seat);
	close_without_set(source);
	return ret < 0 ? ret : 0;
}

int dfi__open_replica_make_room(struct dfi_source *source, uint32_t lane)
{
	(void)lane;
	return await_lane(source, false);
}

/* ---- The end ------------------------------------------------------------ */

int dfi__open_replica_finish(struct dfi_source *source, int64_t deadline)
{
	struct open_source *open = open_source(source);
	int ret = 0;

	/* A nonblocking one has none, and may wait for a view now. */
	if (open->order && !open->notify)
		ret = dfi__notify_new(&open->notify);
	if (ret < 0)
		return ret;
	if (open->order)
		open_sleep_to_close(source);
	ret = dfi__source_finish(source, deadline);
	return !ret && open->order && has_targets(open)
	    ? dfi__open_mark_last(source)
	    : ret;
}

/* What nobody has got: bytes that wait, and those of the lane. */
static uint64_t unsent(const struct dfi_source *source)
{
	return open_source(source)->held + source_filled(source, 0);
}

int dfi__open_replica_check_whole(const struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	uint64_t n;
	int ret = dfi__open_lane_check_whole(source);

	n = unsent(source) / source->head.tuple_size;
	if (ret < 0 || !n)
		return ret;
	owned_add(&open->dropped, n);
	if (source->flow.on_loss != DFI_ON_LOSS_FAIL)
		return 0;
	return dfi__fail(-ECONNRESET,
	    "flow '%s': %s %u: closed while no target was attached: its last "
	    "%lu tuples went to nobody",
	    source->flow.name, SOURCE_ID(source), (unsigned long)n);
}

uint64_t dfi__open_replica_waiting_bytes(const struct dfi_source *source)
{
	return open_source(source)->held;
}
