/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that share connections (dfi_source_attr.share_with). Over shared
 * memory there is nothing to share, and the same must hold.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "flow_help.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(share, .init = setup, .fini = teardown, .timeout = 300);

enum {
	MOST_FLOWS = 64,
	SEGMENT_TUPLES = 4,
	SEGMENT_COUNT = 4,
};

static struct dfi_source *sources[MOST_FLOWS];
static struct dfi_target *targets[MOST_FLOWS];
static uint64_t pushed[MOST_FLOWS], consumed[MOST_FLOWS];

static const char *flow_name(uint32_t i)
{
	static char name[16];

	snprintf(name, sizeof(name), "f%u", i);
	return name;
}

/* Open it, or return the error. */
static int try_share(struct dfi *dfi, const char *flow, struct dfi_source *with,
    uint32_t linger_us, struct dfi_source **source)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;

	attr.flags = DFI_NONBLOCK;
	attr.linger_us = linger_us;
	attr.share_with = with;
	return dfi_source_open(dfi, flow, 0, &attr, source);
}

static struct dfi_source *share(const char *flow, struct dfi_source *with)
{
	struct dfi_source *source;

	cr_assert_eq(try_share(rig.dfi, flow, with, DFI_NO_LINGER, &source), 0,
	    "%s", dfi_errmsg());
	return source;
}

static void open_flow(uint32_t i)
{
	create_kv_flow(
	    rig.dfi, flow_name(i), 1, 1, SEGMENT_TUPLES, SEGMENT_COUNT);
	targets[i] = open_target(rig.other, flow_name(i), 0, DFI_NONBLOCK);
}

/* Flows whose sources share with the first. */
static void open_flows(uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		open_flow(i);
		sources[i] = share(flow_name(i), i ? sources[0] : NULL);
	}
}

static void check_unbroken(void)
{
	cr_assert_eq(device_stats(rig.dfi).broken_connections, 0);
	cr_assert_eq(device_stats(rig.other).broken_connections, 0);
}

/* Of those that open sources use. */
static void check_connections(uint32_t n)
{
	check_unbroken();
	if (over_network())
		cr_assert_eq(device_stats(rig.dfi).connections, n);
}

static void send_on(uint32_t i, uint32_t n)
{
	struct kv kv;

	for (; n; n--) {
		kv = numbered_kv(pushed[i]++);
		cr_assert_eq(push_soon(sources[i], &kv), 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_source_flush(sources[i]), 0, "%s", dfi_errmsg());
}

static void receive_on(uint32_t i)
{
	while (consumed[i] < pushed[i])
		expect_number(targets[i], consumed[i]++);
}

/* All of some flows' tuples go through the room of one ring each. */
static void stream(uint32_t first, uint32_t n, uint32_t rounds)
{
	uint32_t i;

	for (; rounds; rounds--) {
		for (i = first; i < first + n; i++)
			send_on(i, SEGMENT_TUPLES * (SEGMENT_COUNT - 1));
		for (i = first; i < first + n; i++)
			receive_on(i);
	}
}

static void close_flow(uint32_t i)
{
	cr_assert_eq(dfi_source_close(sources[i]), 0, "%s", dfi_errmsg());
	end_target(targets[i]);
}

Test(share, one_connection_carries_many_flows)
{
	uint32_t i;

	open_flows(MOST_FLOWS);
	check_connections(1);
	stream(0, MOST_FLOWS, 4);
	for (i = 0; i < MOST_FLOWS; i++)
		close_flow(i);
	check_unbroken();
}

Test(share, sources_that_do_not_share_have_their_own)
{
	uint32_t i;

	open_flows(2);
	open_flow(2);
	sources[2] = share(flow_name(2), NULL);
	check_connections(2);
	stream(0, 3, 2);
	for (i = 0; i < 3; i++)
		close_flow(i);
}

/* More segments than a queue pair has requests pass by the full ring. */
Test(share, a_full_ring_holds_up_no_other)
{
	uint32_t i, n = 4;
	struct kv kv;
	int ret;

	open_flows(n);
	for (;;) {
		kv = numbered_kv(pushed[0]);
		ret = dfi_source_push(sources[0], &kv);
		if (ret)
			break;
		pushed[0]++;
	}
	assert_error(ret, -EAGAIN, "is full");
	stream(1, n - 1, 200);
	assert_error(dfi_source_push(sources[0], &kv), -EAGAIN, "is full");
	receive_on(0);
	cr_assert_eq(push_soon(sources[0], &kv), 0);
	pushed[0]++;
	cr_assert_eq(dfi_source_flush(sources[0]), 0);
	receive_on(0);
	for (i = 0; i < n; i++)
		close_flow(i);
	check_unbroken();
}

/* Segments wait for more, and go out behind those of another source. */
Test(share, held_segments_go_out)
{
	struct dfi_span span;
	struct kv *kv;
	uint32_t i, k;
	int ret;

	open_flows(2);
	for (k = 0; k < 100; k++) {
		while (
		    (ret = dfi_source_claim(sources[0], 0, &span)) == -EAGAIN)
			;
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
		cr_assert_eq(span.count, SEGMENT_TUPLES);
		for (kv = span.tuples, i = 0; i < span.count; i++)
			kv[i] = numbered_kv(pushed[0]++);
		cr_assert_eq(
		    dfi_source_commit_more(sources[0], &span, span.count), 0);
		send_on(1, SEGMENT_TUPLES);
		if (k % 3)
			receive_on(1);
		cr_assert_eq(dfi_source_flush(sources[0]), 0);
		receive_on(0);
		receive_on(1);
	}
	for (i = 0; i < 2; i++)
		close_flow(i);
	check_unbroken();
}

Test(share, sources_leave_in_any_order_and_others_come)
{
	uint32_t i;

	open_flows(4);
	stream(0, 4, 2);
	close_flow(0);
	close_flow(2);
	open_flow(4);
	sources[4] = share(flow_name(4), sources[3]);
	open_flow(5);
	sources[5] = share(flow_name(5), sources[4]);
	check_connections(1);
	stream(3, 3, 50);
	stream(1, 1, 2);
	close_flow(1);
	for (i = 3; i < 6; i++)
		close_flow(i);
	/* The next source takes what they have left. */
	open_flow(6);
	sources[6] = share(flow_name(6), NULL);
	stream(6, 1, 2);
	close_flow(6);
	check_unbroken();
}

/* As many segments are under way as a queue pair has requests. */
Test(share, others_come_behind_a_full_queue)
{
	enum {
		SEGMENTS = 800,
		UNDER_WAY = 550
	};
	uint32_t round, i;

	create_kv_flow(rig.dfi, flow_name(0), 1, 1, 1, SEGMENTS);
	targets[0] = open_target(rig.other, flow_name(0), 0, DFI_NONBLOCK);
	sources[0] = share(flow_name(0), NULL);
	for (round = 1; round < 6; round++) {
		send_on(0, UNDER_WAY);
		open_flow(round);
		sources[round] = share(flow_name(round), sources[0]);
		stream(1, round, 2);
		receive_on(0);
	}
	check_connections(1);
	for (i = 0; i < 6; i++)
		close_flow(i);
	check_unbroken();
}

Test(share, one_that_aborts_or_is_cancelled_ends_alone)
{
	const void *tuple;
	uint32_t i;
	int ret;

	open_flows(4);
	stream(0, 4, 2);
	send_on(1, SEGMENT_TUPLES);
	dfi_source_abort(sources[1]);
	cr_assert_eq(dfi_source_close(sources[1]), -ECANCELED);
	receive_on(1);
	ret = consume_soon(targets[1], &tuple);
	assert_error(ret, -ECANCELED, "flow 'f1'", "source 0");
	cr_assert_eq(dfi_target_close(targets[1]), -ECANCELED);
	send_on(2, SEGMENT_TUPLES);
	cr_assert_eq(dfi_target_cancel(targets[2]), 0);
	cr_assert_eq(dfi_target_close(targets[2]), 0);
	stream(3, 1, 200);
	cr_assert_eq(dfi_source_close(sources[2]), 0, "%s", dfi_errmsg());
	stream(0, 1, 200);
	check_connections(1);
	for (i = 0; i < 4; i += 3)
		close_flow(i);
	check_unbroken();
}

/* The rings of all targets of a source use the connection as well. */
Test(share, flows_of_several_targets_share)
{
	struct dfi_target *wide[3];
	const void *tuple;
	uint32_t i, t;
	struct kv kv;

	open_flows(2);
	create_kv_flow(rig.dfi, "wide", 1, 3, SEGMENT_TUPLES, SEGMENT_COUNT);
	for (t = 0; t < 3; t++)
		wide[t] = open_target(rig.other, "wide", t, DFI_NONBLOCK);
	sources[2] = share("wide", sources[1]);
	check_connections(1);
	for (i = 0; i < 30; i++) {
		t = i % 3;
		kv = numbered_kv(i);
		cr_assert_eq(dfi_source_push_to(sources[2], t, &kv), 0);
		cr_assert_eq(dfi_source_flush(sources[2]), 0);
		stream(0, 2, 1);
		cr_assert_eq(consume_soon(wide[t], &tuple), 1);
		cr_assert_eq(((const struct kv *)tuple)->key, kv.key);
	}
	cr_assert_eq(dfi_source_close(sources[2]), 0);
	for (t = 0; t < 3; t++)
		end_target(wide[t]);
	for (i = 0; i < 2; i++)
		close_flow(i);
	check_unbroken();
}

/* Push until the source fails. */
static bool has_failed(void *arg)
{
	struct kv kv = { 1, 1 };
	int ret = dfi_source_push(arg, &kv);

	return ret && ret != -EAGAIN;
}

/* One for each process; that of one that ends fails its flows only. */
Test(share, the_end_of_a_process_fails_the_sources_that_write_to_it)
{
	struct dfi *third = rig_join(&rig);
	uint32_t i;

	for (i = 0; i < 4; i++) {
		create_kv_flow(
		    rig.dfi, flow_name(i), 1, 1, SEGMENT_TUPLES, SEGMENT_COUNT);
		targets[i] = open_target(
		    i < 2 ? rig.other : third, flow_name(i), 0, DFI_NONBLOCK);
		sources[i] = share(flow_name(i), i ? sources[0] : NULL);
	}
	check_connections(2);
	stream(0, 4, 2);
	for (i = 2; i < 4; i++)
		cr_assert_eq(dfi_target_close(targets[i]), 0);
	cr_assert_eq(dfi_close(third), 0);
	for (i = 2; i < 4; i++) {
		cr_assert(eventually(has_failed, sources[i]));
		assert_error(dfi_source_close(sources[i]), -ECONNRESET,
		    flow_name(i), "target 0");
	}
	stream(0, 2, 50);
	close_flow(0);
	close_flow(1);
}

/* ---- Refused ----------------------------------------------------------- */

Test(share, with_a_source_of_another_context_or_a_closed_one_is_refused)
{
	struct dfi_source *source, *closed;
	int ret;

	open_flows(1);
	open_flow(1);
	ret = try_share(
	    rig.other, flow_name(1), sources[0], DFI_NO_LINGER, &source);
	assert_error(ret, -EINVAL, "share_with", "flow 'f0'", "source 0",
	    "another context");
	closed = sources[0];
	close_flow(0);
	ret = try_share(rig.dfi, flow_name(1), closed, DFI_NO_LINGER, &source);
	assert_error(ret, -EBADF, "share_with");
	sources[1] = share(flow_name(1), NULL);
	stream(1, 1, 2);
	close_flow(1);
}

Test(share, sources_that_linger_are_refused)
{
	struct dfi_source *source;
	int ret;

	open_flows(1);
	open_flow(1);
	ret = try_share(rig.dfi, flow_name(1), sources[0], 1000, &source);
	assert_error(ret, -EOPNOTSUPP, "flow 'f1'", "source 0", "share_with",
	    "lingers", "DFI_NO_LINGER");
	cr_assert_eq(
	    try_share(rig.dfi, flow_name(1), NULL, 1000, &sources[1]), 0);
	open_flow(2);
	ret = try_share(
	    rig.dfi, flow_name(2), sources[1], DFI_NO_LINGER, &source);
	assert_error(
	    ret, -EOPNOTSUPP, "flow 'f1'", "source 0", "share_with", "lingers");
	sources[2] = share(flow_name(2), sources[0]);
	stream(0, 3, 2);
	close_flow(0);
	close_flow(1);
	close_flow(2);
}

Test(share, sources_of_open_flows_are_refused)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_source *open, *source;
	struct dfi_target *target;
	int ret;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &kv_schema;
	attr.n_sources = attr.n_targets = 1;
	attr.routing = DFI_ROUTE_ROUND_ROBIN;
	attr.open.membership = DFI_MEMBERS_OPEN;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "open", &attr), 0, "%s", dfi_errmsg());
	target = open_target(rig.other, "open", 0, DFI_NONBLOCK);
	open_flows(1);
	ret = try_share(rig.dfi, "open", sources[0], DFI_NO_LINGER, &source);
	assert_error(ret, -EOPNOTSUPP, "flow 'open'", "share_with");
	open = share("open", NULL);
	open_flow(1);
	ret = try_share(rig.dfi, flow_name(1), open, DFI_NO_LINGER, &source);
	assert_error(ret, -EOPNOTSUPP, "flow 'open'", "source 0", "share_with");
	cr_assert_eq(dfi_source_close(open), 0);
	cr_assert_eq(dfi_flow_finish(rig.dfi, "open"), 0);
	end_target(target);
	sources[1] = share(flow_name(1), sources[0]);
	stream(0, 2, 2);
	close_flow(0);
	close_flow(1);
}

/* ---- Two threads ------------------------------------------------------- */

#ifdef DFI_CHECKS_OWNERS

/* It has the misuse. */
static void ignore_line(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static void *push_one(void *arg)
{
	struct kv kv = { 1, 1 };
	int ret;

	(void)arg;
	do
		ret = dfi_source_push(sources[0], &kv);
	while (ret == -EBUSY);
	return ret ? sources[0] : NULL;
}

/* Whether the thread waits for room: a call on the other source finds it. */
static bool is_busy(void *arg)
{
	(void)arg;
	return dfi_source_flush(sources[1]) == -EBUSY;
}

Test(share, two_threads_at_once_are_noticed)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct kv kv = { 1, 1 };
	uint32_t i, n = SEGMENT_TUPLES * SEGMENT_COUNT;
	const void *tuple;
	pthread_t thread;
	void *failed;

	dfi_log_set(DFI_LOG_ERROR, ignore_line, NULL);
	open_flow(0);
	open_flow(1);
	sources[0] = open_source(rig.dfi, flow_name(0), 0, 0);
	attr.share_with = sources[0];
	cr_assert_eq(
	    dfi_source_open(rig.dfi, flow_name(1), 0, &attr, &sources[1]), 0);
	for (i = 0; i < n; i++)
		cr_assert_eq(dfi_source_push(sources[0], &kv), 0);
	pthread_create(&thread, NULL, push_one, NULL);
	cr_assert(eventually(is_busy, NULL));
	assert_error(-EBUSY, -EBUSY, "flow 'f1': source 0: thread",
	    "is inside a call on it", "one thread at a time");
	for (i = 0; i < n; i++)
		cr_assert_eq(consume_soon(targets[0], &tuple), 1);
	pthread_join(thread, &failed);
	cr_assert_null(failed);
	cr_assert_eq(dfi_source_close(sources[1]), 0);
	/* The closed source does not hold the other. */
	pthread_create(&thread, NULL, push_one, NULL);
	pthread_join(thread, &failed);
	cr_assert_null(failed);
	cr_assert_eq(dfi_source_close(sources[0]), 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(consume_soon(targets[0], &tuple), 1);
	end_target(targets[0]);
	end_target(targets[1]);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

#endif
