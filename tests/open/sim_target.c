/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target: what the library does for it, and an application that stores
 * effects and positions in one transaction. What it must never see is checked
 * here.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

void sim_target_start(struct sim_end *end)
{
	const struct sim_plan *plan = &end->sim->plan;
	unsigned i;

	if (dfi__open_target_size(SIM_SOURCES, SIM_PARTITIONS) >
	    sizeof(end->t.memory))
		abort();
	dfi__open_target_init(
	    &end->t.core, &end->seats, &end->tables, end->t.memory);
	dfi__open_watermark_init(&end->t.watermark, SIM_SOURCES, plan->align,
	    plan->replay, (int64_t)plan->idle, end->t.markers);
	for (i = 0; i < SIM_SOURCES; i++)
		dfi__open_inputs_init(
		    &end->t.inputs[i], SIM_PARTITIONS, end->t.inputs_memory[i]);
}

/* ---- Members and pairs --------------------------------------------------- */

static int64_t now(const struct sim_end *end)
{
	return (int64_t)end->sim->now;
}

/* K1: it never falls. */
static void check_watermark(struct sim_end *end)
{
	uint64_t value = end->t.watermark.value;

	if (value < end->t.last_watermark)
		sim_fail(end->sim,
		    "the watermark of %s falls from %llu to %llu",
		    sim_end_name(end),
		    (unsigned long long)end->t.last_watermark,
		    (unsigned long long)value);
	if (value > end->t.last_watermark && end->sim->plan.align)
		end->sim->counts.unaligned += !open_watermark_is_barrier(
		    &end->t.watermark);
	end->t.last_watermark = value;
}

/* M4: each holder of a seat writes where no other one does. */
static struct sim_ring *ring_for(struct sim_end *end, uint32_t source)
{
	unsigned n = end->t.n_queue[source];

	return SIM_BUG(SAME_RING) && n
	    ? end->t.pairs[end->t.queue[source][n - 1]].ring
	    : sim_ring_new(end->sim);
}

static void join(struct sim_end *end, uint32_t source)
{
	struct open_marker *marker = &end->t.watermark.markers[source];
	unsigned i;

	for (i = 0; i < SIM_PAIRS && end->t.pairs[i].used; i++)
		;
	if (i == SIM_PAIRS) {
		sim_fail(end->sim, "%s has too many pairs", sim_end_name(end));
		return;
	}
	memset(&end->t.pairs[i], 0, sizeof(end->t.pairs[i]));
	end->t.pairs[i].used = end->t.pairs[i].due = true;
	end->t.pairs[i].ring = ring_for(end, source);
	end->t.pairs[i].ring->target = end;
	dfi__open_target_join(&end->t.core, &end->t.pairs[i].pair, source);
	end->t.queue[source][end->t.n_queue[source]++] = i;
	/* One that returns was held. */
	if (marker->state == OPEN_MARKER_ABSENT &&
	    !(end->sim->plan.replay && end->t.joined[source])) {
		end->t.excuses[source] = end->t.watermark.value;
	}
	end->t.joined[source] = true;
	end->t.lost_at[source] = 0;
	dfi__open_watermark_join(&end->t.watermark, source, now(end));
	check_watermark(end);
}

/* A pair is over when its source is gone and all that has arrived is taken. */
static void unmake(struct sim_end *end, struct sim_pair *pair)
{
	uint32_t source = pair->pair.source;
	unsigned *queue = end->t.queue[source], i, number;

	number = (unsigned)(pair - end->t.pairs);
	for (i = 0; queue[i] != number; i++)
		;
	memmove(&queue[i], &queue[i + 1],
	    (--end->t.n_queue[source] - i) * sizeof(*queue));
	pair->used = false;
	if (pair->pair.state == OPEN_PAIR_ENDED)
		dfi__open_watermark_ended(&end->t.watermark, source);
	else
		dfi__open_watermark_lost(&end->t.watermark, source);
	end->t.lost_at[source] = pair->pair.state == OPEN_PAIR_ENDED
	    ? 0
	    : end->sim->now;
	check_watermark(end);
}

static void part(struct sim_end *end, const struct open_event *event)
{
	struct sim_pair *pair;
	unsigned i;

	for (i = 0; i < SIM_PAIRS; i++) {
		pair = &end->t.pairs[i];
		if (!pair->used || pair->pair.incarnation != event->incarnation)
			continue;
		dfi__open_target_gone(&end->t.core, &pair->pair, event->type,
		    pair->ring->sent - pair->ring->taken);
		pair->gone = true;
		end->sim->counts.rests += pair->pair.state == OPEN_PAIR_REST;
		if (pair->pair.state != OPEN_PAIR_REST)
			unmake(end, pair);
	}
}

/*
 * It is lost. In a flow without replay, so is what lies in its rings, which a
 * source that is gone doesn't count.
 */
void sim_target_lose(struct sim_end *end)
{
	struct sim *sim = end->sim;
	uint64_t i;
	unsigned n;

	for (n = 0; n < SIM_PAIRS; n++) {
		const struct sim_pair *pair = &end->t.pairs[n];

		if (!pair->used)
			continue;
		for (i = pair->ring->taken; i < pair->ring->sent; i++)
			if (sim_ring_at(pair->ring, i)->kind == SIM_TUPLE)
				sim->excused[pair->pair.source]
					    [sim_ring_at(pair->ring, i)
						    ->position] = true;
	}
}

void sim_target_event(struct sim_end *end, const struct open_event *event)
{
	if (event->role != OPEN_SOURCE)
		return;
	if (event->type == OPEN_JOINED)
		join(end, event->seat);
	else if (event->type == OPEN_LOST || event->type == OPEN_ENDED)
		part(end, event);
}

/* H2: even shares, and whoever stays within its share keeps what it has. */
static void check_shares(struct sim_end *end)
{
	const struct open_table *next = &end->tables.next;
	unsigned n_staying = 0, n, had, lost, got, base;
	uint32_t t, p;

	for (t = 0; t < SIM_TARGETS; t++)
		n_staying += open_seat_stays(&end->seats, t);
	base = SIM_PARTITIONS / n_staying;
	for (t = 0; t < SIM_TARGETS; t++) {
		for (n = had = lost = got = 0, p = 0; p < SIM_PARTITIONS; p++) {
			n += next->owners[p] == t;
			had += next->from[p] == t;
			lost += next->from[p] == t && next->owners[p] != t;
			got += next->from[p] != t && next->owners[p] == t;
		}
		if (!open_seat_stays(&end->seats, t) ? n != 0
						     : n < base ||
			    n > base + (SIM_PARTITIONS % n_staying != 0))
			sim_fail(end->sim,
			    "table %llu gives %u partitions to target %u",
			    (unsigned long long)next->number, n, t);
		else if (open_seat_stays(&end->seats, t) && lost &&
		    (had <= base || got))
			sim_fail(end->sim,
			    "table %llu takes partitions of target %u, "
			    "which has %u",
			    (unsigned long long)next->number, t, had);
	}
}

static void propose(struct sim_end *end)
{
	struct sim *sim = end->sim;
	struct sim_change change = { .there = true, .owner = SIM_ENDS };

	change.key.kind = OPEN_KEY_TABLE;
	change.key.number = end->tables.next.number;
	if (sim_key_is_there(sim, &change.key) ||
	    sim->n_tables == sizeof(sim->tables) / sizeof(sim->tables[0]))
		return;
	if (!end->tables.has_assigned)
		check_shares(end);
	change.table = sim_table_copy(sim, &end->tables.next);
	sim_put(sim, &change);
	sim->counts.tables++;
	sim_trace(sim, "%s makes table %llu, epoch %llu", sim_end_name(end),
	    (unsigned long long)change.key.number,
	    (unsigned long long)change.table->table.epoch);
}

void sim_target_learn(struct sim_end *end)
{
	struct open_key last = { .kind = OPEN_KEY_TABLE };

	if (end->sim->plan.routing)
		return;
	dfi__open_target_learn(&end->t.core);
	dfi__open_watermark_suspend(&end->t.watermark,
	    !dfi__open_is_settled(&end->tables, &end->seats));
	if (end->tables.newest.number > 1) {
		last.number = end->tables.newest.number - 1;
		sim_delete(end->sim, &last);
	}
	if (dfi__open_tables_propose(&end->tables, &end->seats))
		propose(end);
}

/* ---- The store ----------------------------------------------------------- */

/* Whether the store refuses this target's effects of a partition (R5). */
static bool is_refused(struct sim_end *end, uint32_t p)
{
	struct sim *sim = end->sim;

	if (sim->plan.routing)
		return false;
	if (sim->epochs[p] <= end->t.core.epochs[p] || SIM_BUG(NO_FENCE))
		return false;
	if (sim_is_attached(sim, end))
		sim_fail(sim, "%s owns partition %u, and is refused",
		    sim_end_name(end), p);
	sim->counts.refused++;
	sim_end_over(end, "the store refuses it");
	return true;
}

static void store(
    struct sim_end *end, uint32_t source, const struct sim_item *item)
{
	struct sim *sim = end->sim;
	uint32_t p = item->partition;
	uint64_t between;

	if (sim->plan.routing) { /* at least once */
		sim->effects[source][item->position] = 1;
		return;
	}
	if (++sim->effects[source][item->position] > 1)
		sim_fail(sim,
		    "the effect of tuple %llu of source %u comes twice",
		    (unsigned long long)item->position, source);
	for (between = sim->stored[p][source] + 1; between < item->position;
	     between++)
		if (sim_partition(sim, source, between) == p)
			sim_fail(sim,
			    "tuple %llu of source %u comes before %llu",
			    (unsigned long long)item->position, source,
			    (unsigned long long)between);
	if (!SIM_BUG(APART))
		sim->stored[p][source] = item->position;
}

/* True: nothing is pending any more. */
static bool commit(struct sim_end *end)
{
	unsigned i;

	if (SIM_BUG(APART) && end->t.half) {
		for (i = 0; i < end->t.n_pending; i++)
			end->sim->stored[end->t.pending[i].partition]
					[end->t.pending_source[i]] =
			    end->t.pending[i].position;
		end->t.half = false;
		end->t.n_pending = 0;
		return true;
	}
	for (i = 0; i < end->t.n_pending; i++)
		if (is_refused(end, end->t.pending[i].partition))
			return false;
	for (i = 0; i < end->t.n_pending; i++)
		store(end, end->t.pending_source[i], &end->t.pending[i]);
	if (SIM_BUG(APART) && end->t.n_pending) {
		end->t.half = true;
		return false;
	}
	end->t.n_pending = 0;
	return true;
}

static bool store_some(struct sim_end *end)
{
	if (!end->t.n_pending || !sim_chance(end->sim, end->sim->plan.store))
		return false;
	commit(end);
	return true;
}

static bool acknowledge(struct sim_end *end)
{
	bool any = false;
	unsigned i;

	if (!end->sim->plan.replay || (end->t.n_pending && !SIM_BUG(EARLY_ACK)))
		return false;
	for (i = 0; i < SIM_PAIRS; i++) {
		struct sim_ring *ring = end->t.pairs[i].ring;

		if (!end->t.pairs[i].used || ring->credit == ring->taken)
			continue;
		ring->credit = ring->taken;
		any = true;
	}
	for (i = 0; any && i < SIM_SOURCES; i++)
		dfi__open_inputs_ack(&end->t.inputs[i], &end->t.core);
	return any;
}

/* ---- Consuming ----------------------------------------------------------- */

/* Is it late, and is that right? */
static void check_time(
    struct sim_end *end, uint32_t source, const struct sim_item *item)
{
	const struct open_watermark *watermark = &end->t.watermark;
	uint64_t mark = end->t.pairs[end->t.queue[source][0]].pair.behind;

	if (mark > watermark->value && watermark->align &&
	    watermark->unaligned < mark)
		sim_fail(end->sim,
		    "%s takes tuple %llu of source %u behind its mark %llu at "
		    "%llu",
		    sim_end_name(end), (unsigned long long)item->position,
		    source, (unsigned long long)mark,
		    (unsigned long long)watermark->value);
	if (item->position > watermark->value)
		return;
	end->sim->counts.late++;
	if (!item->again && !open_watermark_is_late(watermark, source) &&
	    item->position > end->t.excuses[source])
		sim_fail(end->sim,
		    "tuple %llu of source %u is late at %s, at watermark %llu",
		    (unsigned long long)item->position, source,
		    sim_end_name(end), (unsigned long long)watermark->value);
}

/* Without replay, the application does nothing but look. */
static void look_at(
    struct sim_end *end, uint32_t source, const struct sim_item *item)
{
	struct sim *sim = end->sim;
	uint64_t *last = &sim->expected[item->partition][source];
	uint64_t order = item->by * 1000 + item->position;

	if (!sim_is_attached(sim, end)) {
		sim->excused[source][item->position] = true;
		return;
	}
	if (++sim->effects[source][item->position] > 1)
		sim_fail(sim, "tuple %llu of source %u is lent twice",
		    (unsigned long long)item->position, source);
	if (order <= *last)
		sim_fail(sim,
		    "tuple %llu of source %u comes behind a later one",
		    (unsigned long long)item->position, source);
	*last = order;
}

static void take_tuple(
    struct sim_end *end, uint32_t source, const struct sim_item *item)
{
	struct open_inputs *inputs = &end->t.inputs[source];
	struct sim *sim = end->sim;

	if (sim->plan.routing == SIM_DIRECT && item->partition != end->seat)
		sim_fail(sim, "%s gets a tuple for target %u",
		    sim_end_name(end), item->partition);
	if (!sim->plan.routing &&
	    end->t.core.states[item->partition] != OPEN_HELD) {
		sim_fail(sim,
		    "%s gets tuple %llu of source %u, and does not hold "
		    "partition %u",
		    sim_end_name(end), (unsigned long long)item->position,
		    source, item->partition);
		return;
	}
	if (sim->plan.replay && !sim->plan.routing) {
		if (!open_inputs_is_newest(inputs, item->position) &&
		    open_inputs_has_seen(
			inputs, item->partition, item->position)) {
			sim->counts.filtered++;
			return;
		}
		(void)open_inputs_lend(inputs, item->partition, item->position);
	}
	check_time(end, source, item);
	if (!sim->plan.replay) {
		look_at(end, source, item);
		return;
	}
	end->t.pending_source[end->t.n_pending] = source;
	end->t.pending[end->t.n_pending++] = *item;
}

static void take_item(struct sim_end *end, struct sim_pair *pair)
{
	struct sim_ring *ring = pair->ring;
	const struct sim_item *item = sim_ring_at(ring, ring->taken++);
	uint32_t source = pair->pair.source;

	if (!end->sim->plan.replay)
		ring->credit = ring->taken;
	open_watermark_took(
	    &end->t.watermark, source, pair->pair.behind, now(end));
	if (end->t.lows[source] < item->low)
		end->t.lows[source] = item->low;
	switch (item->kind) {
	case SIM_TUPLE:
		take_tuple(end, source, item);
		break;
	case SIM_TABLE_MARK:
		dfi__open_target_marked(&pair->pair, item->table);
		break;
	case SIM_MARK:
		pair->pair.behind = item->position;
		dfi__open_inputs_mark(
		    &end->t.inputs[source], item->position, item->table);
		dfi__open_watermark_mark(
		    &end->t.watermark, source, item->position, now(end));
		check_watermark(end);
		pair->held = !open_watermark_may_take(
		    &end->t.watermark, item->position, pair->gone);
		break;
	case SIM_END:
		dfi__open_target_ended(&end->t.core, &pair->pair);
		break;
	}
	dfi__open_target_took(&end->t.core, &pair->pair);
	if (pair->gone && pair->pair.state != OPEN_PAIR_REST)
		unmake(end, pair);
	sim_target_learn(end);
}

static bool consume(struct sim_end *end)
{
	uint64_t i, first = sim_below(end->sim, SIM_SOURCES);

	for (i = 0; i < SIM_SOURCES; i++) {
		uint32_t source = (uint32_t)((first + i) % SIM_SOURCES);
		struct sim_pair *pair = &end->t.pairs[end->t.queue[source][0]];

		if (end->t.lost_at[source] && !end->t.n_queue[source] &&
		    open_seat_is_given_up(&end->seats, source, false)) {
			dfi__open_watermark_given_up(&end->t.watermark, source);
			check_watermark(end);
			/* Who comes is a new source. */
			end->t.joined[source] = false;
			end->t.lost_at[source] = 0;
			end->sim->counts.released++;
		}
		/* M5: the seat's next ring when this one is empty. */
		if (!end->t.n_queue[source] ||
		    pair->pair.state == OPEN_PAIR_ENDED)
			continue;
		/* One that is held back is ahead, and not idle. */
		if (pair->held &&
		    !open_watermark_may_take(
			&end->t.watermark, pair->pair.behind, pair->gone))
			continue;
		pair->held = false;
		if (pair->ring->taken == pair->ring->sent) {
			end->sim->counts.idle += dfi__open_watermark_quiet(
			    &end->t.watermark, source, now(end));
			check_watermark(end);
			continue;
		}
		if (SIM_BUG(LONG_REST) && pair->gone)
			pair->pair.rest = pair->ring->sent - pair->ring->taken +
			    1;
		take_item(end, pair);
		return true;
	}
	return false;
}

/* ---- Hand-over ----------------------------------------------------------- */

static bool get_event(struct sim_end *end)
{
	uint32_t p;
	bool leaves;

	if (!dfi__open_target_event(&end->t.core, &p, &leaves))
		return false;
	sim_trace(end->sim, "%s: partition %u %s, epoch %llu",
	    sim_end_name(end), p, leaves ? "leaves" : "was gained",
	    (unsigned long long)end->t.core.epochs[p]);
	return true;
}

/* Nobody else who is attached has the partition. */
static void check_owner(struct sim_end *end, uint32_t p)
{
	struct sim *sim = end->sim;
	unsigned i;

	for (i = 0; i < sim->n_ends; i++)
		if (sim->ends[i] != end && sim->ends[i]->role == OPEN_TARGET &&
		    sim->ends[i]->life != SIM_OVER &&
		    open_target_holds(&sim->ends[i]->t.core, p) &&
		    sim_is_attached(sim, sim->ends[i]) &&
		    sim_is_attached(sim, end))
			sim_fail(sim, "%s takes partition %u, which %s has",
			    sim_end_name(end), p, sim_end_name(sim->ends[i]));
}

static bool take_one(struct sim_end *end, uint32_t p)
{
	struct sim *sim = end->sim;
	uint32_t s;

	if (sim->plan.replay) {
		/* R5: first the epoch, then the positions. */
		if (is_refused(end, p))
			return true;
		if (sim->epochs[p] < end->t.core.epochs[p])
			sim->epochs[p] = end->t.core.epochs[p];
		for (s = 0; s < SIM_SOURCES; s++)
			dfi__open_inputs_take(
			    &end->t.inputs[s], p, sim->stored[p][s]);
	}
	check_owner(end, p);
	dfi__open_target_take(&end->t.core, p);
	sim->counts.moves++;
	return true;
}

static bool hand_over(struct sim_end *end)
{
	uint64_t i, first = sim_below(end->sim, SIM_PARTITIONS);

	for (i = 0; i < SIM_PARTITIONS; i++) {
		uint32_t p = (uint32_t)((first + i) % SIM_PARTITIONS);

		if (end->t.core.states[p] == OPEN_GAINED)
			return take_one(end, p);
		if (end->t.core.states[p] == OPEN_LEAVING) {
			if (commit(end))
				dfi__open_target_release(&end->t.core, p);
			return true;
		}
	}
	return false;
}

static void put_pair(struct sim_end *end, struct sim_pair *pair)
{
	struct sim_change change = { .there = true, .owner = end->number };
	struct open_inputs *inputs = &end->t.inputs[pair->pair.source];

	if (SIM_BUG(RESUME_AT_SEEN))
		dfi__open_inputs_ack(inputs, &end->t.core);
	pair->due = false;
	change.key.kind = OPEN_KEY_PAIR;
	change.key.target = end->seat;
	change.key.incarnation = end->incarnation;
	change.key.source = pair->pair.source;
	change.ring = pair->ring;
	change.source_incarnation = pair->pair.incarnation;
	if (end->sim->plan.routing)
		dfi__open_low_encode(
		    end->t.lows[pair->pair.source], change.value);
	else
		dfi__open_positions_encode(inputs, &end->t.core, change.value);
	sim_put(end->sim, &change);
}

static bool publish(struct sim_end *end)
{
	struct sim_change change = { .there = true, .owner = end->number };
	const struct open_hand *hand;
	bool any = false;
	unsigned i;

	if (dfi__open_target_hand(&end->t.core, &hand)) {
		/* R4: what is taken is said in the pairs before. */
		for (i = 0; end->sim->plan.replay && i < SIM_PAIRS; i++)
			if (end->t.pairs[i].used && !end->t.pairs[i].gone)
				put_pair(end, &end->t.pairs[i]);
		change.key.kind = OPEN_KEY_HAND;
		change.key.target = end->seat;
		change.key.incarnation = end->incarnation;
		dfi__open_hand_encode(hand, SIM_PARTITIONS, change.value);
		sim_put(end->sim, &change);
		return true;
	}
	for (i = 0; i < SIM_PAIRS; i++) {
		if (!end->t.pairs[i].used || !end->t.pairs[i].due ||
		    end->t.pairs[i].gone)
			continue;
		put_pair(end, &end->t.pairs[i]);
		any = true;
	}
	return any;
}

/* R7: a source that has not returned in time. */
static bool give_up(struct sim_end *end)
{
	const struct sim_plan *plan = &end->sim->plan;
	uint32_t s;

	for (s = 0; plan->replay && plan->return_after && s < SIM_SOURCES; s++)
		if (end->t.lost_at[s] &&
		    end->sim->now - end->t.lost_at[s] >= plan->return_after &&
		    !end->seats.seats[OPEN_SOURCE][s].holder.incarnation &&
		    !end->seats.seats[OPEN_SOURCE][s].given_up) {
			/* Not again, whatever becomes of this one. */
			end->t.lost_at[s] = end->sim->now;
			sim_give_up(end->sim, s);
			return true;
		}
	return false;
}

static bool leave(struct sim_end *end)
{
	struct sim *sim = end->sim;
	struct open_key key = sim_seat_key(OPEN_TARGET, end->seat);
	unsigned i;

	if (!end->leaving || !sim_is_attached(sim, end))
		return false;
	if (sim->plan.routing) {
		sim_delete(sim, &key);
		sim_end_over(end, "it has closed");
		return true;
	}
	if (!end->t.said_leaving) {
		end->t.said_leaving = true;
		sim_end_put_seat(end, true, false);
		return true;
	}
	if (!dfi__open_target_has_left(&end->t.core) || end->t.n_pending)
		return false;
	for (i = 0; i < SIM_PAIRS; i++)
		if (end->t.pairs[i].used &&
		    end->t.pairs[i].ring->credit < end->t.pairs[i].ring->sent)
			return false;
	sim_end_put_seat(end, true, true);
	sim_delete(sim, &key);
	sim->counts.left++;
	sim_end_over(end, "it has left");
	return true;
}

void sim_target_act(struct sim_end *end)
{
	static bool (*const acts[])(struct sim_end * end) = { consume,
		get_event, hand_over, publish, store_some, acknowledge, leave,
		give_up };
	enum {
		N = sizeof(acts) / sizeof(acts[0])
	};
	uint64_t i, first = sim_below(end->sim, N);

	/* A thread of its own does this. */
	sim_target_evict_overdue(end);
	for (i = 0; i < N && end->life != SIM_OVER; i++)
		if (acts[(first + i) % N](end))
			return;
}
