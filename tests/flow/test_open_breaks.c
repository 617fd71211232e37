/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that break while both members live, in open flows over libfabric:
 * nobody waits for ever, and nothing is lost unsaid. The test shuts down the
 * TCP connections of one pair.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "flow_help.h"

#define SEATS 2
#define SEGMENT 4u /* tuples */
#define RING 16u   /* segments */
#define PARTITIONS 16u
#define MOST 4096u /* tuples of a test */
#define FILES 1024

static struct rig rig;

/* A target, and what it has had. */
static struct taker {
	struct dfi_target *target;
	uint32_t n, n_lost; /* tuples; events */
	int err;            /* that it has ended with */
	bool is_over;
	uint8_t got[MOST]; /* by number */
} takers[SEATS];

static struct dfi_source *source;
static uint64_t pushed; /* all numbers below, but 0 */
static bool replays;
static char why[512]; /* the last push has failed */

static void setup(void)
{
	setenv("DFI_TRANSPORT", "ofi", 1);
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(open_breaks, .init = setup, .fini = teardown, .timeout = 300);

/* ---- Connections -------------------------------------------------------- */

static bool is_tcp(int fd)
{
	struct sockaddr_storage address;
	socklen_t size = sizeof(address);

	return !getpeername(fd, (struct sockaddr *)&address, &size) &&
	    (address.ss_family == AF_INET || address.ss_family == AF_INET6);
}

/* The descriptors of TCP connections: which[fd]. */
static void list_connections(bool *which)
{
	int fd;

	for (fd = 0; fd < FILES; fd++)
		which[fd] = is_tcp(fd);
}

/* Break all connections that are not in before. */
static void break_new(const bool *before)
{
	uint32_t n = 0;
	int fd;

	for (fd = 0; fd < FILES; fd++)
		if (!before[fd] && is_tcp(fd))
			n += shutdown(fd, SHUT_RDWR) == 0;
	cr_assert_gt(n, 0, "there is no connection to break");
}

/* ---- Members ------------------------------------------------------------ */

static struct dfi_flow_attr flow_attr(
    uint32_t kind, uint32_t routing, uint32_t on_loss)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = kind,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.routing = routing,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open = { .membership = DFI_MEMBERS_OPEN, .on_loss = on_loss },
	};
}

static void create(const struct dfi_flow_attr *attr)
{
	memset(takers, 0, sizeof(takers));
	/* Input positions begin with 1. */
	pushed = 1;
	replays = attr->open.on_loss == DFI_ON_LOSS_REPLAY;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static void open_taker(uint32_t seat)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	attr.flags = DFI_EVENTS | DFI_NONBLOCK;
	takers[seat].is_over = false;
	cr_assert_eq(
	    dfi_target_open(rig.other, "f", seat, &attr, &takers[seat].target),
	    0, "%s", dfi_errmsg());
}

static void close_taker(uint32_t seat, int err)
{
	cr_assert_eq(dfi_target_close(takers[seat].target), err);
	takers[seat].target = NULL;
}

static void open_it(void)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;

	attr.flags = DFI_EVENTS | DFI_NONBLOCK;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &attr, &source), 0, "%s",
	    dfi_errmsg());
}

static void take_event(struct taker *taker)
{
	struct dfi_event event;

	cr_assert_eq(
	    dfi_target_event(taker->target, &event), 0, "%s", dfi_errmsg());
	taker->n_lost += event.type == DFI_LOST;
	if (event.type == DFI_LEAVING)
		cr_assert_eq(
		    dfi_partition_release(taker->target, event.partition), 0,
		    "%s", dfi_errmsg());
	if (event.type == DFI_GAINED && replays)
		cr_assert_eq(
		    dfi_partition_take(taker->target, event.partition, NULL, 0),
		    0, "%s", dfi_errmsg());
}

/* Consume what is there. */
static void serve(struct taker *taker)
{
	const struct kv *kv;
	const void *tuple;
	int ret = 0;

	while (taker->target && !taker->is_over) {
		ret = dfi_target_consume(taker->target, &tuple);
		/* With replay it has to acknowledge first. */
		if (ret == -EAGAIN || ret == -ENOBUFS)
			break;
		if (ret == -ENOMSG) {
			take_event(taker);
			continue;
		}
		taker->is_over = ret <= 0;
		taker->err = ret;
		if (ret <= 0)
			break;
		kv = tuple;
		cr_assert_lt(kv->val, MOST);
		taker->got[kv->val]++;
		taker->n++;
	}
	if (replays && taker->target && !taker->is_over)
		cr_assert_eq(
		    dfi_target_ack(taker->target), 0, "%s", dfi_errmsg());
}

static void serve_all(void)
{
	uint32_t i;

	for (i = 0; i < SEATS; i++)
		serve(&takers[i]);
	yield_times(1);
}

/* Push the next number, to one of the seats: 0, or what keeps it. */
static int push_next(bool names_seats)
{
	int64_t until = now_ms() + LONG_MS;
	struct kv kv = numbered_kv(pushed);
	int ret;

	cr_assert_lt(pushed, MOST);
	do {
		ret = names_seats
		    ? dfi_source_push_to(source, pushed % SEATS, &kv)
		    : dfi_source_push(source, &kv);
		snprintf(why, sizeof(why), "%s", dfi_errmsg());
		serve_all();
		cr_assert_lt(now_ms(), until, "number %lu waits: %s",
		    (unsigned long)pushed, why);
	} while (ret == -EAGAIN);
	pushed += ret == 0;
	return ret;
}

/* The source has to say one of these of seat 1. */
static void expect_of_last(uint32_t type, uint32_t other)
{
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event = { .type = 0 };

	do {
		(void)dfi_source_event(source, &event);
		serve_all();
		cr_assert_lt(now_ms(), until, "the source hears nothing");
	} while (
	    event.seat != 1 || (event.type != type && event.type != other));
}

/* A flow with both targets, whose rings are used; then the last one breaks. */
static void start_and_break(const struct dfi_flow_attr *attr)
{
	bool names_seats = attr->kind == DFI_SHUFFLE &&
	    attr->routing == DFI_ROUTE_DIRECT;
	bool before[FILES];
	int ret;

	create(attr);
	open_taker(0);
	open_it();
	while (!takers[0].n)
		if ((ret = push_next(names_seats)) == -ENXIO)
			pushed++;
		else
			cr_assert_eq(ret, 0, "%s", why);
	list_connections(before);
	open_taker(1);
	expect_of_last(DFI_JOINED, DFI_JOINED);
	while (!takers[1].n)
		if ((ret = push_next(names_seats)) == -ENXIO)
			pushed++;
		else
			cr_assert_eq(ret, 0, "%s", why);
	break_new(before);
}

struct closer {
	pthread_t thread;
	_Atomic bool done;
	int ret;
};

static void *close_it(void *arg)
{
	struct closer *closer = arg;

	closer->ret = dfi_source_close(source);
	closer->done = true;
	return NULL;
}

/* Close the source while its targets are served. */
static int close_source(void)
{
	struct closer closer = { .done = false };

	cr_assert_eq(
	    pthread_create(&closer.thread, NULL, close_it, &closer), 0);
	while (!closer.done)
		serve_all();
	cr_assert_eq(pthread_join(closer.thread, NULL), 0);
	return closer.ret;
}

static void await_over(uint32_t seat, int err)
{
	int64_t until = now_ms() + LONG_MS;

	while (!takers[seat].is_over) {
		serve_all();
		cr_assert_lt(now_ms(), until, "target %u goes on", seat);
	}
	cr_assert_eq(
	    takers[seat].err, err, "target %u: %d", seat, takers[seat].err);
}

static void finish(void)
{
	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
}

/* ---- With DFI_ON_LOSS_DROP ----------------------------------------------- */

/* Each tuple is at one target, or was dropped and counted. */
static void expect_counted(uint64_t dropped)
{
	uint64_t i, missing = 0;
	uint32_t n;

	for (i = 1; i < pushed; i++) {
		n = takers[0].got[i] + takers[1].got[i];
		cr_assert_leq(n, 1, "%lu came twice", (unsigned long)i);
		missing += !n;
	}
	cr_assert_leq(missing, dropped, "%lu are missing, %lu were dropped",
	    (unsigned long)missing, (unsigned long)dropped);
}

static void drop(uint32_t routing)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_SHUFFLE, routing, DFI_ON_LOSS_DROP);
	uint64_t dropped = 0;
	uint32_t i;

	if (routing == DFI_ROUTE_HASH)
		attr.open.partitions = PARTITIONS;
	start_and_break(&attr);
	for (i = 0; i < 1000; i++)
		cr_assert_eq(push_next(false), 0, "%s", why);
	expect_of_last(DFI_LOST, DFI_EVICTED);
	await_over(1, -ESTALE);
	cr_assert_eq(dfi_source_dropped(source, &dropped), 0);
	finish();
	cr_assert_eq(close_source(), 0, "%s", dfi_errmsg());
	await_over(0, 0);
	expect_counted(dropped);
	close_taker(0, 0);
	close_taker(1, -ESTALE);
}

Test(open_breaks, drop_and_count_what_any_target_was_to_get)
{
	drop(DFI_ROUTE_ANY);
}

Test(open_breaks, drop_and_count_what_targets_in_turn_were_to_get)
{
	drop(DFI_ROUTE_ROUND_ROBIN);
}

Test(open_breaks, give_the_partitions_to_others)
{
	drop(DFI_ROUTE_HASH);
}

/* A push to the seat finds nobody, and then who has opened it again. */
Test(open_breaks, free_the_seat_for_the_next)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_SHUFFLE, DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	uint64_t dropped = 0;
	uint32_t n;

	start_and_break(&attr);
	while (!takers[1].is_over)
		if (push_next(true) == -ENXIO)
			pushed++;
	await_over(1, -ESTALE);
	close_taker(1, -ESTALE);
	open_taker(1);
	for (n = takers[1].n; takers[1].n == n;) {
		pushed |= 1;
		if (push_next(true) == -ENXIO)
			pushed++;
	}
	finish();
	cr_assert_eq(dfi_source_dropped(source, &dropped), 0);
	cr_assert_eq(close_source(), 0, "%s", dfi_errmsg());
	await_over(0, 0);
	await_over(1, 0);
	close_taker(0, 0);
	close_taker(1, 0);
}

/* Its owner makes no calls: the helper moves the partitions. */
Test(open_breaks, need_no_call_of_an_idle_source)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_SHUFFLE, DFI_ROUTE_HASH, DFI_ON_LOSS_DROP);

	attr.open.partitions = PARTITIONS;
	start_and_break(&attr);
	await_over(1, -ESTALE);
	finish();
	cr_assert_eq(close_source(), 0, "%s", dfi_errmsg());
	await_over(0, 0);
	close_taker(0, 0);
	close_taker(1, -ESTALE);
}

static void expect_once(uint32_t taker, uint64_t number)
{
	cr_assert_eq(takers[taker].got[number], 1,
	    "target %u: number %lu of %lu came %u times", taker,
	    (unsigned long)number, (unsigned long)pushed,
	    (unsigned)takers[taker].got[number]);
}

/* The others get all, and so does who opens again, from then on. */
static void replicate(uint32_t ordered)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_REPLICATE, 0, DFI_ON_LOSS_DROP);
	uint64_t i;

	attr.replicate.method = DFI_REPLICATION_NAIVE;
	attr.replicate.ordered = ordered;
	start_and_break(&attr);
	for (i = 0; i < 1000; i++)
		cr_assert_eq(push_next(false), 0, "%s", why);
	await_over(1, -ESTALE);
	close_taker(1, -ESTALE);
	memset(takers[1].got, 0, sizeof(takers[1].got));
	open_taker(1);
	expect_of_last(DFI_JOINED, DFI_JOINED);
	i = pushed + 2 * SEGMENT;
	while (pushed < i + 100)
		cr_assert_eq(push_next(false), 0, "%s", why);
	finish();
	cr_assert_eq(close_source(), 0, "%s", dfi_errmsg());
	await_over(0, 0);
	await_over(1, 0);
	while (i < pushed)
		expect_once(1, i++);
	for (i = 1; i < pushed; i++)
		expect_once(0, i);
	close_taker(0, 0);
	close_taker(1, 0);
}

Test(open_breaks, put_a_follower_out)
{
	replicate(0);
}

/*
 * Disabled, as it fails in one of some hundred runs on a busy machine: see
 * docs/open-flows.md, "What a user should know" of a connection that breaks.
 */
Test(open_breaks, put_a_follower_out_of_an_order, .disabled = true)
{
	replicate(1);
}

/* ---- With DFI_ON_LOSS_REPLAY --------------------------------------------- */

static void replay(uint32_t routing)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_SHUFFLE, routing, DFI_ON_LOSS_REPLAY);
	uint64_t i;

	attr.open.input_position = "val";
	if (routing == DFI_ROUTE_HASH)
		attr.open.partitions = PARTITIONS;
	start_and_break(&attr);
	for (i = 0; i < 1000; i++)
		cr_assert_eq(push_next(false), 0, "%s", why);
	await_over(1, -ESTALE);
	cr_assert_eq(close_source(), 0, "%s", dfi_errmsg());
	finish();
	await_over(0, 0);
	for (i = 1; i < pushed; i++)
		cr_assert_geq(takers[0].got[i] + takers[1].got[i], 1,
		    "%lu is missing", (unsigned long)i);
	close_taker(0, 0);
	close_taker(1, -ESTALE);
}

Test(open_breaks, send_again_to_the_next_owners)
{
	replay(DFI_ROUTE_HASH);
}

Test(open_breaks, send_again_to_any_target)
{
	replay(DFI_ROUTE_ANY);
}

/* ---- With DFI_ON_LOSS_FAIL ------------------------------------------------
 */

static void fail(uint32_t kind, uint32_t routing)
{
	struct dfi_flow_attr attr = flow_attr(kind, routing, DFI_ON_LOSS_FAIL);
	int ret;

	if (kind == DFI_REPLICATE)
		attr.replicate.method = DFI_REPLICATION_NAIVE;
	start_and_break(&attr);
	while (!(ret = push_next(false)))
		;
	cr_assert_eq(ret, -ECONNRESET, "%s", why);
	cr_assert_not_null(strstr(why, "target 1"), "%s", why);
	await_over(1, -ECONNRESET);
	cr_assert_eq(close_source(), -ECONNRESET);
	/* Their source has given up. */
	await_over(0, -ECANCELED);
	close_taker(0, -ECANCELED);
	close_taker(1, -ECONNRESET);
}

Test(open_breaks, fail_both_if_the_flow_says_so)
{
	fail(DFI_SHUFFLE, DFI_ROUTE_ANY);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	fail(DFI_SHUFFLE, DFI_ROUTE_HASH);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	fail(DFI_REPLICATE, 0);
}

/* The targets of a combiner flow stay, so the source fails; they go on. */
Test(open_breaks, fail_the_source_of_a_combiner_flow)
{
	static const struct dfi_aggregate aggregates[] = {
		{ .function = DFI_SUM, .field = "val", .name = "val" },
	};
	struct dfi_flow_attr attr = flow_attr(DFI_COMBINE, 0, DFI_ON_LOSS_DROP);
	uint32_t flags, i;
	bool before[FILES];
	int ret;

	attr.combine.aggregates = aggregates;
	attr.combine.n_aggregates = N_ELEMENTS(aggregates);
	attr.combine.group_by = "key";
	attr.combine.window_tuples = DFI_WINDOW_MARKED;
	create(&attr);
	open_taker(0);
	open_taker(1);
	list_connections(before);
	open_it();
	for (i = 0; i < 100; i++)
		cr_assert_eq(push_next(false), 0, "%s", why);
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
	break_new(before);
	while (!(ret = push_next(false)))
		;
	cr_assert_eq(ret, -ECONNRESET, "%s", why);
	cr_assert_eq(close_source(), -ECONNRESET);
	while (!takers[0].n_lost || !takers[1].n_lost)
		serve_all();
	finish();
	for (i = 0; i < SEATS; i++) {
		await_over(i, 0);
		cr_assert_eq(dfi_target_window_flags(takers[i].target, &flags),
		    0, "%s", dfi_errmsg());
		cr_assert_eq(flags, DFI_WINDOW_LOST);
		close_taker(i, 0);
	}
}
