/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a source of an open replicate flow moves between the rings of its pairs
 * and a shared ring. The writer of each pair counts all segments, also those in
 * the shared ring, so that its credit bounds both.
 */
#include "open_source.h"

#include <stdlib.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "flows/declare/declare.h"
#include "transport/transport.h"

/* How long the targets must be the same ones before a ring is made for them. */
#define SETTLED_NS (INT64_C(10) * NS_PER_MS)
/* How long a target may take to accept its grant; it may be stopped. */
#define GRANT_NS (INT64_C(500) * NS_PER_MS)
/* How long after a failure the helper tries again. */
#define AGAIN_NS (INT64_C(1) * NS_PER_S)

static void set_state(struct open_shared *shared, enum shared_state state)
{
	/* Pairs with state_of(). */
	atomic_publish(&shared->state, (uint32_t)state);
}

static enum shared_state state_of(const struct open_shared *shared)
{
	/* Pairs with set_state(): the ring comes with it. */
	return (enum shared_state)atomic_observe(&shared->state);
}

int dfi__open_shared_new(struct open_source *open)
{
	const struct flow *flow = &open->source->flow;
	struct open_shared *shared;

	if (!flow_moves(flow))
		return 0;
	shared = open->shared = calloc(1, sizeof(*shared));
	if (shared) {
		shared->stays = calloc(
		    flow->n_targets, sizeof(shared->stays[0]));
		shared->granted = calloc(
		    flow->n_targets, sizeof(shared->granted[0]));
		shared->found = calloc(
		    flow->n_targets, sizeof(shared->found[0]));
		shared->readers = calloc(
		    flow->n_targets, sizeof(shared->readers[0]));
	}
	return shared && shared->stays && shared->granted && shared->found &&
		shared->readers
	    ? 0
	    : dfi__fail(-ENOMEM, "flow '%s': out of memory", flow->name);
}

static void free_ring(struct open_source *open)
{
	dfi__shared_ring_free(&open->shared->ring);
	dfi__ring_memory_return(open->source->dfi, open->shared->bytes);
	open->shared->bytes = 0;
}

void dfi__open_shared_free(struct open_source *open)
{
	struct open_shared *shared = open->shared;

	if (!shared)
		return;
	free_ring(open);
	free(shared->stays);
	free(shared->granted);
	free(shared->found);
	free(shared->readers);
	free(shared);
}

/* ---- Making, on the helper ---------------------------------------------- */

/* Whether a target can map memory of this process. */
static bool is_local(const struct dfi_source *end)
{
	return end->rings[0].remote->transport == end->dfi->transport;
}

/* Under the lock: the pair of a seat whose target should read the ring. */
static const struct pair *reader_of(
    const struct open_source *open, uint32_t seat)
{
	const struct pair *pair, *found = NULL;
	uint32_t i;

	for (i = 0; i < SEAT_PAIRS; i++) {
		pair = &open->pairs.of[seat].pair[i];
		if (pair->state != PAIR_TAKEN && pair->state != PAIR_READY)
			continue;
		if (!is_local(pair->end) ||
		    seat_watch_holder(&open->pairs.seats, seat) !=
			pair->incarnation)
			continue;
		found = pair;
	}
	return found;
}

/*
 * Under the lock: note which pairs' targets should read the ring: how many.
 * *fresh: others than at the last time.
 */
static uint32_t find_readers(const struct open_source *open, bool *fresh)
{
	const struct pair *pair;
	uint32_t i, n = 0;
	uint64_t id;

	for (i = 0; i < open_seats(open->source); i++) {
		pair = reader_of(open, i);
		id = pair ? pair->id : 0;
		*fresh |= open->shared->granted[i] != id;
		open->shared->granted[i] = id;
		open->shared->found[i] = pair ? pair->end : NULL;
		n += pair != NULL;
	}
	return n;
}

static int grant(const struct open_shared *shared, const struct dfi_source *end)
{
	struct region *region = shared->ring.region;
	const struct endpoint *endpoint = &end->targets.peer[0].endpoint;

	return region->transport->ops->region.grant(region,
	    dfi__region_memory(&endpoint->region), source_ring(end),
	    WAIT_LIMIT(clock_now_ns() + GRANT_NS));
}

static int reserve(struct open_source *open)
{
	struct open_shared *shared = open->shared;
	struct dfi *dfi = open->source->dfi;
	struct ring_geometry geometry = ring_geometry_moved(
	    dfi__flow_slots_geometry(&open->source->flow),
	    open->source->flow.segment_count);
	uint64_t bytes = dfi__replica_bytes(dfi->transport, &geometry);
	int ret = dfi__ring_memory_take(
	    dfi, bytes, open->source->flow.name, SOURCE_ID(open->source));

	if (ret < 0)
		return ret;
	shared->bytes = bytes;
	return dfi__shared_ring_init(&shared->ring, dfi->transport, &geometry,
	    &shared->writer, NULL, 0, SHARED_RING_MOVED);
}

static int make(struct open_source *open)
{
	struct dfi_source **ends = open->shared->found;
	uint32_t i;
	int ret = reserve(open);

	for (i = 0; !ret && i < open_seats(open->source); i++)
		if (ends[i])
			ret = grant(open->shared, ends[i]);
	if (ret < 0)
		free_ring(open);
	return ret;
}

/* Make a ring if it is time to: when to look again. */
static int64_t make_settled(struct open_source *open)
{
	struct open_shared *shared = open->shared;
	int64_t now = clock_now_ns();
	bool fresh = false;
	uint32_t n;

	pthread_mutex_lock(&open->pairs.seats.lock);
	n = find_readers(open, &fresh);
	pthread_mutex_unlock(&open->pairs.seats.lock);
	if (fresh)
		shared->since = now;
	if (!n)
		return DEADLINE_NEVER;
	if (now < shared->since + SETTLED_NS || now < shared->try_at)
		return shared->since + SETTLED_NS > shared->try_at
		    ? shared->since + SETTLED_NS
		    : shared->try_at;
	if (!make(open)) {
		shared->complained = false;
		set_state(shared, SHARED_READY);
		return DEADLINE_NEVER;
	}
	if (!shared->complained)
		dfi__log(DFI_LOG_INFO,
		    "flow '%s': %s %u: copies its segments: %s",
		    open->source->flow.name, SOURCE_ID(open->source),
		    dfi_errmsg());
	shared->complained = true;
	shared->try_at = clock_now_ns() + AGAIN_NS;
	return shared->try_at;
}

int64_t dfi__open_shared_tend(struct open_source *open)
{
	struct open_shared *shared = open->shared;

	if (state_of(shared) == SHARED_OVER) {
		free_ring(open);
		set_state(shared, SHARED_NONE);
	}
	return state_of(shared) == SHARED_NONE ? make_settled(open)
					       : DEADLINE_NEVER;
}

/* ---- Moving -------------------------------------------------------------- */

static void give_up(struct open_source *open)
{
	set_state(open->shared, SHARED_OVER);
	pthread_mutex_lock(&open->pairs.seats.lock);
	seat_watch_call(&open->pairs.seats);
	pthread_mutex_unlock(&open->pairs.seats.lock);
}

static void wake(struct dfi_source *end)
{
	struct remote *remote = end->rings[0].remote;

	remote->transport->ops->ring.wake(remote);
}

/* How many segments in front of a stay the target has not given back. */
static uint64_t left_before(const struct shared_stay *stay)
{
	/* Pairs with the publish in the transport's give_credit(). */
	int64_t n = (int64_t)(stay->first -
	    atomic_observe(
		&writer_header(&stay->end->rings[0])->credit.consumed));

	return n > 0 ? (uint64_t)n : 0;
}

void dfi__open_shared_leave(struct open_source *open)
{
	struct open_shared *shared = open->shared;
	struct shared_stay *stay;
	struct writer *ring;
	uint32_t i;

	if (!shared_is_used(shared))
		return;
	shared->has_all = false;
	/* Before a reader can see the move. */
	for (i = 0; i < open_seats(open->source); i++) {
		stay = &shared->stays[i];
		if (!stay->end)
			continue;
		ring = &stay->end->rings[0];
		open_note_mark(stay->end);
		writer_sent_elsewhere(ring, 1, 0);
		stay->n = ring->seq - stay->first;
		dfi__writer_return_to(ring, left_before(stay));
	}
	/* A write into memory does not fail. */
	(void)dfi__writer_publish_move(&shared->writer, 0);
	for (i = 0; i < open_seats(open->source); i++)
		if (shared->stays[i].end)
			wake(shared->stays[i].end);
	set_state(shared, SHARED_LEFT);
}

/* Whether a target has given back all that it had of the ring. */
static bool has_left(struct shared_stay *stay)
{
	if (!stay->end)
		return true;
	/* Pairs with the publish in the transport's give_credit(). */
	if ((int64_t)(atomic_observe(&writer_header(&stay->end->rings[0])
					  ->credit.consumed) -
		(stay->first + stay->n)) < 0)
		return false;
	stay->end = NULL;
	return true;
}

void dfi__open_shared_turn(struct open_source *open)
{
	struct open_shared *shared = open->shared;
	bool all = true;
	uint32_t i;

	if (likely(!shared ||
		(atomic_peek(&shared->state) == SHARED_USED &&
		    !shared->outdated)))
		return;
	dfi__open_shared_leave(open);
	shared->outdated = false;
	if (state_of(shared) != SHARED_LEFT)
		return;
	for (i = 0; i < open_seats(open->source); i++)
		all &= has_left(&shared->stays[i]);
	if (all)
		give_up(open);
}

/* Whether the ring that was made has the readers that it should have. */
static bool fits(const struct open_source *open)
{
	const struct open_shared *shared = open->shared;
	uint64_t id;
	uint32_t i;

	for (i = 0; i < open_seats(open->source); i++) {
		id = open->ends[i] && is_local(open->ends[i])
		    ? open->taken[i]->id
		    : 0;
		if (shared->granted[i] != id)
			return false;
	}
	return true;
}

/* Each must have room for the move and for the segment behind it. */
static bool all_have_room(struct open_source *open)
{
	uint32_t i;

	for (i = 0; i < open_seats(open->source); i++)
		if (open->shared->granted[i] &&
		    dfi__writer_room(&open->ends[i]->rings[0], 2) <= 0)
			return false;
	return true;
}

void dfi__open_shared_enter(struct open_source *open)
{
	struct open_shared *shared = open->shared;
	struct dfi_source *end;
	uint32_t i;

	if (likely(!shared) || state_of(shared) != SHARED_READY)
		return;
	if (!fits(open)) {
		give_up(open);
		return;
	}
	if (!all_have_room(open))
		return;
	shared->n_readers = 0;
	for (i = 0; i < open_seats(open->source); i++) {
		if (!shared->granted[i])
			continue;
		end = open->ends[i];
		open_note_mark(end);
		source_close_lane(end, 0);
		end->rings[0].elsewhere = open->source->flow.segment_count;
		(void)dfi__writer_publish_move(
		    &end->rings[0], shared->ring.region->name.key);
		shared->stays[i] = (struct shared_stay){
			.end = end,
			.first = end->rings[0].seq,
			.before = atomic_peek(&end->rings[0].total),
		};
		shared->readers[shared->n_readers++] = end;
	}
	shared->has_all = shared->n_readers == open->n_ends &&
	    !open->source->head.targets;
	shared->outdated = false;
	set_state(shared, SHARED_USED);
}

void dfi__open_shared_joined(struct open_source *open, uint32_t seat)
{
	if (!shared_is_used(open->shared))
		return;
	open->shared->has_all = false;
	if (is_local(open->ends[seat]))
		open->shared->outdated = true;
}

void dfi__open_shared_lost(struct open_source *open, uint32_t seat)
{
	struct shared_stay *stay;

	if (!open->shared || !open->shared->stays[seat].end)
		return;
	stay = &open->shared->stays[seat];
	/* It may be there, and will read the move back. */
	if (shared_is_used(open->shared))
		dfi__writer_return_to(&stay->end->rings[0], left_before(stay));
	stay->end = NULL;
	open->shared->has_all = false;
	open->shared->outdated = true;
}

int dfi__open_shared_room(const struct open_source *open, uint32_t seat)
{
	struct writer *ring = &open->ends[seat]->rings[0];
	uint32_t n = open->source->flow.segment_count;

	if (likely(ring->seq - ring->consumed < n))
		return 1;
	/* Reads the credit. */
	if (dfi__writer_room(ring, n) < 0)
		return -EBADMSG;
	return ring->seq - ring->consumed < n;
}

/* ---- Sending ------------------------------------------------------------- */

/* All readers have a segment with that many tuples. */
static uint32_t count(struct open_source *open, uint64_t tuples)
{
	struct dfi_source *end;
	uint32_t i, n = 0;

	for (i = 0; i < open_seats(open->source); i++) {
		end = open->shared->stays[i].end;
		if (!end)
			continue;
		writer_sent_elsewhere(&end->rings[0], 1, tuples);
		wake(end);
		n++;
	}
	return n;
}

uint32_t dfi__open_shared_send(struct open_source *open, uint64_t bytes)
{
	struct writer *writer = &open->shared->writer;
	uint64_t before = atomic_peek(&writer->total);

	writer->segment = open->filled;
	(void)dfi__writer_publish(writer, bytes);
	return count(open, atomic_peek(&writer->total) - before);
}

int dfi__open_shared_send_full(struct open_source *open)
{
	struct open_shared *shared = open->shared;
	struct writer *ring, *writer = &shared->writer;
	uint32_t i, n = open->source->flow.segment_count;
	bool have_room = true;

	for (i = 0; i < shared->n_readers; i++)
		if (unlikely(open_is_lost(shared->readers[i])))
			return -1;
	writer->segment = open->filled;
	(void)dfi__writer_publish(writer, writer->geometry.segment_bytes);
	for (i = 0; i < shared->n_readers; i++) {
		ring = &shared->readers[i]->rings[0];
		writer_sent_elsewhere(ring, 1, writer->geometry.segment_tuples);
		wake(shared->readers[i]);
		have_room &= ring->seq - ring->consumed < n;
	}
	return have_room;
}

void dfi__open_shared_mark(struct open_source *open, uint64_t mark)
{
	struct dfi_source *end;
	uint32_t i;

	if (!shared_is_used(open->shared))
		return;
	for (i = 0; i < open_seats(open->source); i++) {
		end = open->shared->stays[i].end;
		if (!end)
			continue;
		open_note_mark(end);
		end->marked = mark;
	}
	(void)dfi__writer_publish_mark(&open->shared->writer, mark);
	(void)count(open, 0);
}

/* Of the last n segments there: what was for other targets. */
static uint64_t skipped(
    const struct open_source *open, const struct dfi_source *end, uint64_t n)
{
	return dfi__flow_has_groups(&open->source->flow)
	    ? dfi__writer_skipped(
		  &open->shared->writer, n, end->flow.part.first_target)
	    : 0;
}

uint64_t dfi__open_shared_unreturned(
    const struct open_source *open, const struct dfi_source *end)
{
	const struct writer *ring = &end->rings[0];
	const struct shared_stay *stay;
	uint64_t consumed, left, there, total = atomic_peek(&ring->total);
	uint64_t in_ring;

	stay = open->shared ? &open->shared->stays[end->flow.part.first_target]
			    : NULL;
	if (!stay || stay->end != end)
		return dfi__writer_unreturned(ring);
	/* Pairs with the publish in the transport's give_credit(). */
	consumed = atomic_observe(&writer_header(ring)->credit.consumed);
	left = ring->seq - consumed;
	/* A count that makes no sense confirms nothing. */
	if (left > (uint64_t)ring->geometry.segment_count + ring->elsewhere)
		return total;
	there = stay->n ? stay->n : ring->seq - stay->first;
	/* The first of them is in front of the shared ring, in it, or behind.
	 */
	if ((int64_t)(consumed - stay->first) < 0)
		return dfi__writer_last(ring, left - there) -
		    skipped(open, end, there);
	if (consumed - stay->first >= there)
		return dfi__writer_last(ring, left);
	in_ring = there - (consumed - stay->first);
	return dfi__writer_last(&open->shared->writer, in_ring) + total -
	    stay->before - atomic_peek(&open->shared->writer.total) -
	    skipped(open, end, in_ring);
}
