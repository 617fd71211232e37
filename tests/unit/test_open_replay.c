/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of an open flow with replay learns that another holds the seat of
 * its target, whose ring shows nothing: what is in that ring waits before the
 * source learns who owns the partitions now, so it goes before newer tuples (R2
 * of docs/open-flows.md).
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/open_flow.h>
#include <dfi/schema.h>

#include "fake_transport.h"
#include "flows/kinds/open/keyed.h"

enum {
	TARGETS = 2,
	PARTITIONS = 4,
	SEGMENT = 4, /* tuples */
	OLD = 21,    /* incarnations of seat 0 */
	NEW = 22,
};

struct kv {
	uint64_t key, val;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct kv, key),
	DFI_FIELD(struct kv, val),
};
static struct dfi_schema schema = DFI_SCHEMA(struct kv, fields);

/* The source, its pair with target 0, and what it knows of the flow. */
static struct {
	struct writer lane;
	struct open_source open;
	struct open_seat seats[1 + TARGETS];
	struct seat_pairs of[TARGETS];
	struct open_tables tables;
	struct dfi_source *ends[TARGETS];
	struct pair *taken[TARGETS];
	struct peer peer;
	struct fake_ring ring;
	void *memory;
} rig;

static struct dfi_source *source, *end;

static void hold_seat(uint64_t incarnation, uint64_t revision)
{
	struct open_holder holder = { .incarnation = incarnation };
	struct open_events events;

	dfi__open_seats_put(&rig.open.pairs.seats.seats, OPEN_TARGET, 0,
	    &holder, revision, &events);
}

static void init_flow(struct flow *flow)
{
	flow->kind = DFI_SHUFFLE;
	flow->membership = DFI_MEMBERS_OPEN;
	flow->on_loss = DFI_ON_LOSS_REPLAY;
	flow->schema = &schema;
	flow->n_sources = 1;
	flow->n_targets = TARGETS;
	flow->partitions = PARTITIONS;
	flow->n_keys = 1;
	flow->input_position = 2;
	flow->segment_size = SEGMENT * sizeof(struct kv);
	flow->segment_count = 8;
}

static void init_seats(struct seat_watch *seats)
{
	pthread_mutex_init(&seats->lock, NULL);
	pthread_cond_init(&seats->changed, NULL);
	seats->role = OPEN_SOURCE;
	seats->other = OPEN_TARGET;
	seats->n_others = TARGETS;
	seats->flow = &source->flow;
	seats->tables = &rig.tables;
	rig.memory = malloc(dfi__open_tables_size(PARTITIONS, TARGETS));
	dfi__open_tables_init(&rig.tables, PARTITIONS, TARGETS, rig.memory);
	dfi__open_seats_init(&seats->seats, 1, TARGETS, rig.seats);
	dfi__open_seats_set_own(&seats->seats, OPEN_SOURCE, 0, 11);
}

static void init_end(void)
{
	struct pair *pair = &rig.of[0].pair[0];

	fake_ring_start_with(&rig.ring,
	    ring_geometry_with(sizeof(struct kv), SEGMENT * sizeof(struct kv),
		8, SEGMENT_TABLES | SEGMENT_INPUTS, FOOTER_BEHIND),
	    0, true);
	end->writers = end->rings = &rig.ring.writer;
	end->head.lanes = &end->head.only;
	end->targets.peer = &rig.peer;
	pthread_mutex_init(&end->targets.lock, NULL);
	*pair = (struct pair){
		.state = PAIR_TAKEN, .incarnation = OLD, .end = end
	};
	rig.ends[0] = end;
	rig.taken[0] = pair;
}

static void setup(void)
{
	memset(&rig, 0, sizeof(rig));
	source = calloc(1, sizeof(*source));
	end = calloc(1, sizeof(*end));
	cr_assert(source && end);
	init_flow(&source->flow);
	source->head.tuple_size = sizeof(struct kv);
	source->writers = source->rings = &rig.lane;
	source->n_lanes = 1;
	source->state = &rig.open;
	dfi__router_init(&source->router, &source->flow, 0);
	rig.open.source = source;
	rig.open.routed = true;
	rig.open.ends = rig.ends;
	rig.open.taken = rig.taken;
	rig.open.n_ends = 1;
	rig.open.pairs.of = rig.of;
	init_seats(&rig.open.pairs.seats);
	hold_seat(OLD, 1);
	init_end();
	cr_assert_eq(dfi__keyed_new(source), 0);
	dfi__keyed_start(&rig.open);
}

static void teardown(void)
{
	dfi__keyed_free(rig.open.keyed);
	fake_ring_stop(&rig.ring);
	free(rig.memory);
	free(source);
	free(end);
}

TestSuite(open_replay, .init = setup, .fini = teardown);

/* Send two tuples in a segment of their own. */
static void send_two(uint64_t position)
{
	struct kv *tuples;

	cr_assert_eq(writer_open(&rig.ring.writer), 1);
	tuples = (struct kv *)(void *)rig.ring.writer.segment;
	tuples[0] = (struct kv){ position, position };
	tuples[1] = (struct kv){ position + 1, position + 1 };
	cr_assert_geq(
	    dfi__writer_publish(&rig.ring.writer, 2 * sizeof(*tuples)), 0);
}

static void lock(void)
{
	cr_assert_eq(dfi__open_lock(source), 0);
	pthread_mutex_unlock(&rig.open.pairs.seats.lock);
}

Test(open_replay, the_holder_of_a_seat_is_not_taken_back)
{
	send_two(1);
	lock();
	cr_assert_eq(rig.ends[0], end);
	cr_assert_eq(rig.open.keyed->held.n, 0);
}

Test(open_replay, of_a_seat_with_a_new_holder_all_waits_before_news_are_learnt)
{
	const struct held *held;
	uint64_t last, n = 0;
	const struct kv *kv;
	uint32_t p, slot;

	send_two(1);
	send_two(3);
	/* No helper has seen it, and the old one may be stopped. */
	hold_seat(NEW, 2);
	lock();
	cr_assert_null(rig.ends[0]);
	held = &rig.open.keyed->held;
	cr_assert_eq(held->n, 4);
	for (p = 0; p < PARTITIONS; p++)
		for (last = 0, slot = held->first[p]; slot != HELD_NONE;
		     slot = held->behind[slot], n++) {
			kv = (const struct kv *)(const void *)held->tuples +
			    slot;
			cr_assert_gt(kv->val, last);
			last = kv->val;
		}
	cr_assert_eq(n, 4);
}

Test(open_replay, so_does_what_was_in_the_ring_of_one_who_is_gone)
{
	struct open_events events;

	send_two(1);
	dfi__open_seats_delete(
	    &rig.open.pairs.seats.seats, OPEN_TARGET, 0, &events);
	lock();
	cr_assert_null(rig.ends[0]);
	cr_assert_eq(rig.open.keyed->held.n, 2);
}

/*
 * Its last mark is older than the source's: the helper took the pair while the
 * owner marked.
 */
Test(open_replay, a_mark_comes_behind_tuples_that_a_new_ring_has_begun)
{
	struct kv *tuples;
	const char *payload;
	uint64_t bytes;

	cr_assert_eq(writer_open(&rig.ring.writer), 1);
	tuples = (struct kv *)(void *)rig.ring.writer.segment;
	tuples[0] = (struct kv){ 1, 1 };
	end->head.only.next = (char *)(tuples + 1);
	source->marked = 7;
	cr_assert_eq(dfi__open_mark_end(source, 0), 1);
	cr_assert(reader_ready(&rig.ring.reader));
	cr_assert_eq(reader_take(&rig.ring.reader, &payload, &bytes), 0);
	cr_assert_eq(bytes, sizeof(*tuples));
	cr_assert_eq(((const struct kv *)(const void *)payload)->val, 1);
	cr_assert(reader_ready(&rig.ring.reader));
	cr_assert_eq(reader_take(&rig.ring.reader, &payload, &bytes), 0);
	cr_assert_eq(bytes, 0);
	cr_assert_eq(rig.ring.reader.marked, 7);
}

/* ---- A backlog -------------------------------------------------------------
 */

#define BACKLOG 20000u

/* Give back what is in the ring. Returns the tuples, whose positions rise. */
static uint32_t consume(uint64_t last[PARTITIONS])
{
	const struct kv *kv;
	const char *payload;
	uint64_t bytes;
	uint32_t n = 0, p;

	while (reader_ready(&rig.ring.reader)) {
		cr_assert_eq(
		    reader_take(&rig.ring.reader, &payload, &bytes), 0);
		kv = (const struct kv *)(const void *)payload;
		for (; bytes; bytes -= sizeof(*kv), kv++, n++) {
			p = dfi__route(&source->router, kv);
			cr_assert_gt(kv->val, last[p]);
			last[p] = kv->val;
		}
		cr_assert_eq(reader_release(&rig.ring.reader), 0);
	}
	cr_assert_eq(dfi__reader_return(&rig.ring.reader), 0);
	return n;
}

/* Not by all that wait, each time that a ring has room. */
Test(open_replay, what_waits_is_looked_at_once_for_each_tuple_that_is_sent)
{
	struct keyed *keyed = rig.open.keyed;
	uint64_t last[PARTITIONS] = { 0 };
	uint32_t i, sent = 0, rounds = 0, p;
	struct kv kv;

	for (i = BACKLOG; i; i--) {
		kv = (struct kv){ i, i };
		cr_assert(dfi__keyed_hold_first(source, 0, &kv));
	}
	/* Nobody has the last partition. */
	for (p = 0; p < PARTITIONS - 1; p++)
		keyed->state.owners[p] = 0;
	keyed->incarnations[0] = OLD;
	for (i = 1; i; rounds++) {
		dfi__keyed_send_held(source);
		i = consume(last);
		sent += i;
	}
	cr_assert_eq(keyed->held.n, BACKLOG - sent);
	cr_assert_gt(sent, BACKLOG / 2);
	cr_assert_gt(rounds, BACKLOG / (SEGMENT * 8) / 2);
	cr_assert_lt(keyed->held.n_looks, sent + rounds * (PARTITIONS + 1));
	keyed->state.owners[PARTITIONS - 1] = 0;
	for (i = 1; i;) {
		dfi__keyed_send_held(source);
		i = consume(last);
		sent += i;
	}
	cr_assert_eq(sent, BACKLOG);
	cr_assert_eq(keyed->held.n, 0);
}
