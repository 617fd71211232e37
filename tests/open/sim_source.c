/* SPDX-License-Identifier: Apache-2.0 */
/* A source: what the library does for it, and an application that reads input.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

void sim_source_start(struct sim_end *end)
{
	if (dfi__open_source_size(SIM_PARTITIONS, SIM_TARGETS) >
	    sizeof(end->s.memory))
		abort();
	if (dfi__open_tables_size(SIM_TARGETS, SIM_TARGETS) >
	    sizeof(end->s.ways_memory))
		abort();
	dfi__open_choice_init(&end->s.ways,
	    end->sim->plan.routing == SIM_DIRECT ? SIM_TARGETS : 1, SIM_TARGETS,
	    end->s.ways_memory);
	dfi__open_source_init(&end->s.core, &end->seats,
	    end->sim->plan.routing ? &end->s.ways : &end->tables,
	    end->s.memory);
	dfi__open_resume_init(
	    &end->s.resume, SIM_PARTITIONS, end->s.resume_memory);
	if (!end->sim->plan.replay)
		end->s.resumed = true;
}

/* In a flow without replay: a tuple that is lost may be missing. */
static void excuse(struct sim_end *end, const struct sim_item *item)
{
	if (item->kind == SIM_TUPLE)
		end->sim->excused[end->seat][item->position] = true;
}

/* It is lost, and with it what waits. */
void sim_source_lose(struct sim_end *end)
{
	unsigned i;

	for (i = 0; i < end->s.n_lane; i++)
		excuse(end, &end->s.lane[i]);
}

/* R2, or DFI_ON_LOSS_DROP. */
static void unpair(struct sim_end *end, uint32_t target)
{
	struct sim *sim = end->sim;
	struct sim_ring *ring = end->s.rings[target];
	uint64_t i, n = 0;

	if (!ring)
		return;
	end->s.rings[target] = NULL;
	for (i = ring->credit; i < ring->sent; i++) {
		struct sim_item item = *sim_ring_at(ring, i);

		if (item.kind != SIM_TUPLE)
			continue;
		if (!sim->plan.replay) {
			excuse(end, &item);
			sim->counts.dropped++;
			continue;
		}
		if (SIM_BUG(NO_TAKE_BACK))
			continue;
		if (end->s.n_lane == SIM_LANE) {
			sim_fail(sim, "too many tuples wait");
			return;
		}
		memmove(&end->s.lane[n + 1], &end->s.lane[n],
		    (end->s.n_lane - n) * sizeof(item));
		item.again = true;
		end->s.lane[n++] = item;
		end->s.n_lane++;
		dfi__open_source_wait(&end->s.core, item.partition);
		sim->counts.taken_back++;
	}
}

void sim_source_event(struct sim_end *end, const struct open_event *event)
{
	if (event->role == OPEN_TARGET &&
	    (event->type == OPEN_LOST || event->type == OPEN_ENDED))
		unpair(end, event->seat);
}

void sim_source_pair(struct sim_end *end, const struct sim_change *change)
{
	uint32_t target = change->key.target;
	struct sim_item mark = { .kind = SIM_MARK,
		.position = end->s.last_mark };
	uint64_t held, positions[SIM_PARTITIONS];

	/* An evicted target may say so late. */
	if (change->source_incarnation != end->incarnation ||
	    !open_seat_is(
		&end->seats, OPEN_TARGET, target, change->key.incarnation))
		return;
	if (end->sim->plan.routing) {
		if (!dfi__open_low_decode(change->value, OPEN_LOW_BYTES,
			&end->s.resume.positions[target]))
			sim_fail(end->sim, "a position is not decoded");
		end->s.resume.incarnations[target] = change->key.incarnation;
	} else if (!dfi__open_positions_decode(change->value,
		       dfi__open_positions_bytes(SIM_PARTITIONS),
		       SIM_PARTITIONS, &held, positions))
		sim_fail(end->sim, "positions are not decoded");
	if (!end->sim->plan.routing)
		dfi__open_resume_pair(&end->s.resume, SIM_PARTITIONS,
		    change->key.incarnation, &held, positions);
	if (end->s.rings[target] == change->ring)
		return;
	end->s.rings[target] = change->ring;
	if (end->s.last_mark)
		sim_ring_send(change->ring, &mark);
}

void sim_source_learn(struct sim_end *end)
{
	if (end->sim->plan.routing)
		dfi__open_choice_learn(&end->s.ways, &end->seats);
	if (dfi__open_source_learn(&end->s.core) & OPEN_ADOPTED)
		sim_trace(end->sim, "%s adopts table %llu", sim_end_name(end),
		    (unsigned long long)end->s.core.adopted);
}

static struct sim_ring *ring_with_room(struct sim_end *end, uint16_t target)
{
	struct sim_ring *ring = target == OPEN_NOBODY ? NULL
						      : end->s.rings[target];

	return ring && sim_ring_has_room(end->sim, ring) ? ring : NULL;
}

/* R8: all up to here are acknowledged, wherever they were sent. */
static uint64_t low(const struct sim_end *end)
{
	uint64_t least = end->s.next, i;
	const struct sim_item *item;
	uint32_t t;

	if (SIM_BUG(LOW_AT_SENT))
		return least - 1;
	for (i = 0; i < end->s.n_lane; i++)
		least = least < end->s.lane[i].position
		    ? least
		    : end->s.lane[i].position;
	for (t = 0; t < SIM_TARGETS; t++)
		for (i = end->s.rings[t] ? end->s.rings[t]->credit : 0;
		     end->s.rings[t] && i < end->s.rings[t]->sent; i++) {
			item = sim_ring_at(end->s.rings[t], i);
			if (item->kind == SIM_TUPLE && item->position < least)
				least = item->position;
		}
	return least - 1;
}

/* Without keys, any target with a ring. */
static void choose(struct sim_end *end)
{
	uint64_t i, first = sim_below(end->sim, SIM_TARGETS);
	uint16_t t;

	if (end->sim->plan.routing != SIM_ANY)
		return;
	dfi__open_choose(&end->s.ways, &end->s.core, OPEN_NOBODY);
	for (i = 0; i < SIM_TARGETS; i++) {
		t = (uint16_t)((first + i) % SIM_TARGETS);
		if (end->s.rings[t]) {
			dfi__open_choose(&end->s.ways, &end->s.core, t);
			return;
		}
	}
}

static void send(
    struct sim_end *end, uint16_t target, const struct sim_item *unsaid)
{
	struct sim_item whole = *unsaid, *item = &whole;

	item->low = end->sim->plan.routing ? low(end) : 0;
	sim_trace(end->sim,
	    "%s sends tuple %llu of partition %u to target %u%s",
	    sim_end_name(end), (unsigned long long)item->position,
	    item->partition, target, item->again ? " again" : "");
	sim_ring_send(end->s.rings[target], item);
	if (!end->sim->plan.replay &&
	    (end->s.rings[target]->target->life == SIM_OVER ||
		!sim_is_attached(end->sim, end->s.rings[target]->target)))
		excuse(end, item); /* it is lost, and the source may be too */
}

/* The first tuple of a partition that waits and may go. */
static bool drain(struct sim_end *end)
{
	uint32_t passed = 0; /* partitions, a bit each */
	unsigned i;

	for (i = 0; i < end->s.n_lane; i++) {
		struct sim_item *item = &end->s.lane[i];
		uint16_t owner;

		choose(end);
		owner = open_source_owner(&end->s.core, item->partition);
		if (passed >> item->partition & 1)
			continue;
		passed |= 1U << item->partition;
		if (!ring_with_room(end, owner))
			continue;
		send(end, owner, item);
		dfi__open_source_sent(&end->s.core, item->partition);
		memmove(item, item + 1, (--end->s.n_lane - i) * sizeof(*item));
		return true;
	}
	return false;
}

static bool send_table_mark(struct sim_end *end)
{
	uint32_t t;

	for (t = 0; t < SIM_TARGETS; t++) {
		uint64_t table = open_source_owes(&end->s.core, t);
		struct sim_item item = { .kind = SIM_TABLE_MARK,
			.table = table };

		if (!table || !ring_with_room(end, (uint16_t)t))
			continue;
		sim_trace(end->sim, "%s marks table %llu at target %u",
		    sim_end_name(end), (unsigned long long)table, t);
		sim_ring_send(end->s.rings[t], &item);
		dfi__open_source_marked(&end->s.core, t);
		return true;
	}
	return false;
}

/* K4: to all or to none. */
static bool send_mark(struct sim_end *end)
{
	struct sim_item item = { .kind = SIM_MARK,
		.position = end->s.next - 1 };
	uint32_t t;

	if (!end->s.mark_due || !end->seats.n_attached[OPEN_TARGET])
		return false;
	if (!open_source_may_mark(&end->s.core) && !SIM_BUG(MARK_FIRST)) {
		end->sim->counts.held_back++;
		return false;
	}
	item.table = dfi__open_source_settled(&end->s.core);
	item.low = end->sim->plan.routing ? low(end) : 0;
	for (t = 0; t < SIM_TARGETS; t++)
		if (end->s.rings[t] && !ring_with_room(end, (uint16_t)t))
			return false;
	for (t = 0; t < SIM_TARGETS; t++)
		if (end->s.rings[t])
			sim_ring_send(end->s.rings[t], &item);
	sim_trace(end->sim, "%s marks %llu, with table %llu", sim_end_name(end),
	    (unsigned long long)item.position, (unsigned long long)item.table);
	end->s.mark_due = false;
	end->s.last_mark = item.position;
	end->sim->counts.marks++;
	return true;
}

static bool may_push(const struct sim_end *end, uint64_t position)
{
	const struct sim *sim = end->sim;

	return end->s.resumed && !end->s.mark_due &&
	    position <= sim->plan.n_input &&
	    (sim->plan.replay || !sim->ended[end->seat]);
}

static bool push(struct sim_end *end)
{
	struct sim *sim = end->sim;
	/* Without replay, the next incarnation goes on with the input. */
	uint64_t position = sim->plan.replay ? end->s.next
					     : sim->pushed[end->seat] + 1;
	struct sim_item item = { .kind = SIM_TUPLE, .position = position };
	uint16_t route;

	if (!may_push(end, position))
		return false;
	item.partition = sim_partition(sim, end->seat, position);
	item.by = end->incarnation;
	item.again = position <= sim->pushed[end->seat];
	choose(end);
	route = open_source_route(&end->s.core, item.partition);
	if (route != OPEN_NOBODY && !ring_with_room(end, route))
		return false;
	if (route == OPEN_NOBODY &&
	    (end->s.n_lane >= sim->plan.hold ||
		!end->s.core.tables->newest.number))
		return false;
	if (!item.again) {
		sim->pushed[end->seat] = position;
		sim->counts.tuples++;
	}
	if (!sim->plan.replay && !sim_is_attached(sim, end))
		excuse(end, &item); /* nobody has to read it */
	if (route == OPEN_NOBODY) {
		end->s.lane[end->s.n_lane++] = item;
		dfi__open_source_wait(&end->s.core, item.partition);
		sim->counts.waited++;
	} else {
		send(end, route, &item);
	}
	end->s.next = position + 1;
	end->s.mark_due = position % sim->plan.mark_every == 0 ||
	    position == sim->plan.n_input;
	return true;
}

static bool resume(struct sim_end *end)
{
	uint64_t lowest;

	if (end->s.resumed ||
	    !(end->sim->plan.routing ? dfi__open_resume_highest(&end->s.resume,
					   &end->seats, 1, &lowest)
				     : dfi__open_resume_lowest(&end->s.resume,
					   &end->tables, &end->seats, &lowest)))
		return false;
	if (end->sim->plan.routing)
		end->sim->counts.low_resumed += lowest > 0;
	end->s.resumed = true;
	end->s.next = lowest + 1;
	/* The mark of the last incarnation may be missing. */
	end->s.mark_due = lowest > 0;
	end->sim->counts.resumed += lowest > 0;
	sim_trace(end->sim, "%s resumes behind %llu", sim_end_name(end),
	    (unsigned long long)lowest);
	return true;
}

/* Under replay, it stays until all is acknowledged: it might go to others. */
static bool finish(struct sim_end *end)
{
	struct sim *sim = end->sim;
	struct sim_item item = { .kind = SIM_END };
	struct open_key key = sim_seat_key(OPEN_SOURCE, end->seat);
	uint64_t position = sim->plan.replay ? end->s.next
					     : sim->pushed[end->seat] + 1;
	uint32_t t;

	if (!end->s.resumed || position <= sim->plan.n_input ||
	    end->s.mark_due || end->s.n_lane)
		return false;
	for (t = 0; t < SIM_TARGETS; t++) {
		struct sim_ring *ring = end->s.rings[t];

		if (ring &&
		    (!sim_ring_has_room(sim, ring) ||
			(sim->plan.replay && ring->credit < ring->sent)))
			return false;
	}
	for (t = 0; t < SIM_TARGETS; t++)
		if (end->s.rings[t])
			sim_ring_send(end->s.rings[t], &item);
	if (sim_is_attached(sim, end)) {
		sim->ended[end->seat] = true;
		sim_end_put_seat(end, false, true);
		sim_delete(sim, &key);
	}
	sim_end_over(end, "it has ended");
	return true;
}

void sim_source_act(struct sim_end *end)
{
	static bool (*const acts[])(struct sim_end * end) = { drain,
		send_table_mark, send_mark, push, resume, finish };
	enum {
		N = sizeof(acts) / sizeof(acts[0])
	};
	uint64_t i, first = sim_below(end->sim, N);

	for (i = 0; i < N; i++)
		if (acts[(first + i) % N](end))
			return;
}
