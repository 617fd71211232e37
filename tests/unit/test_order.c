/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered flows with a hole: a source has drawn a number and sends nothing
 * under it, as if it had died then. The public interface can't do that.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <dfi/dfi.h>

#include "base/clock.h"
#include "buffers/merge.h"
#include "flows/context/shared_counter.h"
#include "flows/endpoint/source.h"
#include "flows/endpoint/target.h"

#define LONG_MS 60000u

static struct dfi_registry *registry;
static struct dfi *dfi;
static struct dfi_source *sources[2];
static struct dfi_target *target;

struct number {
	uint64_t source, n;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct number, source),
	DFI_FIELD(struct number, n),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct number, fields);

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
	attr.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(order, .init = setup, .fini = teardown, .timeout = 300);

static void start(uint32_t replication, uint32_t target_flags)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	uint32_t i;

	attr.kind = DFI_REPLICATE;
	attr.replicate.method = replication;
	attr.replicate.ordered = 1;
	attr.schema = &schema;
	attr.n_sources = 2;
	attr.n_targets = 1;
	attr.segment_size = sizeof(struct number);
	attr.segment_count = 8;
	cr_assert_eq(dfi_flow_create(dfi, "f", &attr), 0, "%s", dfi_errmsg());
	target_attr.flags = target_flags;
	cr_assert_eq(dfi_target_open(dfi, "f", 0, &target_attr, &target), 0,
	    "%s", dfi_errmsg());
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_source_open(dfi, "f", i, NULL, &sources[i]), 0,
		    "%s", dfi_errmsg());
}

static void push(uint32_t i, uint64_t n)
{
	struct number number = { i, n };

	cr_assert_eq(
	    dfi_source_push(sources[i], &number), 0, "%s", dfi_errmsg());
}

/* The counter that a source draws positions from. */
static _Atomic uint64_t *next_of(uint32_t i)
{
	const struct shared_counter_user *sequencer = sources[i]->state;

	return &sequencer->words->next;
}

static uint64_t leave_hole(uint32_t i)
{
	uint64_t position;

	cr_assert_eq(shared_counter_take(sources[i]->state, 1, &position), 1);
	return position;
}

static void expect(uint32_t source, uint64_t n)
{
	const struct number *number;
	const void *tuple;

	cr_assert_eq(dfi_target_consume(target, &tuple), 1, "%s", dfi_errmsg());
	number = tuple;
	cr_assert_eq(number->source, source);
	cr_assert_eq(number->n, n);
}

static int consume(void)
{
	const void *tuple;

	return dfi_target_consume(target, &tuple);
}

static void finish(uint32_t i, int ret)
{
	cr_assert_eq(dfi_source_close(sources[i]), ret, "%s", dfi_errmsg());
}

static void end(int ret)
{
	cr_assert_eq(dfi_target_close(target), ret);
	cr_assert_eq(dfi_flow_remove(dfi, "f"), 0);
}

static bool readable(int fd, int ms)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, ms) == 1;
}

#define EACH_REPLICATION(r) \
	for (r = DFI_REPLICATION_NAIVE; r <= DFI_REPLICATION_MULTICAST; r++)

Test(order, nothing_behind_a_hole_is_delivered)
{
	uint32_t r;

	EACH_REPLICATION(r)
	{
		start(r, DFI_NONBLOCK);
		push(0, 0);
		push(1, 0);
		leave_hole(0);
		push(1, 1);
		expect(0, 0);
		expect(1, 0);
		cr_assert_eq(consume(), -EAGAIN);
		push(1, 2);
		cr_assert_eq(consume(), -EAGAIN);
		/* The source that drew it gives up: its segment never comes. */
		dfi_source_abort(sources[0]);
		finish(0, -ECANCELED);
		cr_assert_eq(consume(), -ECANCELED, "%s", dfi_errmsg());
		cr_assert_not_null(strstr(dfi_errmsg(), "source 0"));
		end(-ECANCELED);
		finish(1, -ECONNRESET);
	}
}

/* Both leave a hole: nothing behind the first one comes. */
Test(order, first_of_several_holes_ends_the_flow)
{
	uint32_t r;

	EACH_REPLICATION(r)
	{
		start(r, DFI_NONBLOCK);
		push(1, 0);
		leave_hole(0);
		push(1, 1);
		leave_hole(1);
		dfi_source_abort(sources[1]);
		finish(1, -ECANCELED);
		expect(1, 0);
		/* Source 1's ring is not empty, and nobody knows of 0. */
		cr_assert_eq(consume(), -EAGAIN);
		dfi_source_abort(sources[0]);
		finish(0, -ECANCELED);
		cr_assert_eq(consume(), -ECANCELED, "%s", dfi_errmsg());
		end(-ECANCELED);
	}
}

/* That can only be a fault; the flow must not hang. */
Test(order, hole_that_nobody_can_fill_is_an_error)
{
	uint64_t position;
	char text[160];
	uint32_t r;

	EACH_REPLICATION(r)
	{
		start(r, 0);
		push(0, 0);
		position = leave_hole(0);
		push(1, 0);
		finish(0, 0);
		expect(0, 0);
		cr_assert_eq(consume(), -EBADMSG, "%s", dfi_errmsg());
		snprintf(text, sizeof(text),
		    "position %lu of the order: of all that have not ended, "
		    "source 1 is the next, with its segment 0 at position %lu",
		    (unsigned long)(position - MERGE_FIRST_POSITION),
		    (unsigned long)(position + 1 - MERGE_FIRST_POSITION));
		cr_assert_not_null(
		    strstr(dfi_errmsg(), text), "%s", dfi_errmsg());
		end(-EBADMSG);
		finish(1, -ECONNRESET);
	}
}

/*
 * A descriptor is readable for new segments, but not for those that are not
 * due.
 */
Test(order, descriptor_waits_for_what_is_due)
{
	uint64_t hole;
	uint32_t r;
	int fd;

	EACH_REPLICATION(r)
	{
		start(r, DFI_NONBLOCK);
		fd = dfi_target_fd(target);
		hole = leave_hole(0);
		push(1, 0);
		cr_assert_eq(consume(), -EAGAIN);
		/* It may be readable for nothing some ten times a second. */
		while (readable(fd, 0))
			cr_assert_eq(consume(), -EAGAIN);
		/*
		 * The due segment comes: it is sent under the number that was
		 * drawn.
		 */
		leave_hole(0);
		atomic_set(next_of(0), hole);
		push(0, 0);
		atomic_set(next_of(0), hole + 2);
		cr_assert(readable(fd, LONG_MS));
		expect(0, 0);
		expect(1, 0);
		finish(0, 0);
		finish(1, 0);
		while (consume() == -EAGAIN)
			cr_assert(readable(fd, LONG_MS));
		end(0);
	}
}

static void *consume_one(void *arg)
{
	const void *tuple = NULL;
	struct number *number = arg;

	if (dfi_target_consume(target, &tuple) == 1)
		*number = *(const struct number *)tuple;
	return NULL;
}

static bool sleeps(void)
{
	struct dfi_target_stats stats;

	dfi_target_query(target, &stats);
	return stats.sleeps > 0;
}

/* The owner sleeps, though a segment has come, and wakes when it is due. */
Test(order, waiting_target_sleeps_until_its_segment_is_due)
{
	struct number number = { 7, 7 };
	int64_t deadline;
	pthread_t thread;
	uint64_t hole;
	uint32_t r;

	EACH_REPLICATION(r)
	{
		start(r, 0);
		hole = leave_hole(0);
		push(1, 0);
		cr_assert_eq(
		    pthread_create(&thread, NULL, consume_one, &number), 0);
		deadline = deadline_in_ms(LONG_MS);
		while (!sleeps()) {
			cr_assert_lt(clock_now_ns(), deadline);
			sched_yield();
		}
		atomic_set(next_of(0), hole);
		push(0, 5);
		atomic_set(next_of(0), hole + 2);
		cr_assert_eq(pthread_join(thread, NULL), 0);
		cr_assert_eq(number.source, 0);
		cr_assert_eq(number.n, 5);
		expect(1, 0);
		finish(0, 0);
		finish(1, 0);
		cr_assert_eq(consume(), 0, "%s", dfi_errmsg());
		end(0);
	}
}

Test(order, position_that_was_delivered_is_damage)
{
	uint32_t r;

	EACH_REPLICATION(r)
	{
		start(r, DFI_NONBLOCK);
		push(0, 0);
		expect(0, 0);
		atomic_set(next_of(1), MERGE_FIRST_POSITION);
		push(1, 0);
		cr_assert_eq(consume(), -EBADMSG, "%s", dfi_errmsg());
		cr_assert_not_null(strstr(dfi_errmsg(), "source 1"));
		end(-EBADMSG);
		finish(0, -ECONNRESET);
		finish(1, -ECONNRESET);
	}
}
