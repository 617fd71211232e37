/* SPDX-License-Identifier: Apache-2.0 */
/* A target's partitions: gained, held, and released when all marks are there.
 */
#include <string.h>

#include "base/bits.h"
#include "flows/open/bugs.h"
#include "flows/open/target.h"

size_t dfi__open_target_size(uint32_t n_sources, uint32_t n_partitions)
{
	return sizeof(struct open_pair *) * (size_t)n_sources +
	    2 * sizeof(uint64_t) * (size_t)n_partitions +
	    2 * sizeof(uint64_t) * open_bits_words(n_partitions) +
	    align_up(n_partitions, 8);
}

void dfi__open_target_init(struct keyed_target *target,
    const struct open_seats *seats, const struct open_tables *tables,
    void *memory)
{
	uint32_t n_sources = seats->n[OPEN_SOURCE];
	uint32_t n_partitions = tables->newest.n_partitions;
	uint64_t *at = memory;

	memset(target, 0, sizeof(*target));
	memset(memory, 0, dfi__open_target_size(n_sources, n_partitions));
	target->seats = seats;
	target->tables = tables;
	target->gained = at;
	target->epochs = at + n_partitions;
	target->released = target->epochs + n_partitions;
	target->taken = target->released + open_bits_words(n_partitions);
	target->hand.released = target->released;
	target->hand.taken = target->taken;
	target->pairs = (struct open_pair **)(target->taken +
	    open_bits_words(n_partitions));
	target->states = (uint8_t *)(target->pairs + n_sources);
}

void dfi__open_target_join(
    struct keyed_target *target, struct open_pair *pair, uint32_t source)
{
	const struct open_seat *seat =
	    &target->seats->seats[OPEN_SOURCE][source];

	memset(pair, 0, sizeof(*pair));
	pair->source = source;
	pair->incarnation = seat->holder.incarnation;
	pair->revision = seat->revision;
	target->pairs[source] = pair;
}

static void end(struct keyed_target *target, struct open_pair *pair,
    enum open_pair_state state)
{
	target->n_rests -= pair->state == OPEN_PAIR_REST;
	target->n_rests += state == OPEN_PAIR_REST;
	pair->state = state;
}

static enum open_pair_state end_of(const struct open_pair *pair)
{
	return pair->done ? OPEN_PAIR_ENDED : OPEN_PAIR_LOST;
}

void dfi__open_target_gone(struct keyed_target *target, struct open_pair *pair,
    enum open_event_type why, uint64_t segments)
{
	if (target->pairs[pair->source] == pair)
		target->pairs[pair->source] = NULL;
	if (pair->state != OPEN_PAIR_ATTACHED)
		return;
	pair->rest = segments;
	pair->done = why == OPEN_ENDED;
	end(target, pair, segments ? OPEN_PAIR_REST : end_of(pair));
}

void dfi__open_target_took(struct keyed_target *target, struct open_pair *pair)
{
	if (pair->state == OPEN_PAIR_REST && --pair->rest == 0)
		end(target, pair, end_of(pair));
}

void dfi__open_target_marked(struct open_pair *pair, uint64_t table)
{
	pair->marked = max_u64(pair->marked, table);
}

void dfi__open_target_ended(struct keyed_target *target, struct open_pair *pair)
{
	end(target, pair, OPEN_PAIR_ENDED);
}

bool dfi__open_target_misses(const struct keyed_target *target, uint32_t source)
{
	const struct open_table *table = &target->tables->newest;
	const struct open_pair *pair = target->pairs[source];

	return pair && pair->state == OPEN_PAIR_ATTACHED &&
	    pair->revision < table->revision && pair->marked < table->number;
}

/* H6: whether all that was sent before the newest table is taken. */
static bool has_all(const struct keyed_target *target)
{
	uint32_t i;

	if (target->n_rests && !OPEN_BUG(LOST_REST))
		return false;
	for (i = 0; i < target->seats->n[OPEN_SOURCE]; i++)
		if (dfi__open_target_misses(target, i))
			return OPEN_BUG(EARLY_RELEASE) && i > 0;
	return true;
}

static void set_state(
    struct keyed_target *target, uint32_t p, enum open_partition_state state)
{
	enum open_partition_state last = target->states[p];

	target->n_due -= last == OPEN_GAINING || last == OPEN_GOING;
	target->n_due += state == OPEN_GAINING || state == OPEN_GOING;
	target->n_here -= last != OPEN_AWAY;
	target->n_here += state != OPEN_AWAY;
	target->states[p] = (uint8_t)state;
}

void dfi__open_target_learn(struct keyed_target *target)
{
	const struct open_seats *seats = target->seats;
	const struct open_table *table = &target->tables->newest;
	uint32_t p, own = seats->own_seat;
	size_t bits = sizeof(uint64_t) * open_bits_words(table->n_partitions);
	bool all;

	if (!seats->begun || seats->evicted ||
	    table->incarnations[own] != seats->own_incarnation)
		return;
	if (target->hand.table != table->number) {
		target->hand.table = table->number;
		memset(target->released, 0, bits);
		memset(target->taken, 0, bits);
	}
	all = has_all(target);
	for (p = 0; p < table->n_partitions; p++) {
		if (!open_table_moves(table, p))
			continue;
		if (table->owners[p] == own && !open_bit(target->taken, p) &&
		    target->states[p] == OPEN_AWAY &&
		    dfi__open_is_released(target->tables, seats, p)) {
			target->gained[p] = table->number;
			target->epochs[p] = table->epoch;
			set_state(target, p, OPEN_GAINING);
		}
		if (table->from[p] == own && all &&
		    target->states[p] == OPEN_HELD)
			set_state(target, p, OPEN_GOING);
	}
}

bool dfi__open_target_event(
    struct keyed_target *target, uint32_t *partition, bool *leaves)
{
	uint32_t p;

	if (!target->n_due)
		return false;
	for (p = 0; target->states[p] != OPEN_GAINING &&
	     target->states[p] != OPEN_GOING;
	     p++)
		;
	*partition = p;
	*leaves = target->states[p] == OPEN_GOING;
	set_state(target, p, *leaves ? OPEN_LEAVING : OPEN_GAINED);
	return true;
}

static void set_bit(uint64_t *bits, uint32_t p)
{
	bits[p / 64] |= UINT64_C(1) << p % 64;
}

bool dfi__open_target_take(struct keyed_target *target, uint32_t partition)
{
	if (target->states[partition] != OPEN_GAINED)
		return false;
	set_state(target, partition, OPEN_HELD);
	set_bit(target->taken, partition);
	target->hand_changed = true;
	return true;
}

bool dfi__open_target_release(struct keyed_target *target, uint32_t partition)
{
	if (target->states[partition] != OPEN_LEAVING)
		return false;
	set_state(target, partition, OPEN_AWAY);
	set_bit(target->released, partition);
	target->hand_changed = true;
	return true;
}

bool dfi__open_target_hand(
    struct keyed_target *target, const struct open_hand **hand)
{
	bool changed = target->hand_changed;

	target->hand_changed = false;
	*hand = &target->hand;
	return changed;
}

bool dfi__open_target_has_left(const struct keyed_target *target)
{
	const struct open_seats *seats = target->seats;
	const struct open_table *table = &target->tables->newest;
	uint32_t p;

	if (target->n_here || !seats->begun ||
	    open_seat_stays(seats, seats->own_seat))
		return false;
	for (p = 0; table->number && p < table->n_partitions; p++)
		if (table->owners[p] == seats->own_seat &&
		    table->incarnations[seats->own_seat] ==
			seats->own_incarnation)
			return false;
	return true;
}
