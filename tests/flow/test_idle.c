/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that are idle for longer than a target waits for their marks (K3 of
 * docs/open-flows.md).
 */
#include <criterion/criterion.h>
#include <dfi/mark.h>
#include <dfi/target_group.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "mark_help.h"

#define IDLE_MS 20

static struct rig rig;

static void setup(void)
{
	setenv("DFI_RING_MEMORY", "1M", 1);
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(idle, .init = setup, .fini = teardown, .timeout = 300);

static void create(enum dfi_membership membership, enum dfi_flow_kind kind)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = kind,
		.schema = &kv_schema,
		.n_sources = 2,
		.n_targets = 1,
		.routing = kind == DFI_SHUFFLE ? DFI_ROUTE_DIRECT : 0,
		.segment_size = sizeof(struct kv),
		.segment_count = 8,
	};

	attr.open.membership = membership;
	attr.open.on_loss = membership ? DFI_ON_LOSS_DROP : 0;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

static struct dfi_target *target_of(uint32_t flags, uint32_t idle_after_ms)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;

	attr.flags = flags | DFI_EVENTS;
	attr.idle_after_ms = idle_after_ms;
	cr_assert_eq(dfi_target_open(rig.dfi, "f", 0, &attr, &target), 0, "%s",
	    dfi_errmsg());
	return target;
}

/* In an open flow, once the target has heard that it is there. */
static struct dfi_source *source_at(
    uint32_t index, struct dfi_target *target, enum dfi_membership membership)
{
	struct dfi_source *source = open_source(rig.other, "f", index, 0);

	if (membership)
		cr_assert_eq(next_event(target, DFI_JOINED).seat, index);
	return source;
}

static void push(struct dfi_source *source, uint64_t number)
{
	struct kv kv = numbered_kv(number);

	cr_assert_eq(dfi_source_push_to(source, 0, &kv), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
}

static void close_source(struct dfi_source *source)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
}

/* Skips events. */
static void end(struct dfi_target *target, enum dfi_membership membership)
{
	struct dfi_event event;
	const void *tuple;
	int ret;

	if (membership)
		cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0);
	while ((ret = consume_soon(target, &tuple)) == -ENOMSG)
		cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

/* The watermark may rise before it: the other source may be idle by now. */
static void expect_in_time(struct dfi_target *target, uint64_t number)
{
	struct dfi_event event;
	const void *tuple;
	const struct kv *kv;
	int ret;

	while ((ret = consume_soon(target, &tuple)) == -ENOMSG)
		cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(ret, 1, "%s", dfi_errmsg());
	kv = tuple;
	cr_assert_eq(kv->val, number);
	cr_assert_eq(dfi_target_late(target), 0);
}

/*
 * Source 0 says nothing. Source 1 has marked later than that, so it is found to
 * be idle no earlier.
 */
static void run_idle(enum dfi_membership membership, bool blocks)
{
	struct dfi_source *idle, *other;
	struct dfi_target *target;

	create(membership, DFI_SHUFFLE);
	target = target_of(blocks ? 0 : DFI_NONBLOCK, IDLE_MS);
	idle = source_at(0, target, membership);
	other = source_at(1, target, membership);
	mark_soon(other, 5);
	expect_open_mark(target, 5, 0);
	/* All that is in the ring then is taken without a pause. */
	push(idle, 1);
	mark_soon(idle, 2);
	push(idle, 2);
	mark_soon(idle, 6);
	push(idle, 3);
	expect_number(target, 1);
	cr_assert_eq(dfi_target_late(target), 1);
	/* That mark was below the watermark, which does not fall. */
	expect_number(target, 2);
	cr_assert_eq(dfi_target_late(target), 1);
	cr_assert_eq(watermark_of(target), 5);
	expect_in_time(target, 3);
	close_source(idle);
	close_source(other);
	end(target, membership);
}

Test(idle, idle_source_holds_the_watermark_no_more_and_is_late)
{
	run_idle(DFI_MEMBERS_CLOSED, false);
	run_idle(DFI_MEMBERS_CLOSED, true);
}

Test(idle, idle_source_of_an_open_flow_is_late)
{
	run_idle(DFI_MEMBERS_OPEN, false);
	run_idle(DFI_MEMBERS_OPEN, true);
}

static void run_descriptor(enum dfi_membership membership)
{
	struct pollfd pollfd = { .events = POLLIN };
	struct dfi_source *sources[2];
	struct dfi_target *target;
	struct dfi_event event;
	const void *tuple;
	uint32_t i;
	int ret;

	create(membership, DFI_SHUFFLE);
	target = target_of(DFI_NONBLOCK, IDLE_MS);
	pollfd.fd = dfi_target_fd(target);
	for (i = 0; i < 2; i++)
		sources[i] = source_at(i, target, membership);
	mark_soon(sources[1], 5);
	/* Nothing but the time wakes it. */
	while ((ret = dfi_target_consume(target, &tuple)) == -EAGAIN)
		cr_assert_eq(poll(&pollfd, 1, (int)LONG_MS), 1);
	cr_assert_eq(ret, -ENOMSG, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(event.type, DFI_MARK);
	cr_assert_eq(event.value, 5);
	for (i = 0; i < 2; i++)
		close_source(sources[i]);
	end(target, membership);
}

Test(idle, descriptor_reports_that_a_source_is_idle)
{
	run_descriptor(DFI_MEMBERS_CLOSED);
	run_descriptor(DFI_MEMBERS_OPEN);
}

Test(idle, group_finds_idle_sources_of_its_members)
{
	struct dfi_target_group_attr group_attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_target_group_batch batch;
	struct dfi_target_group *group;
	struct dfi_source *sources[2];
	struct dfi_target *target;
	struct dfi_event event;

	create(DFI_MEMBERS_CLOSED, DFI_SHUFFLE);
	cr_assert_eq(dfi_target_group_open(rig.dfi, &group_attr, &group), 0);
	target = target_of(0, IDLE_MS);
	cr_assert_eq(dfi_target_group_add(group, target, NULL), 0);
	sources[0] = open_source(rig.other, "f", 0, 0);
	sources[1] = open_source(rig.other, "f", 1, 0);
	mark_soon(sources[1], 5);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), -ENOMSG);
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(event.value, 5);
	cr_assert_eq(dfi_target_group_close(group), 0);
	close_source(sources[0]);
	close_source(sources[1]);
	end(target, DFI_MEMBERS_CLOSED);
}

/* The target is slow, not the source. */
Test(idle, source_whose_tuples_wait_is_not_idle)
{
	struct dfi_source *sources[2];
	struct dfi_target *target;
	const struct kv *kv;
	const void *tuple;
	uint64_t i;

	create(DFI_MEMBERS_CLOSED, DFI_SHUFFLE);
	/* Time enough to open and to push. */
	target = target_of(0, 200);
	sources[0] = open_source(rig.other, "f", 0, 0);
	sources[1] = open_source(rig.other, "f", 1, 0);
	for (i = 1; i < 8; i++)
		push(sources[0], i);
	mark_soon(sources[0], 5);
	for (i = 1; i < 8; i++) {
		cr_assert_eq(
		    dfi_target_consume(target, &tuple), 1, "%s", dfi_errmsg());
		kv = tuple;
		cr_assert_eq(kv->val, i);
		cr_assert_eq(dfi_target_late(target), 0);
		usleep(60000);
	}
	close_source(sources[0]);
	close_source(sources[1]);
	end(target, DFI_MEMBERS_CLOSED);
}

Test(idle, barriers_do_not_wait_for_idle_sources)
{
	struct dfi_source *idle, *other;
	struct dfi_target *target;

	create(DFI_MEMBERS_CLOSED, DFI_SHUFFLE);
	target = target_of(DFI_NONBLOCK | DFI_ALIGN, IDLE_MS);
	idle = open_source(rig.other, "f", 0, 0);
	other = open_source(rig.other, "f", 1, 0);
	mark_soon(other, 5);
	push(other, 1);
	expect_open_mark(target, 5, 0);
	expect_number(target, 1);
	push(idle, 2);
	expect_number(target, 2);
	cr_assert_eq(dfi_target_late(target), 1);
	close_source(idle);
	close_source(other);
	end(target, DFI_MEMBERS_CLOSED);
}

/* A seat's next holder is nobody's heir. */
Test(idle, next_holder_of_an_idle_seat_is_not_late)
{
	struct dfi_source *idle, *other;
	struct dfi_target *target;

	create(DFI_MEMBERS_OPEN, DFI_SHUFFLE);
	target = target_of(DFI_NONBLOCK, IDLE_MS);
	idle = source_at(0, target, DFI_MEMBERS_OPEN);
	other = source_at(1, target, DFI_MEMBERS_OPEN);
	mark_soon(other, 5);
	expect_open_mark(target, 5, 0);
	close_source(idle);
	cr_assert_eq(next_event(target, DFI_ENDED).seat, 0);
	idle = open_source(rig.other, "f", 0, 0);
	push(idle, 1);
	cr_assert_eq(next_event(target, DFI_JOINED).seat, 0);
	expect_number(target, 1);
	cr_assert_eq(dfi_target_late(target), 0);
	close_source(idle);
	close_source(other);
	end(target, DFI_MEMBERS_OPEN);
}

Test(idle, lost_source_leaves_at_once)
{
	struct dfi_source *sources[2];
	struct dfi_target *target;

	create(DFI_MEMBERS_OPEN, DFI_SHUFFLE);
	/* Longer than this test may take. */
	target = target_of(DFI_NONBLOCK, 10 * LONG_MS);
	sources[0] = source_at(0, target, DFI_MEMBERS_OPEN);
	sources[1] = source_at(1, target, DFI_MEMBERS_OPEN);
	mark_soon(sources[1], 5);
	dfi_source_abort(sources[0]);
	cr_assert_eq(dfi_source_close(sources[0]), -ECANCELED);
	cr_assert_eq(next_event(target, DFI_LOST).seat, 0);
	expect_open_mark(target, 5, 0);
	close_source(sources[1]);
	end(target, DFI_MEMBERS_OPEN);
}

Test(idle, what_knows_no_idle_sources_refuses)
{
	static const struct dfi_aggregate aggregates[] = {
		{ .function = DFI_COUNT, .name = "n" },
	};
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_flow_attr flow_attr = {
		.size = sizeof(flow_attr),
		.kind = DFI_COMBINE,
		.schema = &kv_schema,
		.n_sources = 1,
		.n_targets = 1,
		.combine = { .aggregates = aggregates, .n_aggregates = 1 },
	};
	struct dfi_target *target;

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &flow_attr), 0, "%s", dfi_errmsg());
	attr.idle_after_ms = 1;
	assert_error(dfi_target_open(rig.dfi, "f", 0, &attr, &target), -EINVAL,
	    "idle_after_ms", "combiner");
	assert_error(dfi_target_late(NULL), -EINVAL, "NULL");
}
