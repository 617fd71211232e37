/* SPDX-License-Identifier: Apache-2.0 */
/* See keyed_target.h. */
#include "acks.h"
#include "keyed_bound.h"

#include <stdlib.h>
#include "base/atomic.h"
#include "base/bits.h"
#include "base/clock.h"
#include "base/error.h"
#include "flows/members/tables_watch.h"

/* How long after a failure the helper asks the registry again. */
#define AGAIN_NS (INT64_C(100) * NS_PER_MS)

/* A stay of a source in its seat. */
struct stay {
	struct open_pair pair;
	struct stay *next;
};

struct partitions {
	struct pairs *pairs;
	struct keyed_target state;
	struct stay *stays; /* of those whose tuples may still come */
	bool events;
	bool hands;             /* the "hand/" key is to be put */
	bool leaves;            /* the "will-leave/" key is to be put */
	bool left;              /* all was given away, and nothing is taken */
	_Atomic uint32_t n_due; /* of the state, for the owner */
	struct acks *acks;      /* with replay, or NULL */
	uint64_t cleaned; /* see dfi__tables_watch_propose(); for the helper */
	struct hand_bound bound;
};

int dfi__partitions_open(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	struct seat_watch *seats = &open->pairs.seats;
	const struct flow *flow = &target->flow;
	struct partitions *partitions = calloc(1,
	    sizeof(*partitions) +
		dfi__open_target_size(flow->n_sources, flow->partitions));

	if (!partitions)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	partitions->pairs = &open->pairs;
	partitions->events = target->flags & DFI_EVENTS;
	partitions->acks = open->acks;
	dfi__open_target_init(
	    &partitions->state, &seats->seats, seats->tables, partitions + 1);
	open->partitions = partitions;
	pthread_mutex_lock(&seats->lock);
	atomic_publish(&open->helped, partitions);
	seat_watch_call(seats);
	pthread_mutex_unlock(&seats->lock);
	return 0;
}

void dfi__partitions_free(struct partitions *partitions)
{
	struct stay *stay, *next;

	if (!partitions)
		return;
	for (stay = partitions->stays; stay; stay = next) {
		next = stay->next;
		free(stay);
	}
	free(partitions);
}

/* ---- Stays of sources ---------------------------------------------------- */

/* Whether tuples of a stay may still come from a ring. */
static bool has_ring(const struct pairs *pairs, const struct open_pair *stay)
{
	const struct pair *pair = pairs->of[stay->source].pair;
	uint32_t i;

	for (i = 0; i < SEAT_PAIRS; i++)
		if (pair[i].incarnation == stay->incarnation &&
		    pair[i].state != PAIR_NONE && pair[i].state != PAIR_RETIRED)
			return true;
	return false;
}

/* Have the helper tell sources what was acknowledged. */
static void call_to_report(struct partitions *partitions)
{
	if (partitions->acks)
		dfi__acks_call(partitions->acks);
}

/* Who has come to a seat, and who has gone. */
static void see_seat(struct partitions *partitions, uint32_t seat)
{
	struct keyed_target *state = &partitions->state;
	uint64_t holder = seat_watch_holder(&partitions->pairs->seats, seat);
	struct open_pair *known = state->pairs[seat];
	struct stay *stay;

	/* The rest of its ring counts as one segment. */
	if (known && known->incarnation != holder)
		dfi__open_target_gone(state, known, OPEN_LOST, 1);
	if (!holder || state->pairs[seat])
		return;
	stay = malloc(sizeof(*stay));
	if (!stay)
		return;
	dfi__open_target_join(state, &stay->pair, seat);
	stay->next = partitions->stays;
	partitions->stays = stay;
	call_to_report(partitions);
}

/* Whether the stay is over for this target. */
static bool see_ring(struct partitions *partitions, struct open_pair *stay)
{
	struct keyed_target *state = &partitions->state;
	const struct pairs *pairs = partitions->pairs;

	if (!has_ring(pairs, stay)) {
		if (stay->state == OPEN_PAIR_REST)
			dfi__open_target_took(state, stay);
		else if (stay->state == OPEN_PAIR_ATTACHED &&
		    pairs->of[stay->source].last == stay->incarnation &&
		    !dfi__pairs_expected(pairs, stay->source))
			dfi__open_target_ended(state, stay);
	}
	return state->pairs[stay->source] != stay &&
	    stay->state != OPEN_PAIR_REST;
}

static void see_stays(struct partitions *partitions)
{
	struct stay **at = &partitions->stays, *stay;
	uint32_t i;

	for (i = 0; i < partitions->pairs->seats.n_others; i++)
		see_seat(partitions, i);
	while ((stay = *at)) {
		if (see_ring(partitions, &stay->pair)) {
			*at = stay->next;
			free(stay);
		} else {
			at = &stay->next;
		}
	}
}

/* ---- Taking and releasing ------------------------------------------------ */

/* Under the lock, as the next ones: the helper has to put the "hand/" key. */
static void note_hand(struct partitions *partitions)
{
	const struct open_hand *hand;

	if (!dfi__open_target_hand(&partitions->state, &hand) ||
	    partitions->state.seats->evicted)
		return;
	partitions->hands = true;
	seat_watch_call(&partitions->pairs->seats);
}

static bool next_event(
    struct partitions *partitions, uint32_t *partition, bool *leaves)
{
	struct keyed_target *state = &partitions->state;

	if (!dfi__open_target_event(state, partition, leaves))
		return false;
	/* Its tuples come with a later call of the owner. */
	if (!*leaves && !partitions->acks)
		(void)dfi__open_target_take(state, *partition);
	else if (!partitions->events)
		(void)dfi__open_target_release(state, *partition);
	return true;
}

void dfi__partitions_learn(struct partitions *partitions)
{
	uint32_t partition;
	bool leaves;

	see_stays(partitions);
	if (partitions->left)
		return;
	dfi__open_target_learn(&partitions->state);
	while (
	    !partitions->events && next_event(partitions, &partition, &leaves))
		;
	note_hand(partitions);
	/* One that is evicted learns of no more; those that are due stay. */
	atomic_set(&partitions->n_due, partitions->state.n_due);
}

void dfi__partitions_marked(struct partitions *partitions, uint32_t source,
    uint64_t incarnation, uint64_t table)
{
	struct seat_watch *seats = &partitions->pairs->seats;
	struct stay *stay;

	pthread_mutex_lock(&seats->lock);
	see_stays(partitions);
	for (stay = partitions->stays; stay; stay = stay->next)
		if (stay->pair.source == source &&
		    stay->pair.incarnation == incarnation)
			dfi__open_target_marked(&stay->pair, table);
	dfi__partitions_learn(partitions);
	pthread_mutex_unlock(&seats->lock);
}

bool dfi__partitions_due(const struct partitions *partitions)
{
	return atomic_peek(&partitions->n_due) != 0;
}

/* Who had the partition, or gets it. */
static void name_other(
    const struct open_table *table, bool leaves, struct dfi_event *event)
{
	uint16_t seat = leaves ? table->owners[event->partition]
			       : table->from[event->partition];

	event->seat = seat == OPEN_NOBODY ? DFI_ANY_SEAT : seat;
	event->incarnation = seat == OPEN_NOBODY ? 0
						 : table->incarnations[seat];
}

bool dfi__partitions_event(
    struct partitions *partitions, struct dfi_event *event)
{
	struct seat_watch *seats = &partitions->pairs->seats;
	bool there, leaves = false;
	uint32_t partition = 0;

	pthread_mutex_lock(&seats->lock);
	there = next_event(partitions, &partition, &leaves);
	if (there) {
		*event = (struct dfi_event){
			.type = leaves ? DFI_LEAVING : DFI_GAINED,
			.partition = partition,
			.epoch = seats->tables->newest.epoch,
		};
		name_other(&seats->tables->newest, leaves, event);
	}
	dfi__partitions_learn(partitions);
	pthread_mutex_unlock(&seats->lock);
	return there;
}

bool dfi__partitions_release(struct partitions *partitions, uint32_t partition)
{
	struct seat_watch *seats = &partitions->pairs->seats;
	bool left;

	pthread_mutex_lock(&seats->lock);
	left = dfi__open_target_release(&partitions->state, partition);
	note_hand(partitions);
	call_to_report(partitions);
	pthread_mutex_unlock(&seats->lock);
	return left;
}

bool dfi__partitions_move(const struct partitions *partitions)
{
	const struct keyed_target *state = &partitions->state;
	const struct open_seats *seats = state->seats;
	const struct open_table *table = &state->tables->newest;
	uint32_t p, own = seats->own_seat;

	if (!table->number ||
	    table->incarnations[own] != seats->own_incarnation)
		return false;
	for (p = 0; p < table->n_partitions; p++)
		if (open_table_moves(table, p) &&
		    ((table->owners[p] == own && !open_bit(state->taken, p)) ||
			(table->from[p] == own &&
			    !open_bit(state->released, p))))
			return true;
	return state->hand.table != table->number;
}

void dfi__partitions_leave(struct partitions *partitions)
{
	struct seat_watch *seats = &partitions->pairs->seats;

	pthread_mutex_lock(&seats->lock);
	partitions->leaves = true;
	seat_watch_call(seats);
	pthread_mutex_unlock(&seats->lock);
}

bool dfi__partitions_left(struct partitions *partitions)
{
	partitions->left |= !partitions->state.seats->evicted &&
	    dfi__open_target_has_left(&partitions->state);
	return partitions->left;
}

bool dfi__partitions_unsettled(const struct partitions *partitions)
{
	const struct keyed_target *state = &partitions->state;

	return state->tables->newest.number &&
	    !dfi__open_is_settled(state->tables, state->seats);
}

void dfi__partitions_found_nothing(struct partitions *partitions)
{
	hand_bound_found_nothing(&partitions->bound, &partitions->pairs->seats);
}

/* ---- With replay --------------------------------------------------------- */

const struct keyed_target *dfi__partitions_state(
    const struct partitions *partitions)
{
	return &partitions->state;
}

bool dfi__partitions_take(struct partitions *partitions, uint32_t partition,
    const uint64_t *positions)
{
	struct seat_watch *seats = &partitions->pairs->seats;
	uint32_t i;
	bool taken;

	pthread_mutex_lock(&seats->lock);
	taken = dfi__open_target_take(&partitions->state, partition);
	for (i = 0; taken && i < seats->n_others; i++)
		dfi__open_inputs_take(dfi__acks_of(partitions->acks, i),
		    partition, positions ? positions[i] : 0);
	note_hand(partitions);
	call_to_report(partitions);
	pthread_mutex_unlock(&seats->lock);
	return taken;
}

bool dfi__partitions_epoch(
    struct partitions *partitions, uint32_t partition, uint64_t *epoch)
{
	struct seat_watch *seats = &partitions->pairs->seats;
	bool here;

	pthread_mutex_lock(&seats->lock);
	here = partitions->state.states[partition] >= OPEN_GAINED;
	*epoch = partitions->state.epochs[partition];
	pthread_mutex_unlock(&seats->lock);
	return here;
}

/* ---- On the helper ------------------------------------------------------- */

/* Under the lock, which it gives up in between: put a key that is due. */
static int put_key(struct partitions *partitions, bool *due,
    int (*put)(struct partitions *partitions))
{
	struct seat_watch *seats = &partitions->pairs->seats;
	int ret;

	if (!*due)
		return 0;
	*due = false;
	pthread_mutex_unlock(&seats->lock);
	ret = put(partitions);
	pthread_mutex_lock(&seats->lock);
	*due |= ret < 0;
	return ret;
}

static int put_hand(struct partitions *partitions)
{
	return dfi__tables_watch_hand(
	    &partitions->pairs->seats, &partitions->state.hand);
}

static int put_leave(struct partitions *partitions)
{
	return dfi__tables_watch_will_leave(&partitions->pairs->seats);
}

int64_t dfi__partitions_tend(struct partitions *partitions)
{
	struct seat_watch *seats = &partitions->pairs->seats;
	int64_t next;
	int ret;

	pthread_mutex_lock(&seats->lock);
	dfi__partitions_learn(partitions);
	ret = put_key(partitions, &partitions->hands, put_hand);
	if (!ret)
		ret = put_key(partitions, &partitions->leaves, put_leave);
	if (!ret && partitions->acks)
		ret = dfi__acks_report(partitions->acks, &partitions->state);
	pthread_mutex_unlock(&seats->lock);
	if (!ret)
		ret = dfi__tables_watch_propose(seats, &partitions->cleaned);
	next = dfi__hand_bound_tend(
	    &partitions->bound, seats, &partitions->state);
	return ret < 0 ? (int64_t)min_u64((uint64_t)next,
			     (uint64_t)(clock_now_ns() + AGAIN_NS))
		       : next;
}

/* ---- Calls of the owner -------------------------------------------------- */

int dfi_target_leave(struct dfi_target *target)
{
	TARGET_CALL(target, TARGET_SHARED(target));
	int ret = target_check(target);

	if (ret < 0)
		return ret;
	if (!target->flow.partitions)
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s': %s %u: leave: only open shuffle flows that "
		    "route by keys have partitions to give away: close the "
		    "target",
		    target->flow.name, TARGET_ID(target));
	dfi__partitions_leave(open_target(target)->partitions);
	return 0;
}

int dfi__partitions_no_such(const struct dfi_target *target, uint32_t partition)
{
	return dfi__fail(-ERANGE,
	    "flow '%s': %s %u: partition %u: the flow has %u, numbered from 0",
	    target->flow.name, TARGET_ID(target), partition,
	    target->flow.partitions);
}

int dfi_partition_release(struct dfi_target *target, uint32_t partition)
{
	TARGET_CALL(target, TARGET_SHARED(target));
	struct open_target *open;
	int ret = target_check(target);

	if (ret < 0)
		return ret;
	if (partition >= target->flow.partitions)
		return dfi__partitions_no_such(target, partition);
	open = open_target(target);
	if (open->acks && dfi__acks_are_due(open->acks))
		return dfi__fail(-EBUSY,
		    "flow '%s': %s %u: partition %u: acknowledge all that was "
		    "consumed before you release it (dfi_target_ack())",
		    target->flow.name, TARGET_ID(target), partition);
	return dfi__partitions_release(open->partitions, partition)
	    ? 0
	    : dfi__fail(-EINVAL,
		  "flow '%s': %s %u: partition %u does not leave: release it "
		  "behind its DFI_LEAVING",
		  target->flow.name, TARGET_ID(target), partition);
}
