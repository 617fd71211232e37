/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a source's writes, as its close waits for it: on a remote that
 * says when they have arrived, or never.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "base/clock.h"
#include "flows/endpoint/source.h"

static unsigned looks; /* for completions */
static unsigned done_after;
static int outcome;

static int drained(struct remote *remote)
{
	(void)remote;
	return ++looks > done_after ? outcome : 0;
}

static void arm_remote(struct remote *remote)
{
	(void)remote;
}

static const struct transport_ops ops = {
	.name = "slow",
	.ring.drained = drained,
	.ring.arm = arm_remote,
};

static struct transport transport = { .ops = &ops };
static struct flow flow = { .name = "f" };
static struct remote remote = { .transport = &transport };
static struct writer writer = { .remote = &remote };
static struct peer peer;
static const struct kind kind; /* it has nothing to look at */
static struct dfi_source source;

/* Its writes have arrived after this many looks, or not until then. */
static void start(unsigned after, int with, uint32_t wait)
{
	static alignas(128) char ring[4096];

	memset(ring, 0, sizeof(ring));
	remote.ring = ring;
	done_after = after;
	outcome = with;
	looks = 0;
	source.kind = &kind;
	source.flow = flow;
	source.index = 3;
	source.n_lanes = 1;
	source.writers = source.rings = &writer;
	source.wait = dfi__wait_policy(wait);
	source.wait_time = wait_time(0);
	source.targets.flow = &flow;
	source.targets.role = source.targets.word = "target";
	source.targets.n = 1;
	source.targets.peer = &peer;
	atomic_set(&peer.state, PEER_PRESENT);
}

static void expires(uint32_t wait)
{
	int64_t before = clock_now_ns();

	start(UINT32_MAX, 1, wait);
	cr_assert_eq(
	    dfi__source_drain(&source, 0, deadline_in_ms(50)), -ETIMEDOUT);
	cr_assert_geq(clock_now_ns() - before, 50 * NS_PER_MS);
	cr_assert_not_null(strstr(dfi_errmsg(), "flow 'f': source 3"));
	cr_assert_not_null(strstr(dfi_errmsg(), "target 0"));
	cr_assert_null(atomic_peek(&source.targets.sleeping));
}

Test(drain, ends_with_its_deadline, .timeout = 300)
{
	expires(DFI_WAIT_ADAPTIVE);
	expires(DFI_WAIT_SPIN);
	expires(DFI_WAIT_BLOCK);
}

Test(drain, ends_when_all_has_arrived, .timeout = 300)
{
	start(3, 1, DFI_WAIT_BLOCK);
	cr_assert_eq(dfi__source_drain(&source, 0, deadline_in_ms(60000)), 0);
	cr_assert_gt(looks, 3);
	/* Also without a deadline, and one that has passed asks once. */
	start(3, 1, DFI_WAIT_BLOCK);
	cr_assert_eq(dfi__source_drain(&source, 0, DEADLINE_NEVER), 0);
	start(0, 1, DFI_WAIT_BLOCK);
	cr_assert_eq(dfi__source_drain(&source, 0, 1), 0);
}

Test(drain, ends_when_the_connection_breaks, .timeout = 300)
{
	start(3, -ECONNRESET, DFI_WAIT_ADAPTIVE);
	cr_assert_eq(
	    dfi__source_drain(&source, 0, DEADLINE_NEVER), -ECONNRESET);
	cr_assert_not_null(strstr(dfi_errmsg(), "target 0"));
}

Test(drain, asks_nothing_of_a_target_that_never_was_there, .timeout = 300)
{
	start(UINT32_MAX, 1, DFI_WAIT_BLOCK);
	writer.cancelled = true;
	writer.remote = NULL;
	cr_assert_eq(dfi__source_drain(&source, 0, DEADLINE_NEVER), 0);
	cr_assert_eq(looks, 0);
}

/* Otherwise leaving the ring would break its connection. */
Test(drain, waits_for_a_target_that_wants_no_more, .timeout = 300)
{
	start(3, 1, DFI_WAIT_BLOCK);
	writer.cancelled = true;
	cr_assert_eq(dfi__source_drain(&source, 0, DEADLINE_NEVER), 0);
	cr_assert_gt(looks, 3);
}

/* A write that has no acknowledgement by then is not missed. */
Test(drain, ends_at_a_target_that_wants_no_more_and_is_quiet, .timeout = 300)
{
	start(UINT32_MAX, 1, DFI_WAIT_BLOCK);
	writer.cancelled = true;
	cr_assert_eq(dfi__source_drain(&source, 0, DEADLINE_NEVER), 0);
	start(UINT32_MAX, 1, DFI_WAIT_SPIN);
	cr_assert_eq(dfi__source_drain(&source, 0, deadline_in_ms(50)), 0);
	start(0, -ECONNRESET, DFI_WAIT_BLOCK);
	cr_assert_eq(dfi__source_drain(&source, 0, DEADLINE_NEVER), 0);
}
