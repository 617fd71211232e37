/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open flows whose endpoints are killed, stopped, or come back. The other
 * processes run worker.c.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "in_time.h"
#include "spawn.h"
#include "worker.h"

#define FLOW "flow"
#define LONG_MS 60000u
#define SEATS 4
#define SEGMENT 20 /* tuples */
#define HELD 107   /* tuples of a child that waits for orders */

static struct child server;
static char address[sizeof(server.line)];
static struct dfi *dfi;

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	in_time_start();
	if (access(DFI_BIN_DIR "/dfi-registry", X_OK) < 0)
		cr_skip_test("dfi-registry is not built");
	child_spawn_registry(&server, NULL);
	snprintf(address, sizeof(address), "%s", server.line);
	attr.registry = address;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	child_signal(&server, SIGKILL);
	child_wait(&server);
}

TestSuite(open, .init = setup, .fini = teardown, .timeout = 300);

static void create_flow(uint32_t routing, uint32_t on_loss)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &worker_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.routing = routing,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct worker_tuple),
		.segment_count = 8,
		.open = { .membership = DFI_MEMBERS_OPEN, .on_loss = on_loss },
	};

	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

static struct dfi_target *open_target(uint32_t seat)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(dfi, FLOW, seat, &attr, &target), 0, "%s",
	    dfi_errmsg());
	return target;
}

static struct dfi_source *open_source(uint32_t seat)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(dfi, FLOW, seat, &attr, &source), 0, "%s",
	    dfi_errmsg());
	return source;
}

/* Start a source or target in a process that waits for orders. */
static void spawn_held(struct child *child, const char *end, const char *held)
{
	child_spawn(child, DFI_WORKER, "-r", address, "-f", FLOW, "-n", "200",
	    "-p", "107", end, NULL);
	if (held)
		child_expect(child, held);
}

static void kill_child(struct child *child)
{
	child_signal(child, SIGKILL);
	cr_assert_eq(child_wait(child), 128 + SIGKILL);
}

/* Consume n tuples of a source, numbered from first on. */
static void expect_tuples(
    struct dfi_target *target, uint32_t source, uint32_t first, uint32_t n)
{
	const struct worker_tuple *got;
	struct worker_tuple tuple;
	const void *at;
	uint32_t i;

	for (i = first; i < first + n; i++) {
		cr_assert_eq(dfi_target_consume(target, &at), 1, "%u: %s", i,
		    dfi_errmsg());
		got = at;
		worker_make_tuple(source, i, &tuple);
		cr_assert_eq(got->number, tuple.number);
		cr_assert_eq(got->source, source);
		cr_assert_eq(got->key, tuple.key);
	}
}

static void finish(struct dfi_target *target)
{
	const void *at;

	cr_assert_eq(dfi_flow_finish(dfi, FLOW), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_consume(target, &at), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
}

Test(open, what_a_killed_source_had_sent_is_consumed)
{
	struct dfi_target *target;
	struct child source;

	create_flow(DFI_ROUTE_ANY, DFI_ON_LOSS_DROP);
	target = open_target(0);
	spawn_held(&source, "source:1", "source 1 held 107");
	kill_child(&source);
	/* The worker flushes before it waits. */
	expect_tuples(target, 1, 0, HELD);
	/* The seat is free for another, whose tuples are its own. */
	spawn_held(&source, "source:1", "source 1 held 107");
	child_order(&source, 'c');
	expect_tuples(target, 1, 0, 200);
	cr_assert_eq(child_wait(&source), 0);
	finish(target);
}

Test(open, a_killed_source_fails_its_targets_if_the_flow_says_so)
{
	struct dfi_target *target;
	struct child source;
	const void *at;

	create_flow(DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	target = open_target(0);
	spawn_held(&source, "source:2", "source 2 held 107");
	kill_child(&source);
	expect_tuples(target, 2, 0, HELD);
	cr_assert_eq(dfi_target_consume(target, &at), -ECONNRESET);
	cr_assert_not_null(
	    strstr(dfi_errmsg(), "source 2"), "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
}

/* Push until the source knows that the target is gone. */
static int push_until_lost(struct dfi_source *source, uint32_t seat)
{
	struct worker_tuple tuple;
	uint32_t i = 0;
	int ret;

	do {
		worker_make_tuple(0, i++, &tuple);
		ret = dfi_source_push_to(source, seat, &tuple);
	} while (!ret);
	return ret;
}

Test(open, a_killed_target_harms_no_source)
{
	struct worker_tuple tuple;
	struct dfi_source *source;
	struct dfi_target *other;
	struct child target;
	uint64_t dropped;
	uint32_t i;
	int ret;

	create_flow(DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	other = open_target(3);
	source = open_source(0);
	spawn_held(&target, "target:1", NULL);
	for (i = 0; i < HELD; i++) {
		worker_make_tuple(0, i, &tuple);
		while ((ret = dfi_source_push_to(source, 1, &tuple)) == -ENXIO)
			usleep(1000);
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_source_flush(source), 0);
	child_expect(&target, "target 1 held 107");
	kill_child(&target);
	/* This blocks in the full ring, and the death ends that. */
	cr_assert_eq(push_until_lost(source, 1), -ENXIO, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_dropped(source, &dropped), 0);
	cr_assert_gt(dropped, 0);
	for (i = 0; i < 3; i++) {
		worker_make_tuple(0, i, &tuple);
		cr_assert_eq(dfi_source_push_to(source, 3, &tuple), 0);
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_tuples(other, 0, 0, 3);
	finish(other);
}

Test(open, a_killed_target_fails_its_sources_if_the_flow_says_so)
{
	struct dfi_source *source;
	struct child target;

	create_flow(DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	spawn_held(&target, "target:1", NULL);
	source = open_source(0);
	kill_child(&target);
	cr_assert_eq(push_until_lost(source, 1), -ECONNRESET);
	cr_assert_not_null(
	    strstr(dfi_errmsg(), "target 1"), "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
}

Test(open, a_stopped_source_holds_up_nobody)
{
	struct dfi_source *source;
	struct dfi_target *target;
	struct child stopped;
	uint32_t i;

	create_flow(DFI_ROUTE_ANY, DFI_ON_LOSS_DROP);
	target = open_target(0);
	spawn_held(&stopped, "source:1", "source 1 held 107");
	expect_tuples(target, 1, 0, HELD);
	child_signal(&stopped, SIGSTOP);
	source = open_source(0);
	for (i = 0; i < 50; i++) {
		struct worker_tuple tuple;

		worker_make_tuple(0, i, &tuple);
		cr_assert_eq(
		    dfi_source_push(source, &tuple), 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_tuples(target, 0, 0, 50);
	child_signal(&stopped, SIGCONT);
	child_order(&stopped, 'c');
	expect_tuples(target, 1, HELD, 200 - HELD);
	cr_assert_eq(child_wait(&stopped), 0);
	finish(target);
}

Test(open, a_stopped_target_holds_up_no_other)
{
	struct worker_tuple tuple;
	struct dfi_source *source;
	struct dfi_target *other;
	struct child stopped;
	uint32_t i;

	create_flow(DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	spawn_held(&stopped, "target:1", NULL);
	source = open_source(0);
	child_signal(&stopped, SIGSTOP);
	other = open_target(3);
	for (i = 0; i < 1000; i++) {
		worker_make_tuple(0, i, &tuple);
		while (dfi_source_push_to(source, 3, &tuple) == -ENXIO)
			usleep(1000);
		cr_assert_eq(dfi_source_flush(source), 0);
		expect_tuples(other, 0, i, 1);
	}
	kill_child(&stopped);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	finish(other);
}

/* Consume all: how many tuples each stay in a seat has, which begin at 0. */
static uint32_t count_stays(
    struct dfi_target *target, uint32_t source, uint32_t *counts, uint32_t room)
{
	struct worker_tuple tuple;
	struct dfi_event event;
	uint32_t n = 0;
	const void *at;
	int ret;

	while ((ret = dfi_target_consume(target, &at)) != 0) {
		if (ret == -ENOMSG) {
			cr_assert_eq(dfi_target_event(target, &event), 0);
			if (event.type == DFI_JOINED)
				cr_assert_lt(n++, room);
			continue;
		}
		cr_assert_eq(ret, 1, "%s", dfi_errmsg());
		worker_make_tuple(source, counts[n - 1]++, &tuple);
		cr_assert_eq(memcmp(at, &tuple, sizeof(tuple)), 0);
	}
	return n;
}

/*
 * A source that is stopped for longer than its lease loses its seat. What it
 * sends when it wakes up is never taken for the next holder's.
 */
Test(open, a_source_that_wakes_up_too_late_is_not_the_next_one)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_source *source = NULL;
	struct worker_tuple tuple;
	struct dfi_target *target;
	uint32_t counts[4] = { 0 }, i;
	struct child late;
	int ret;

	create_flow(DFI_ROUTE_ANY, DFI_ON_LOSS_DROP);
	attr.flags = DFI_EVENTS;
	cr_assert_eq(dfi_target_open(dfi, FLOW, 0, &attr, &target), 0);
	child_spawn(&late, DFI_WORKER, "-r", address, "-f", FLOW, "-n", "150",
	    "-p", "107", "-l", "300", "source:1", NULL);
	child_expect(&late, "source 1 held 107");
	child_signal(&late, SIGSTOP);
	while ((ret = dfi_source_open(dfi, FLOW, 1, NULL, &source)) == -EEXIST)
		usleep(10000);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	child_signal(&late, SIGCONT);
	child_order(&late, 'c');
	child_expect(&late, "source 1 ended ");
	cr_assert_eq(child_wait(&late), 0);
	for (i = 0; i < 50; i++) {
		worker_make_tuple(1, i, &tuple);
		cr_assert_eq(
		    dfi_source_push(source, &tuple), 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_flow_finish(dfi, FLOW), 0, "%s", dfi_errmsg());
	cr_assert_eq(count_stays(target, 1, counts, 4), 2);
	cr_assert_geq(counts[0], HELD);
	cr_assert_eq(counts[1], 50);
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
}

/* ---- Partitions ---------------------------------------------------------- */

#define PARTITIONS 64u

static void create_keyed_flow(uint32_t on_loss)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &worker_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct worker_tuple),
		.segment_count = 64,
		.open = {
			.membership = DFI_MEMBERS_OPEN,
			.on_loss = on_loss,
			.partitions = PARTITIONS,
		},
	};

	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

/* The half that the target in this process gains first. */
static bool moved[PARTITIONS];

static bool moves(const struct worker_tuple *tuple)
{
	return moved[dfi_hash64_partition(tuple->key, PARTITIONS)];
}

/* Push numbered tuples; returns how many are of partitions that move. */
static uint32_t push_numbered(
    struct dfi_source *source, uint32_t first, uint32_t n)
{
	struct worker_tuple tuple;
	uint32_t i, moving = 0;

	for (i = first; i < first + n; i++) {
		worker_make_tuple(0, i, &tuple);
		cr_assert_eq(
		    dfi_source_push(source, &tuple), 0, "%s", dfi_errmsg());
		moving += moves(&tuple);
	}
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
	return moving;
}

/* Take events until half of the partitions have come. */
static void await_gained(struct dfi_target *target, bool note)
{
	struct dfi_event event;
	uint32_t n = 0;

	while (n < PARTITIONS / 2) {
		if (dfi_target_event(target, &event) < 0 ||
		    event.type != DFI_GAINED)
			continue;
		moved[event.partition] |= note;
		n++;
	}
}

/* Consume all, in order; returns those of partitions that have moved. */
static uint32_t consume_numbered(struct dfi_target *target, uint32_t *others)
{
	const struct worker_tuple *tuple;
	uint32_t last[PARTITIONS] = { 0 }, n = 0, p;
	struct dfi_event event;
	const void *at;
	int ret;

	*others = 0;
	while ((ret = dfi_target_consume(target, &at)) != 0) {
		if (ret == -ENOMSG) {
			cr_assert_eq(dfi_target_event(target, &event), 0);
			continue;
		}
		cr_assert_eq(ret, 1, "%s", dfi_errmsg());
		tuple = at;
		p = dfi_hash64_partition(tuple->key, PARTITIONS);
		cr_assert_gt(tuple->number, last[p]);
		last[p] = tuple->number;
		n += moves(tuple);
		*others += !moves(tuple);
	}
	return n;
}

/* Until a target is attached. */
static void await_target(void)
{
	struct dfi_flow_info info;

	do
		cr_assert_eq(
		    dfi_flow_lookup(dfi, FLOW, &info), 0, "%s", dfi_errmsg());
	while (!info.attached_targets);
}

/* Once the source knows that a target with tuples is gone. */
static uint64_t await_dropped(struct dfi_source *source)
{
	uint64_t n;

	do
		cr_assert_eq(dfi_source_dropped(source, &n), 0);
	while (!n);
	return n;
}

static struct dfi_target *open_with_events(uint32_t seat)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.flags = DFI_EVENTS;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(dfi, FLOW, seat, &attr, &target), 0, "%s",
	    dfi_errmsg());
	return target;
}

Test(open, a_killed_owner_costs_its_own_tuples_only)
{
	uint32_t moving, got, others;
	struct dfi_source *source;
	struct dfi_target *other;
	struct child owner;
	uint64_t dropped;

	create_keyed_flow(DFI_ON_LOSS_DROP);
	spawn_held(&owner, "target:1", NULL);
	/* Otherwise the other one would get all, and give half of it away. */
	await_target();
	source = open_source(0);
	other = open_with_events(3);
	await_gained(other, true);
	moving = push_numbered(source, 0, 400);
	child_expect(&owner, "target 1 held 107");
	kill_child(&owner);
	dropped = await_dropped(source);
	await_gained(other, false);
	moving += push_numbered(source, 400, 200);
	cr_assert_eq(dfi_flow_finish(dfi, FLOW), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	got = consume_numbered(other, &others);
	cr_assert_eq(got, moving, "%u of %u", got, moving);
	/* The owner had taken HELD, and given some of these back. */
	cr_assert_leq(got + others + dropped, 600);
	cr_assert_geq(got + others + dropped, 600 - HELD);
	cr_assert_eq(dfi_target_close(other), 0, "%s", dfi_errmsg());
}

/* It can't release, so its death ends the wait (H7). */
Test(open, an_owner_that_dies_in_a_hand_over_ends_it)
{
	struct dfi_source *source;
	struct dfi_target *other;
	uint32_t got, others;
	struct child owner;
	uint64_t dropped;

	create_keyed_flow(DFI_ON_LOSS_DROP);
	spawn_held(&owner, "target:1", NULL);
	source = open_source(0);
	push_numbered(source, 0, 400);
	child_expect(&owner, "target 1 held 107");
	child_signal(&owner, SIGSTOP);
	other = open_with_events(3);
	/* Some go to the first owner still, and others wait. */
	push_numbered(source, 400, 200);
	kill_child(&owner);
	dropped = await_dropped(source);
	/* What was to move, and then the rest. */
	await_gained(other, false);
	await_gained(other, false);
	push_numbered(source, 600, 200);
	cr_assert_eq(dfi_flow_finish(dfi, FLOW), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	got = consume_numbered(other, &others);
	cr_assert_geq(got + others, 200);
	cr_assert_leq(got + others + dropped, 800);
	cr_assert_geq(got + others + dropped, 800 - HELD);
	cr_assert_eq(dfi_target_close(other), 0, "%s", dfi_errmsg());
}

Test(open, a_killed_owner_fails_its_sources_if_the_flow_says_so)
{
	struct worker_tuple tuple;
	struct dfi_source *source;
	struct child owner;
	uint32_t i = 0;
	int ret;

	create_keyed_flow(DFI_ON_LOSS_FAIL);
	spawn_held(&owner, "target:1", NULL);
	source = open_source(0);
	push_numbered(source, 0, 200);
	child_expect(&owner, "target 1 held 107");
	kill_child(&owner);
	do {
		worker_make_tuple(0, i++, &tuple);
		ret = dfi_source_push(source, &tuple);
	} while (!ret);
	cr_assert_eq(ret, -ECONNRESET, "%s", dfi_errmsg());
	cr_assert_not_null(
	    strstr(dfi_errmsg(), "target 1"), "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
}
