/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lanes of a source of an open flow: which target's segment a lane points
 * to, how full segments are sent, and what becomes of those of a target that
 * has left.
 */
#include "keyed.h"

#include <dfi/event.h>
#include "base/counter.h"
#include "base/error.h"
#include "flows/members/attach.h"
#include "flows/members/eviction.h"
#include "open_multicast.h"
#include "transport/transport.h"

/* The seat whose segment a lane points to. */
static uint32_t seat_of(const struct dfi_source *source, uint32_t lane)
{
	const struct open_source *open = open_source(source);

	return open->routed ? open->chosen : lane;
}

static void close_lane(struct dfi_source *source, uint32_t lane)
{
	source->writers[lane].segment = NULL;
	source_close_lane(source, lane);
}

/* Point a lane to the open segment of an end. */
static void load(struct dfi_source *source, uint32_t lane, uint32_t seat)
{
	struct open_source *open = open_source(source);
	const struct dfi_source *end = open->ends[seat];
	struct writer *writer = &source->writers[lane];
	char *next = end->head.lanes[0].next;

	writer->segment = end->writers[0].segment;
	writer->end = source->router.routing == DFI_ROUTE_ROUND_ROBIN
	    ? next + source->head.tuple_size
	    : end->writers[0].end;
	writer->refused = 0;
	source->head.lanes[lane].next = next;
	lane_set_end(&source->head.lanes[lane], writer->end);
	open->chosen = seat;
}

/* Bring the lane of the end up to date. */
static void store(struct dfi_source *source, uint32_t lane)
{
	if (!source->writers[lane].segment ||
	    source_lane_is_closed(source, lane))
		return;
	open_source(source)->ends[seat_of(source, lane)]->head.lanes[0].next =
	    source->head.lanes[lane].next;
}

/*
 * Whether a lane whose segment is full goes on at the same target, if nothing
 * changes: there is no other one to choose, and asks_each_time() is false.
 * Marks close the lanes, so the target of an open one has the last mark.
 */
static void note_ends(struct open_source *open)
{
	const struct dfi_source *source = open->source;

	open->goes_on = !open->combines && !open->replicates && !open->keyed &&
	    (open->routed ? open->n_ends == 1 &&
			source->router.routing != DFI_ROUTE_ROUND_ROBIN
			  : source->writers[0].geometry.segment_tuples > 1);
}

/* The lane that may point to a seat's segment. */
static uint32_t lane_of(const struct dfi_source *source, uint32_t seat)
{
	return open_source(source)->routed ? 0 : seat;
}

static bool has_lost_seat(struct open_source *open, uint32_t seat)
{
	struct seat_watch *seats = &open->pairs.seats;
	bool lost;

	pthread_mutex_lock(&seats->lock);
	lost = seat_watch_holder(seats, seat) != open->taken[seat]->incarnation;
	pthread_mutex_unlock(&seats->lock);
	return lost;
}

/* Hand an end to the helper. */
static void retire(struct dfi_source *source, uint32_t seat)
{
	struct open_source *open = open_source(source);
	uint32_t lane = lane_of(source, seat);

	if (source->writers[lane].segment && seat_of(source, lane) == seat)
		close_lane(source, lane);
	dfi__peers_withdraw(&open->ends[seat]->targets);
	if (open->multicast)
		dfi__open_multicast_drop(open->ends[seat]);
	if (has_lost_seat(open, seat))
		open->ends[seat]->cause = OPEN_CAUSE_GONE;
	dfi__open_shared_lost(open, seat);
	if (open->keyed)
		dfi__keyed_give(open, seat);
	open->ends[seat] = NULL;
	open->n_ends--;
	note_ends(open);
	if (open->keyed)
		dfi__keyed_route(open);
	dfi__pairs_retire(&open->pairs, open->taken[seat]);
}

static void note_end(struct seat_news *news, uint32_t fate)
{
	if (news->known == news->present)
		news->fate = fate;
	news->present = 0;
}

static bool was_evicted(struct open_source *open, uint32_t seat)
{
	struct seat_watch *seats = &open->pairs.seats;
	bool evicted;

	pthread_mutex_lock(&seats->lock);
	evicted = eviction_was_of(
	    seats, OPEN_TARGET, seat, open->taken[seat]->incarnation);
	pthread_mutex_unlock(&seats->lock);
	return evicted;
}

static int evicted(struct dfi_source *source)
{
	char text[EVICTION_TEXT];

	return dfi__source_fail(source,
	    dfi__fail(-ESTALE, "flow '%s': %s %u %s", source->flow.name,
		SOURCE_ID(source),
		dfi__eviction_text(&open_source(source)->pairs.seats, text)));
}

/*
 * Whether a target that was lost may live, and lacks what was sent: no other
 * pair with it is made. One that has died loses its seat anyway.
 */
static bool is_broken(struct open_source *open, uint32_t seat)
{
	const struct writer *ring = &open->ends[seat]->rings[0];

	return !open->combines && !open->multicast && !ring->remote->in_place &&
	    !writer_closed(ring) && ring->seq != RING_FIRST_SEGMENT &&
	    !has_lost_seat(open, seat);
}

int dfi__open_lose(struct dfi_source *source, uint32_t seat)
{
	struct open_source *open = open_source(source);
	struct dfi_source *end = open->ends[seat];
	uint32_t lane = lane_of(source, seat);
	int ret = 0;
	uint64_t n;
	bool ended;

	if (open->multicast) {
		ret = dfi__open_multicast_check(source);
		if (ret < 0)
			return ret;
	}
	if (source->writers[lane].segment && seat_of(source, lane) == seat)
		store(source, lane);
	n = dfi__open_unreturned(open, end);
	if (!end->status)
		n += source_filled(end, 0) / source->head.tuple_size;
	if (open->keyed)
		dfi__keyed_count(source, end);
	/* It wanted no more, or had taken all when it closed. */
	ended = writer_closed(&end->rings[0]) == RING_CANCELLED ||
	    (writer_closed(&end->rings[0]) && !n);
	if (source->flow.on_loss != DFI_ON_LOSS_REPLAY)
		owned_add(&open->dropped, n);
	if (open->news)
		note_end(&open->news[seat],
		    was_evicted(open, seat) ? DFI_EVICTED
			: ended             ? DFI_ENDED
					    : DFI_LOST);
	if (writer_closed(&end->rings[0]) &&
	    dfi__open_combine_is_put_out(source, seat))
		return evicted(source);
	if (open->combines
		? dfi__open_combine_used(end) || has_lost_seat(open, seat)
		: source->flow.on_loss == DFI_ON_LOSS_FAIL && !ended)
		return dfi__source_fail(
		    source, dfi__peers_lost(&end->targets, 0));
	if (source->flow.on_loss == DFI_ON_LOSS_REPLAY)
		ret = dfi__replay_take_back(source, seat);
	if (is_broken(open, seat))
		dfi__pairs_evict_broken(&open->pairs, seat, open->taken[seat]);
	retire(source, seat);
	return ret;
}

void dfi__open_take(struct open_source *open, uint32_t seat)
{
	struct pair *pair = dfi__pairs_take(&open->pairs, seat, false);

	if (!pair)
		return;
	if (open->news)
		open->news[seat].present = pair->incarnation;
	if (open->full)
		open->full[seat].since = 0;
	open->taken[seat] = pair;
	open->ends[seat] = pair->end;
	dfi__open_shared_joined(open, seat);
	if (open->keyed)
		dfi__keyed_take(open, seat);
	if (open->keyed && open->keyed->spill)
		dfi__spill_take(open, seat);
	open->n_ends++;
	note_ends(open);
}

int dfi__open_drop_lost(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	uint32_t i;
	int ret = 0;

	for (i = 0; !ret && i < open_seats(source); i++) {
		if (!open->ends[i])
			continue;
		/* The helper may set stale at any time; then it calls again. */
		if (open_is_lost(open->ends[i]) ||
		    atomic_peek(&open->taken[i]->stale))
			ret = dfi__open_lose(source, i);
	}
	return ret;
}

int dfi__open_lock(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	int ret;

	for (;;) {
		ret = dfi__open_drop_lost(source);
		if (ret < 0)
			return ret;
		pthread_mutex_lock(&open->pairs.seats.lock);
		if (likely(!open->keyed || !open->keyed->replays) ||
		    !dfi__replay_note_gone(open))
			return 0;
		pthread_mutex_unlock(&open->pairs.seats.lock);
	}
}

int dfi__open_adopt(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct seat_watch *seats = &open->pairs.seats;
	uint32_t changes = pairs_changes(&open->pairs), i;
	uint32_t left;
	bool gone;
	int ret;

	if (changes == open->seen)
		return 0;
	open->seen = changes;
	ret = dfi__open_lock(source);
	if (ret < 0)
		return ret;
	for (i = 0; i < open_seats(source); i++)
		dfi__open_take(open, i);
	gone = seats->seats.evicted;
	left = dfi__open_combine_left(open);
	if (open->n_ends >= source->flow.min_targets &&
	    seats->seats.n_attached[OPEN_SOURCE] >= source->flow.min_sources)
		open->may_push = true;
	if (open->keyed)
		dfi__keyed_learn(open);
	if (open->order)
		dfi__open_order_complete(open);
	pthread_mutex_unlock(&seats->lock);
	for (i = 0; open->replicates && !open->order && i < open_seats(source);
	     i++)
		if (open->ends[i])
			dfi__open_replica_greet(source, open->ends[i], 0);
	for (i = 0; ret >= 0 && i < open_seats(source); i++)
		if (open->ends[i])
			ret = dfi__open_mark_end(source, i);
	if (ret < 0)
		return ret;
	if (gone)
		return evicted(source);
	return left < open_seats(source) ? dfi__open_empty_seat(source, left)
					 : 0;
}

/* ---- Choosing ---------------------------------------------------------- */

int dfi__open_empty_seat(struct dfi_source *source, uint32_t seat)
{
	if (open_source(source)->combines)
		return dfi__source_fail(source,
		    dfi__fail(-ECONNRESET,
			"flow '%s': %s %u: target %u has left, and the targets "
			"of a combiner flow stay to its end",
			source->flow.name, SOURCE_ID(source), seat));
	return dfi__fail(-ENXIO,
	    "flow '%s': %s %u: target %u: nobody holds this seat",
	    source->flow.name, SOURCE_ID(source), seat);
}

int dfi__open_end_segment(struct dfi_source *end)
{
	int ret;

	if (open_is_lost(end))
		return -ENXIO;
	if (end->writers[0].segment)
		return 1;
	ret = dfi__source_open_segment(end, 0);
	return ret < 0 ? -ENXIO : ret;
}

/* The segments that an end has room for, with the open one. */
static uint64_t end_room(const struct dfi_source *end)
{
	const struct writer *writer = &end->writers[0];
	/* Pairs with the publish in the transport's give_credit(). */
	uint64_t consumed = atomic_observe(
	    &writer_header(writer)->credit.consumed);

	return writer->geometry.segment_count - (writer->seq - consumed);
}

/* The end with most room, the first of them from next on. */
static uint32_t with_most_room(const struct dfi_source *source)
{
	const struct open_source *open = open_source(source);
	uint32_t n = open_seats(source), best = n, i, seat;
	uint64_t room, most = 0;

	for (i = 0; i < n; i++) {
		seat = (open->next + i) % n;
		if (!open->ends[seat])
			continue;
		room = end_room(open->ends[seat]);
		if (best == n || room > most) {
			best = seat;
			most = room;
		}
	}
	return best;
}

static uint32_t in_turn(const struct dfi_source *source)
{
	const struct open_source *open = open_source(source);
	uint32_t n = open_seats(source), i;

	for (i = 0; i < n; i++)
		if (open->ends[(open->next + i) % n])
			return (open->next + i) % n;
	return n;
}

/* The seat that a lane's next tuple goes to; n_seats: nobody is there. */
static uint32_t choose(const struct dfi_source *source, uint32_t lane)
{
	if (!open_source(source)->routed)
		return open_source(source)->ends[lane] ? lane
						       : open_seats(source);
	return source->router.routing == DFI_ROUTE_ANY ? with_most_room(source)
						       : in_turn(source);
}

/*
 * Point a closed lane to an open segment: 1. 0: there is none now; *seat is the
 * one to wait for, or n_seats. Or an error.
 */
static int point(struct dfi_source *source, uint32_t lane, uint32_t *seat)
{
	struct open_source *open = open_source(source);
	int ret;

	for (;;) {
		*seat = open->may_push ? choose(source, lane)
				       : open_seats(source);
		if (*seat == open_seats(source))
			return 0;
		ret = dfi__open_mark_end(source, *seat);
		if (ret <= 0 || !open->ends[*seat]) {
			if (ret <= 0)
				return ret;
			continue;
		}
		ret = dfi__open_end_segment(open->ends[*seat]);
		if (ret >= 0)
			open_note_room(open, *seat, ret > 0);
		if (ret > 0) {
			load(source, lane, *seat);
			return 1;
		}
		if (!ret)
			return 0;
		ret = dfi__open_lose(source, *seat);
		if (ret < 0)
			return ret;
	}
}

/* ---- Sending ----------------------------------------------------------- */

/* Send what the open segment of an end has; its lane is up to date. */
static int send_end(struct dfi_source *source, uint32_t lane, uint32_t seat)
{
	struct dfi_source *end = open_source(source)->ends[seat];
	struct writer *writer = &source->writers[lane];
	uint64_t bytes = source_filled(end, 0);

	if (!bytes)
		return 0;
	if (open_is_lost(end))
		return dfi__open_lose(source, seat);
	owned_add(&writer->total, bytes / source->head.tuple_size);
	counter_add(&writer->segments, 1);
	counter_add(
	    &writer->partial_segments, bytes != writer->geometry.segment_bytes);
	return dfi__source_send(end, 0) < 0 ? dfi__open_lose(source, seat) : 0;
}

/*
 * Where a push names the seat and a segment has one tuple, the lane stays
 * closed, so that each push asks who holds the seat: a reply must not go to the
 * last one who asked from there.
 */
static bool asks_each_time(const struct dfi_source *source, uint32_t lane)
{
	return !open_source(source)->routed &&
	    source->writers[lane].geometry.segment_tuples == 1;
}

/*
 * As a closed flow does: send the full segment of a lane that goes on at the
 * same target, and open the next one. true: it is open. Else the lane and the
 * end's segment are closed, or the end has failed.
 */
static always_inline bool go_on(
    struct dfi_source *source, uint32_t lane, struct dfi_source *end)
{
	struct dfi_source_lane *to = &source->head.lanes[lane];
	struct writer *writer = &source->writers[lane];
	struct writer *ring = &end->writers[0];
	int ret = dfi__writer_publish(ring, ring->geometry.segment_bytes);

	owned_add(&writer->total, ring->geometry.segment_tuples);
	counter_add(&writer->segments, 1);
	if (unlikely(ret < 0 || source_target_life(end, 0)))
		(void)dfi__source_target_left(end, 0);
	else if (likely(writer_open(ring) > 0)) {
		to->next = writer->segment = ring->segment;
		writer->end = ring->end;
		lane_set_end(to, ring->end);
		end->head.only.next = ring->segment;
		lane_set_end(&end->head.only, ring->end);
		return true;
	}
	source_close_lane(end, 0);
	close_lane(source, lane);
	return false;
}

/* The segment was sent, and the next one could not be opened. */
static rarely int look_for_next(
    struct dfi_source *source, uint32_t lane, uint32_t seat)
{
	uint32_t other;
	int ret = 0;

	if (open_source(source)->ends[seat]->status)
		ret = dfi__open_lose(source, seat);
	if (!ret)
		ret = point(source, lane, &other);
	return ret < 0 && source->status ? ret : 0;
}

/* Send the segment, and let the routing choose again. */
static __attribute__((__noinline__)) int choose_next(
    struct dfi_source *source, uint32_t lane, uint32_t seat)
{
	struct open_source *open = open_source(source);
	struct dfi_source *end = open->ends[seat];
	uint32_t other;
	int ret = 0;

	end->head.only.next = source->head.lanes[lane].next;
	close_lane(source, lane);
	open->next = seat + 1 == open_seats(source) ? 0 : seat + 1;
	if (end->head.lanes[0].next == end->writers[0].end)
		ret = send_end(source, lane, seat);
	if (!ret)
		ret = dfi__open_adopt(source);
	if (!ret && !asks_each_time(source, lane))
		ret = point(source, lane, &other);
	else if (!ret && open->ends[seat])
		(void)dfi__open_end_segment(open->ends[seat]);
	/* The tuple is taken: what is wrong with the next is said then. */
	return ret < 0 && source->status ? ret : 0;
}

/* The lane's segment is full, or in round robin it has its tuple. */
int dfi__open_lane_reached(struct dfi_source *source, uint32_t lane)
{
	struct open_source *open = open_source(source);
	uint32_t seat = seat_of(source, lane);

	if (source_aborted(source))
		return dfi__source_give_up(source);
	if (unlikely(
		!open->goes_on || pairs_changes(&open->pairs) != open->seen))
		return choose_next(source, lane, seat);
	return likely(go_on(source, lane, open->ends[seat]))
	    ? 0
	    : look_for_next(source, lane, seat);
}

void dfi__open_lane_park(struct dfi_source *source, uint32_t lane)
{
	store(source, lane);
	close_lane(source, lane);
}

/* Send the segment of a lane before it is full, and leave the lane closed. */
int dfi__open_lane_send(struct dfi_source *source, uint32_t lane)
{
	uint32_t seat = seat_of(source, lane);

	if (!source->writers[lane].segment)
		return 0;
	store(source, lane);
	close_lane(source, lane);
	return send_end(source, lane, seat);
}

/* The lane stays closed; see dfi__open_lane_reached(). */
int dfi__open_lane_flush(struct dfi_source *source, uint32_t lane)
{
	struct open_source *open = open_source(source);
	uint32_t i;
	int ret = dfi__open_lane_send(source, lane);

	/* Round robin has begun segments of several targets. */
	for (i = 0; !ret && open->routed && i < open_seats(source); i++)
		if (open->ends[i])
			ret = send_end(source, lane, i);
	if (!ret)
		ret = dfi__open_adopt(source);
	return ret < 0 ? ret : 0;
}

/* ---- Making room -------------------------------------------------------- */

int dfi__open_lane_make_room(struct dfi_source *source, uint32_t lane)
{
	struct open_source *open = open_source(source);
	int64_t until = 0;
	uint32_t room;
	int ret;

	for (;;) {
		ret = source_check(source);
		if (!ret)
			ret = dfi__open_adopt(source);
		if (!ret)
			ret = point(source, lane, &room);
		if (ret != 0)
			return ret < 0 ? ret : 0;
		if (open->may_push && !open->routed && !open->ends[lane] &&
		    !dfi__open_is_expected(source, lane))
			return dfi__open_empty_seat(source, lane);
		if (room == open_seats(source))
			ret = dfi__open_expect_some(
			    source, open->routed ? room : lane);
		if (!ret && source_interrupted(source))
			ret = dfi__source_interrupted(source);
		if (!ret)
			ret = dfi__open_await_room(source, room, &until);
		/* One that is lost has room, as its wait says, for nobody. */
		if (!ret && open->routed)
			ret = dfi__open_drop_lost(source);
		if (ret < 0)
			return ret;
	}
}
