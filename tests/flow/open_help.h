/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of open replicate flows: a rig, and endpoints of the flow
 * "f" in it that have events.
 */
#ifndef DFI_TESTS_OPEN_HELP_H
#define DFI_TESTS_OPEN_HELP_H

#include <criterion/criterion.h>
#include <errno.h>

#include "flow_help.h"

static struct rig rig;

static __attribute__((unused)) void setup(void)
{
	rig_start(&rig);
}

static __attribute__((unused)) void teardown(void)
{
	rig_stop(&rig);
}

static __attribute__((unused)) struct dfi_source *source(uint32_t seat)
{
	return open_source(rig.dfi, "f", seat, 0);
}

static __attribute__((unused)) struct dfi_target *target(uint32_t seat)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.flags = DFI_EVENTS;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(rig.other, "f", seat, &attr, &target), 0,
	    "%s", dfi_errmsg());
	return target;
}

static __attribute__((unused)) void close_source(struct dfi_source *source)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
}

static __attribute__((unused)) void close_target(struct dfi_target *target)
{
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
}

static __attribute__((unused)) void finish(void)
{
	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
}

static __attribute__((unused)) void push_numbers(
    struct dfi_source *s, uint64_t first, uint64_t end)
{
	for (; first < end; first++)
		push_number(s, first);
}

static __attribute__((unused)) void flush(struct dfi_source *source)
{
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
}

/* The target's next consuming call finds this event; its value. */
static __attribute__((unused)) uint64_t expect_event(
    struct dfi_target *target, uint32_t type, uint32_t seat)
{
	struct dfi_event event;
	const void *tuple;

	cr_assert_eq(
	    dfi_target_consume(target, &tuple), -ENOMSG, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(event.type, type, "%u", event.type);
	cr_assert_eq(event.seat, seat);
	return event.value;
}

static __attribute__((unused)) void expect_numbers(
    struct dfi_target *t, uint64_t first, uint64_t end)
{
	for (; first < end; first++)
		expect_number(t, first);
}

static __attribute__((unused)) void expect_end(
    struct dfi_target *target, uint32_t seat)
{
	expect_event(target, DFI_ENDED, seat);
	end_target(target);
}

/* Wait until the source has heard this n times. */
static __attribute__((unused)) void await_events(
    struct dfi_source *source, uint32_t type, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event = { .type = 0 };
	int ret;

	while (n) {
		ret = dfi_source_event(source, &event);
		cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
		n -= ret == 0 && event.type == type;
		cr_assert_lt(now_ms(), until,
		    "%u events of type %u are missing; the last was %u", n,
		    type, event.type);
	}
}

static __attribute__((unused)) void await_targets(
    struct dfi_source *source, uint32_t n)
{
	await_events(source, DFI_JOINED, n);
}

static __attribute__((unused)) struct dfi_source *source_with_events(
    uint32_t seat, uint32_t flags)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.flags = DFI_EVENTS | flags;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", seat, &attr, &source), 0,
	    "%s", dfi_errmsg());
	return source;
}

#endif
