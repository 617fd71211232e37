/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The look at memory before a target begins to wait (dfi__target_glance()): its
 * results, when it doesn't look, and that it takes nothing.
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "../flow/flow_help.h"
#include "base/clock.h"
#include "flows/endpoint/await.h"

static struct rig rig;
static struct dfi_target *target;
static struct dfi_source *source;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	rig_stop(&rig);
}

TestSuite(glance, .init = setup, .fini = teardown, .timeout = 300);

static void open_ends(uint32_t kind, uint32_t wait)
{
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	flow.kind = kind;
	flow.replicate.ordered = kind == DFI_REPLICATE;
	flow.schema = &kv_schema;
	flow.n_sources = flow.n_targets = 1;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &flow), 0, "%s", dfi_errmsg());
	attr.wait = wait;
	cr_assert_eq(dfi_target_open(rig.dfi, "f", 0, &attr, &target), 0, "%s",
	    dfi_errmsg());
	source = open_source(rig.dfi, "f", 0, 0);
	/* A source that has come is a change, which is seen to first. */
	target->seen_changes = target_changes(target);
}

static void send_one(void)
{
	struct kv kv = { .key = 7 };

	cr_assert_eq(dfi_source_push(source, &kv), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
}

static void expect_one(void)
{
	const void *tuple;

	cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	cr_assert_eq(((const struct kv *)tuple)->key, 7);
}

Test(glance, sees_a_segment_and_leaves_it_there)
{
	open_ends(DFI_SHUFFLE, DFI_WAIT_ADAPTIVE);
	cr_assert(!dfi__target_glance(target));
	send_one();
	cr_assert(dfi__target_glance(target));
	cr_assert(dfi__target_glance(target));
	cr_assert_eq(atomic_peek(&target->segments), 0);
	cr_assert_eq(atomic_peek(&target->stalls), 0);
	expect_one();
	cr_assert(!dfi__target_glance(target));
}

/* intake.c would find nothing to take. */
Test(glance, takes_no_change_for_a_segment)
{
	open_ends(DFI_SHUFFLE, DFI_WAIT_ADAPTIVE);
	target->seen_changes--;
	cr_assert(!dfi__target_glance(target));
	send_one();
	cr_assert(dfi__target_glance(target));
	expect_one();
}

Test(glance, is_not_for_who_never_spins)
{
	open_ends(DFI_SHUFFLE, DFI_WAIT_BLOCK);
	send_one();
	cr_assert(!dfi__target_glance(target));
	expect_one();
}

Test(glance, is_not_for_ordered_flows)
{
	open_ends(DFI_REPLICATE, DFI_WAIT_ADAPTIVE);
	send_one();
	cr_assert(!dfi__target_glance(target));
	expect_one();
}

Test(glance, that_finds_a_segment_ends_a_stall)
{
	open_ends(DFI_SHUFFLE, DFI_WAIT_ADAPTIVE);
	target->stall.since = clock_now_ns();
	cr_assert(!dfi__target_glance(target));
	cr_assert_neq(target->stall.since, 0);
	send_one();
	cr_assert(dfi__target_glance(target));
	cr_assert_eq(target->stall.since, 0);
	expect_one();
}
