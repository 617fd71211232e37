/* SPDX-License-Identifier: Apache-2.0 */
/* Targets of open flows in target groups, beside those of closed flows. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "flow_help.h"

#define SEATS 4
#define SEGMENT 8 /* tuples */
#define RING 8    /* segments */

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(open_groups, .init = setup, .fini = teardown, .timeout = 300);

static void create(const char *name, uint32_t kind)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = kind,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.routing = kind == DFI_SHUFFLE ? DFI_ROUTE_ANY : 0,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open = {
			.membership = DFI_MEMBERS_OPEN,
			.on_loss = DFI_ON_LOSS_DROP,
		},
	};

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, name, &attr), 0, "%s", dfi_errmsg());
}

static struct dfi_target_group *open_group(uint32_t flags)
{
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_target_group *group = NULL;

	attr.flags = flags;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_group_open(rig.other, &attr, &group), 0);
	return group;
}

static struct dfi_target *add(
    struct dfi_target_group *group, const char *flow, uint32_t flags)
{
	struct dfi_target *target = open_target(rig.other, flow, 0, flags);

	cr_assert_eq(
	    dfi_target_group_add(group, target, NULL), 0, "%s", dfi_errmsg());
	return target;
}

/* The next tuple of the group is this target's, and has the number. */
static void expect(
    struct dfi_target_group *group, struct dfi_target *target, uint64_t number)
{
	struct dfi_target_group_batch batch;
	struct kv kv = numbered_kv(number);

	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 1, "%s",
	    dfi_errmsg());
	cr_assert_eq(batch.target, target);
	cr_assert_eq(memcmp(batch.batch.tuples, &kv, sizeof(kv)), 0);
	dfi_target_group_release(group, &batch);
}

static void expect_event(struct dfi_target_group *group,
    struct dfi_target *target, uint32_t type, uint32_t seat)
{
	struct dfi_target_group_batch batch;
	struct dfi_event event;

	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), -ENOMSG,
	    "%s", dfi_errmsg());
	cr_assert_eq(batch.target, target);
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(event.type, type, "%u", event.type);
	cr_assert_eq(event.seat, seat);
}

static void send(struct dfi_source *source, uint64_t number)
{
	push_number(source, number);
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
}

static void finish(const char *flow)
{
	cr_assert_eq(dfi_flow_finish(rig.dfi, flow), 0, "%s", dfi_errmsg());
}

static void close_source(struct dfi_source *source)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
}

static void expect_end(
    struct dfi_target_group *group, const struct dfi_target *target)
{
	struct dfi_target_group_batch batch;

	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(batch.target, target);
}

Test(open_groups, one_thread_consumes_from_open_and_closed_flows)
{
	struct dfi_target_group *group = open_group(DFI_TELL_ENDS);
	struct dfi_target *shuffled, *replicated, *closed;
	struct dfi_source *s[3];
	uint64_t i;

	create("a", DFI_SHUFFLE);
	create("b", DFI_REPLICATE);
	create_kv_flow(rig.dfi, "c", 1, 1, SEGMENT, RING);
	shuffled = add(group, "a", 0);
	replicated = add(group, "b", 0);
	closed = add(group, "c", 0);
	s[0] = open_source(rig.dfi, "a", 1, 0);
	s[1] = open_source(rig.dfi, "b", 2, 0);
	s[2] = open_source(rig.dfi, "c", 0, 0);
	for (i = 0; i < 100; i++) {
		send(s[i % 3], i);
		expect(group,
		    i % 3 == 0       ? shuffled
			: i % 3 == 1 ? replicated
				     : closed,
		    i);
	}
	close_source(s[0]);
	finish("a");
	expect_end(group, shuffled);
	close_source(s[2]);
	expect_end(group, closed);
	send(s[1], 7);
	expect(group, replicated, 7);
	close_source(s[1]);
	finish("b");
	expect_end(group, replicated);
	expect_end(group, NULL);
	cr_assert_eq(dfi_target_group_close(group), 0);
	cr_assert_eq(dfi_target_close(shuffled), 0);
	cr_assert_eq(dfi_target_close(replicated), 0);
	cr_assert_eq(dfi_target_close(closed), 0);
}

Test(open_groups, events_come_with_their_target)
{
	struct dfi_target_group *group = open_group(0);
	struct dfi_target *a, *b;
	struct dfi_source *s, *other;

	create("a", DFI_SHUFFLE);
	create("b", DFI_SHUFFLE);
	a = add(group, "a", DFI_EVENTS);
	b = add(group, "b", DFI_EVENTS);
	s = open_source(rig.dfi, "a", 3, 0);
	expect_event(group, a, DFI_JOINED, 3);
	other = open_source(rig.dfi, "b", 1, 0);
	expect_event(group, b, DFI_JOINED, 1);
	send(s, 1);
	expect(group, a, 1);
	cr_assert_eq(dfi_source_mark(s, 9), 0);
	expect_event(group, a, DFI_MARK, 0);
	close_source(s);
	expect_event(group, a, DFI_ENDED, 3);
	dfi_source_abort(other);
	cr_assert_eq(dfi_source_close(other), -ECANCELED);
	expect_event(group, b, DFI_LOST, 1);
	cr_assert_eq(dfi_target_group_close(group), 0);
	cr_assert_eq(dfi_target_close(a), 0);
	cr_assert_eq(dfi_target_close(b), 0);
}

static void await_readable(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	cr_assert_eq(poll(&pollfd, 1, (int)LONG_MS), 1);
}

/* Consume until -EAGAIN, polling before each try, until n have come. */
static void poll_for(struct dfi_target_group *group, uint32_t *n, uint32_t most)
{
	struct dfi_target_group_batch batch;
	int ret;

	while (*n < most) {
		ret = dfi_target_group_consume_batch(group, &batch);
		if (ret == -EAGAIN) {
			await_readable(dfi_target_group_fd(group));
			continue;
		}
		cr_assert_gt(ret, 0, "%s", dfi_errmsg());
		*n += (uint32_t)ret;
		dfi_target_group_release(group, &batch);
	}
}

Test(open_groups, a_group_can_be_polled)
{
	struct dfi_target_group *group = open_group(
	    DFI_NONBLOCK | DFI_TELL_ENDS);
	struct dfi_target_group_batch batch;
	struct dfi_source *s;
	struct dfi_target *t;
	uint32_t n = 0, i;
	int ret;

	create("a", DFI_SHUFFLE);
	t = add(group, "a", 0);
	cr_assert_geq(dfi_target_group_fd(group), 0);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), -EAGAIN);
	for (i = 0; i < 10; i++) {
		s = open_source(rig.dfi, "a", i % SEATS, 0);
		send(s, i);
		poll_for(group, &n, 2 * i + 1);
		push_number(s, i);
		close_source(s);
		poll_for(group, &n, 2 * i + 2);
	}
	finish("a");
	while ((ret = dfi_target_group_consume_batch(group, &batch)) == -EAGAIN)
		await_readable(dfi_target_group_fd(group));
	cr_assert_eq(ret, 0);
	cr_assert_eq(batch.target, t);
	cr_assert_eq(dfi_target_close(t), 0);
	cr_assert_eq(dfi_target_group_close(group), 0);
}

/* It goes on by itself when it is no more in the group. */
Test(open_groups, a_target_leaves_its_group)
{
	struct dfi_target_group *group = open_group(0);
	struct dfi_target *a, *b;
	struct dfi_source *s;

	create("a", DFI_SHUFFLE);
	create("b", DFI_SHUFFLE);
	a = add(group, "a", 0);
	b = add(group, "b", 0);
	s = open_source(rig.dfi, "a", 0, 0);
	send(s, 1);
	expect(group, a, 1);
	cr_assert_eq(dfi_target_group_remove(group, a), 0);
	send(s, 2);
	expect_number(a, 2);
	/* A target that closes has left as well. */
	cr_assert_eq(dfi_target_close(b), 0);
	expect_end(group, NULL);
	cr_assert_eq(dfi_target_group_close(group), 0);
	close_source(s);
	finish("a");
	end_target(a);
}

struct pusher {
	pthread_t thread;
	char error[200];
};

#define VISITS 100

static void *visit(void *arg)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct pusher *pusher = arg;
	struct kv kv = { .key = 1 };
	struct dfi_source *s;
	int i, ret = 0;

	attr.stall_timeout_ms = LONG_MS;
	for (i = 0; !ret && i < VISITS; i++) {
		ret = dfi_source_open(
		    rig.dfi, i % 2 ? "a" : "b", DFI_ANY_SEAT, &attr, &s);
		if (ret < 0)
			break;
		ret = dfi_source_push(s, &kv);
		if (!ret)
			ret = dfi_source_flush(s);
		if (!ret)
			ret = dfi_source_push(s, &kv);
		if (!ret)
			ret = dfi_source_close(s);
		else
			(void)dfi_source_close(s);
	}
	if (ret < 0)
		snprintf(
		    pusher->error, sizeof(pusher->error), "%s", dfi_errmsg());
	return NULL;
}

/* A group that sleeps is woken by who comes and goes, and by each tuple. */
Test(open_groups, a_sleeping_group_misses_nothing)
{
	struct pusher pushers[2] = { { .error = "" }, { .error = "" } };
	struct dfi_target_group *group = open_group(0);
	struct dfi_target_group_batch batch;
	struct dfi_target *a, *b;
	uint32_t i, n = 0;
	int ret;

	create("a", DFI_SHUFFLE);
	create("b", DFI_SHUFFLE);
	a = add(group, "a", 0);
	b = add(group, "b", 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(
				 &pushers[i].thread, NULL, visit, &pushers[i]),
		    0);
	while (n < 2 * 2 * VISITS) {
		ret = dfi_target_group_consume_batch(group, &batch);
		cr_assert_gt(ret, 0, "%s", dfi_errmsg());
		n += (uint32_t)ret;
		dfi_target_group_release(group, &batch);
	}
	for (i = 0; i < 2; i++) {
		pthread_join(pushers[i].thread, NULL);
		cr_assert_str_eq(pushers[i].error, "");
	}
	finish("a");
	finish("b");
	expect_end(group, NULL);
	cr_assert_eq(n, 2 * 2 * VISITS);
	cr_assert_eq(dfi_target_group_close(group), 0);
	cr_assert_eq(dfi_target_close(a), 0);
	cr_assert_eq(dfi_target_close(b), 0);
}
