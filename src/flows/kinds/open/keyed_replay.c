/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of a flow with replay: R1, R2 and R4 of docs/open-flows.md. What a
 * target has not acknowledged lies in its ring, as the source sees it, until
 * the source closes its end.
 */
#include "keyed.h"

#include <string.h>
#include <dfi/replay.h>
#include "base/clock.h"
#include "base/error.h"
#include "buffers/layout/checksum.h"
#include "flows/open/source.h"
#include "transport/transport.h"

/* How long a wait for the registry's news lasts before it looks at signals. */
#define LOOK_NS (INT64_C(20) * NS_PER_MS)

/* ---- What is not acknowledged -------------------------------------------- */

/* The segments that a target has not given back, as the ring says by now. */
uint64_t dfi__replay_unreturned(const struct writer *ring)
{
	/* Pairs with the publish in the transport's give_credit(). */
	uint64_t left = ring->seq -
	    atomic_observe(&writer_header(ring)->credit.consumed);

	/* A count that makes no sense confirms nothing. */
	return left <= ring->geometry.segment_count
	    ? left
	    : min_u64(ring->seq, ring->geometry.segment_count);
}

static const char *sent_at(const struct writer *ring, uint64_t ago)
{
	const struct ring_geometry *g = &ring->geometry;
	uint64_t slot = (ring->slot + g->segment_count - ago) %
	    g->segment_count;

	return ring->remote->ring + slot_offset(g, (uint32_t)slot) +
	    g->payload_offset;
}

uint64_t dfi__replay_unacked(const struct open_source *open, uint32_t seat)
{
	return open->keyed->spill
	    ? dfi__spill_unacked(open, seat)
	    : dfi__replay_unreturned(&open->ends[seat]->rings[0]);
}

/* Whether a segment's slot was used again since. */
static bool is_spilled(
    const struct open_source *open, const struct writer *ring, uint64_t ago)
{
	return open->keyed->spill && ring->seq - ago < ring->consumed;
}

/* In a ring: the target can write there. */
static uint64_t ring_bytes(const struct writer *ring, uint64_t ago)
{
	const struct ring_geometry *g = &ring->geometry;
	uint64_t bytes = segment_header(g, sent_at(ring, ago))->records;

	if (bytes > g->segment_bytes)
		bytes = g->segment_bytes;
	return bytes - bytes % g->tuple_size;
}

/*
 * The bytes of tuples in the segment that was sent so many segments ago.
 * UINT64_MAX: it can't be read from its file.
 */
static uint64_t bytes_of(
    const struct open_source *open, uint32_t seat, uint64_t ago)
{
	const struct writer *ring = &open->ends[seat]->rings[0];
	const struct spilled *spilled;

	if (!is_spilled(open, ring, ago))
		return ring_bytes(ring, ago);
	spilled = dfi__spill_read(
	    open, seat, ring->seq - ago, sizeof(*spilled));
	return spilled ? spilled->bytes : UINT64_MAX;
}

/* The tuples of the segment that was sent so many segments ago, or NULL. */
static const char *sent_segment(const struct open_source *open, uint32_t seat,
    uint64_t ago, uint64_t *bytes)
{
	const struct writer *ring = &open->ends[seat]->rings[0];
	const struct spilled *spilled;

	if (!is_spilled(open, ring, ago)) {
		*bytes = ring_bytes(ring, ago);
		return sent_at(ring, ago);
	}
	spilled = dfi__spill_read(open, seat, ring->seq - ago,
	    sizeof(*spilled) + ring->geometry.segment_bytes);
	*bytes = spilled ? spilled->bytes : 0;
	return spilled ? spilled->tuples : NULL;
}

/* Those of the segment that an end has begun. */
static uint64_t begun_bytes(const struct dfi_source *end)
{
	return end->status ? 0 : source_filled(end, 0);
}

/* ---- Taking back -----------------------------------------------------------
 */

/* Put tuples in front of those that wait, the last one first. */
static int put_back(struct dfi_source *source, uint32_t seat,
    const char *tuples, uint64_t bytes)
{
	size_t size = source->head.tuple_size;

	while (bytes) {
		bytes -= size;
		if (!dfi__keyed_hold_first(source, seat, tuples + bytes))
			return dfi__source_fail(source,
			    dfi__fail(-ENOMEM,
				"flow '%s': %s %u: target %u is lost, and "
				"there is no memory for its tuples, which are "
				"to be sent again: %lu wait",
				source->flow.name, SOURCE_ID(source), seat,
				(unsigned long)open_source(source)
				    ->keyed->held.n));
	}
	return 0;
}

/* The newest first: each goes in front of those that wait. */
int dfi__replay_take_back(struct dfi_source *source, uint32_t seat)
{
	struct open_source *open = open_source(source);
	const struct dfi_source *end = open->ends[seat];
	/* Once: a target that wakes up may acknowledge meanwhile. */
	uint64_t segments = dfi__replay_unacked(open, seat), ago, bytes;
	const char *tuples;
	int ret = put_back(
	    source, seat, end->writers[0].segment, begun_bytes(end));

	for (ago = 1; !ret && ago <= segments; ago++) {
		tuples = sent_segment(open, seat, ago, &bytes);
		ret = tuples
		    ? put_back(source, seat, tuples, bytes)
		    : dfi__source_fail(source, dfi__spill_fail(source));
	}
	return ret;
}

bool dfi__replay_note_gone(struct open_source *open)
{
	const struct seat_watch *seats = &open->pairs.seats;
	bool found = false;
	uint32_t i;

	for (i = 0; i < open_seats(open->source); i++) {
		if (!open->ends[i] ||
		    seat_watch_holder(seats, i) == open->taken[i]->incarnation)
			continue;
		atomic_set(&open->taken[i]->stale, true);
		found = true;
	}
	return found;
}

/* ---- The window ------------------------------------------------------------
 */

/* Under the lock. Once: the acknowledgement may be on its way by then. */
static bool is_used_up(struct open_source *open, uint32_t seat)
{
	struct pair_acks *acks = &open->pairs.seats.acks[seat];
	bool used_up = open->ends[seat] && !acks->reported &&
	    acks->pair == open->taken[seat]->id && !open_credit(open, seat) &&
	    acks->segments == open_given_back(open, seat);

	acks->reported |= used_up;
	return used_up;
}

int dfi__replay_check_window(struct dfi_source *source, uint32_t seat)
{
	struct open_source *open = open_source(source);
	struct seat_watch *seats = &open->pairs.seats;
	uint32_t n = open_seats(source), i = seat < n ? seat : 0;

	if (seat == OPEN_ALL_SEATS)
		return 0;
	pthread_mutex_lock(&seats->lock);
	while (i < n && !is_used_up(open, i))
		i = seat < n ? n : i + 1;
	pthread_mutex_unlock(&seats->lock);
	if (i == n)
		return 0;
	return dfi__fail(-ENOBUFS,
	    "flow '%s': %s %u: target %u has consumed all %u segments of its "
	    "ring, which is the window of what is not acknowledged, and "
	    "consumes on without dfi_target_ack(): acknowledge more often, or "
	    "create the flow with a larger segment_count or segment_size, or "
	    "with open.spill_dir",
	    source->flow.name, SOURCE_ID(source), i,
	    open->ends[i]->rings[0].geometry.segment_count);
}

/* ---- The end ---------------------------------------------------------------
 */

static bool is_acknowledged(const struct open_source *open, uint32_t seat)
{
	uint64_t ago = dfi__replay_unacked(open, seat);

	for (; ago; ago--)
		if (bytes_of(open, seat, ago))
			return false;
	return !begun_bytes(open->ends[seat]);
}

void dfi__replay_ask(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	struct dfi_source *end;
	uint32_t i;

	for (i = 0; i < open_seats(source); i++) {
		end = open->ends[i];
		if (!end || open_is_lost(end) || is_acknowledged(open, i) ||
		    (keyed->asked[i] == end->rings[0].seq && !begun_bytes(end)))
			continue;
		if (dfi__keyed_say(source, end, 0, SEGMENT_ASKS))
			keyed->asked[i] = end->rings[0].seq;
		else
			keyed->needs_room = true;
	}
}

/* Counts what targets have acknowledged. */
static uint64_t returned(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct remote *remote;
	uint64_t total = 0;
	uint32_t i;

	for (i = 0; i < open_seats(source); i++) {
		if (!open->ends[i])
			continue;
		remote = open->ends[i]->rings[0].remote;
		if (!remote->in_place)
			(void)remote->transport->ops->ring.progress(remote);
		total += open->ends[i]->rings[0].seq -
		    dfi__replay_unacked(open, i);
		/* Room as well, to ask for an acknowledgement. */
		if (open->keyed->spill)
			total += open->ends[i]->rings[0].seq -
			    dfi__replay_unreturned(&open->ends[i]->rings[0]);
	}
	return total;
}

bool dfi__replay_progressed(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	uint32_t i;

	for (i = 0; i < open_seats(source); i++)
		if (open->ends[i] && open_is_lost(open->ends[i]))
			return true;
	return returned(source) != open->keyed->acked;
}

static bool all_acknowledged(const struct open_source *open)
{
	uint32_t i;

	for (i = 0; i < open_seats(open->source); i++)
		if (open->ends[i] && !is_acknowledged(open, i))
			return false;
	return !open->keyed->held.n;
}

int dfi__replay_await(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	int64_t until; /* of one wait: the close has a time of its own */
	int ret;

	keyed->closing = true;
	for (;;) {
		until = 0;
		ret = source_check(source);
		if (!ret)
			ret = dfi__open_drop_lost(source);
		if (!ret)
			ret = dfi__open_adopt(source);
		if (ret < 0)
			return ret;
		keyed->acked = returned(source);
		(void)dfi__keyed_send_pushed(source);
		if (all_acknowledged(open))
			return 0;
		keyed->needs_room = false;
		dfi__replay_ask(source);
		/* A segment that was opened ahead may have found none. */
		if (!keyed->held.n && !keyed->needs_room)
			dfi__spill_forget(open);
		if (keyed->held.n)
			ret = dfi__open_expect_some(source, open_seats(source));
		if (!ret)
			ret = dfi__open_await_room(
			    source, OPEN_ALL_SEATS, &until);
		if (ret < 0)
			return ret;
	}
}

/* ---- A source that has returned --------------------------------------------
 */

/* Under the lock, which it gives up meanwhile. */
static void await_news(struct seat_watch *seats)
{
	struct timespec at = deadline_timespec(clock_now_ns() + LOOK_NS);

	pthread_cond_timedwait(&seats->changed, &seats->lock, &at);
}

static bool resume(
    struct seat_watch *seats, uint64_t *lowest, uint64_t *positions, uint32_t n)
{
	if (!seats->tables)
		return dfi__open_resume_highest(seats->resume, &seats->seats,
		    seats->flow->min_targets, lowest);
	if (!dfi__open_resume_lowest(
		seats->resume, seats->tables, &seats->seats, lowest))
		return false;
	if (n)
		memcpy(positions, seats->resume->positions,
		    n * sizeof(positions[0]));
	return true;
}

static int refuse_resume(
    const struct dfi_source *source, const uint64_t *lowest, uint32_t n)
{
	if (!source->flow.input_position)
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s': %s %u: dfi_source_resume: the flow was not "
		    "created with DFI_ON_LOSS_REPLAY",
		    source->flow.name, SOURCE_ID(source));
	if (!lowest)
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: dfi_source_resume: lowest is NULL",
		    source->flow.name, SOURCE_ID(source));
	if (n && !source->flow.partitions)
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: dfi_source_resume: room for %u "
		    "positions, but the flow does not route by keys, so it "
		    "has one for all: set positions to NULL",
		    source->flow.name, SOURCE_ID(source), n);
	return n && n != source->flow.partitions
	    ? dfi__fail(-EINVAL,
		  "flow '%s': %s %u: dfi_source_resume: room for %u positions, "
		  "but the flow has %u partitions",
		  source->flow.name, SOURCE_ID(source), n,
		  source->flow.partitions)
	    : 0;
}

static int no_answer(const struct dfi_source *source)
{
	if (source->flags & DFI_NONBLOCK)
		return dfi__fail_text(-EAGAIN,
		    "not all targets have said yet what they have "
		    "acknowledged");
	if (!source->flow.partitions)
		return dfi__fail(-ETIMEDOUT,
		    "flow '%s': %s %u: for %ld ms not all targets have said "
		    "what is acknowledged, or fewer than open.min_targets %u "
		    "are attached",
		    source->flow.name, SOURCE_ID(source),
		    (long)(source->wait_time.timeout_ns / NS_PER_MS),
		    source->flow.min_targets);
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': %s %u: for %ld ms not all partitions were taken "
	    "(dfi_partition_take()), or a target has not said what it has "
	    "acknowledged",
	    source->flow.name, SOURCE_ID(source),
	    (long)(source->wait_time.timeout_ns / NS_PER_MS));
}

int dfi_source_resume(struct dfi_source *source, uint64_t *lowest,
    uint64_t *positions, uint32_t n)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	struct seat_watch *seats;
	int64_t deadline;
	bool known;
	int ret = dfi__source_check_free(source);

	if (!ret)
		ret = refuse_resume(source, lowest, positions ? n : 0);
	if (ret < 0)
		return ret;
	seats = &open_source(source)->pairs.seats;
	deadline = wait_deadline(&source->wait_time, clock_now_ns());
	for (;;) {
		pthread_mutex_lock(&seats->lock);
		known = resume(seats, lowest, positions, positions ? n : 0);
		if (!known && !(source->flags & DFI_NONBLOCK))
			await_news(seats);
		pthread_mutex_unlock(&seats->lock);
		if (known)
			return 0;
		if (source_aborted(source)) {
			keyed_enter(open_source(source));
			ret = dfi__source_give_up(source);
			keyed_leave(open_source(source));
			return ret;
		}
		if (source_interrupted(source))
			return dfi__source_interrupted(source);
		if (source->flags & DFI_NONBLOCK || clock_now_ns() >= deadline)
			return no_answer(source);
	}
}
