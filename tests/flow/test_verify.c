/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums of segments: which damage they find, and how both ends agree on
 * them.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

#define TUPLES 1000

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(verify, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(uint32_t verify, uint32_t transport)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &kv_schema;
	attr.n_sources = attr.n_targets = 1;
	attr.segment_size = 7 * sizeof(struct kv); /* fills its lines */
	attr.segment_count = 4;
	attr.verify = verify;
	attr.transport = transport;
	return attr;
}

static void create(uint32_t verify, uint32_t transport)
{
	struct dfi_flow_attr attr = flow_attr(verify, transport);

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

static uint32_t verify_of_flow(struct dfi *dfi)
{
	struct dfi_flow_info info;

	cr_assert_eq(dfi_flow_lookup(dfi, "f", &info), 0);
	return info.verify;
}

/* Full segments and partial ones, and memory that is used again. */
static void move(void)
{
	struct dfi_target *target = open_target(rig.other, "f", 0, 0);
	struct dfi_source *source = open_source(rig.dfi, "f", 0, 0);
	const struct kv *kv;
	const void *tuple;
	uint64_t pushed, n = 0;

	for (pushed = 0; pushed < TUPLES;) {
		struct kv next = { pushed, mix(pushed, 1) };

		cr_assert_eq(dfi_source_push(source, &next), 0);
		if (++pushed % 11 && pushed < TUPLES)
			continue;
		cr_assert_eq(dfi_source_flush(source), 0);
		for (; n < pushed; n++) {
			cr_assert_eq(dfi_target_consume(target, &tuple), 1,
			    "%s", dfi_errmsg());
			kv = tuple;
			cr_assert_eq((uintptr_t)kv % 8, 0);
			cr_assert_eq(kv->key, n);
			cr_assert_eq(kv->val, mix(n, 1));
		}
	}
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(verify, whole_segments_pass)
{
	create(DFI_VERIFY_CHECKSUM, DFI_TRANSPORT_DEFAULT);
	cr_assert_eq(verify_of_flow(rig.other), DFI_VERIFY_CHECKSUM);
	move();
}

Test(verify, works_for_latency_flows)
{
	struct dfi_flow_attr attr = flow_attr(DFI_VERIFY_CHECKSUM, 0);

	attr.goal = DFI_LATENCY;
	attr.segment_size = attr.segment_count = 0;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	move();
}

/*
 * A source overwrites the memory that it has sent from: in shared memory that
 * damages what the target is about to read.
 */
static int consume_damaged(uint32_t verify)
{
	struct dfi_target *target;
	struct dfi_source *source;
	struct dfi_span span;
	const void *tuple;
	struct kv *kv;
	int ret;

	create(verify, DFI_TRANSPORT_SHM);
	target = open_target(rig.other, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(dfi_source_claim(source, 0, &span), 0);
	kv = span.tuples;
	memset(kv, 0, 2 * sizeof(*kv));
	cr_assert_eq(dfi_source_commit(source, &span, 2), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	kv[1].val = 1;
	ret = dfi_target_consume(target, &tuple);
	if (verify == DFI_VERIFY_CHECKSUM) {
		assert_error(ret, -EBADMSG, "flow 'f'", "source 0", "target 0",
		    "pid", "segment 0", "checksum", "damaged");
		assert_error(
		    dfi_target_consume(target, &tuple), -EBADMSG, "checksum");
	}
	dfi_source_abort(source);
	dfi_source_close(source);
	dfi_target_close(target);
	return ret;
}

Test(verify, damage_is_reported_with_both_ends)
{
	consume_damaged(DFI_VERIFY_CHECKSUM);
}

Test(verify, is_off_by_default)
{
	create(DFI_VERIFY_DEFAULT, DFI_TRANSPORT_DEFAULT);
	cr_assert_eq(verify_of_flow(rig.other), DFI_VERIFY_NONE);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	cr_assert_eq(consume_damaged(DFI_VERIFY_NONE), 1);
}

/* The flow's creator decides it for both ends. */
Test(verify, is_what_the_creator_has_set)
{
	struct dfi_flow_attr attr = flow_attr(DFI_VERIFY_NONE, 0);
	struct dfi_flow_needs plain, verified;
	struct dfi *dfi;

	setenv("DFI_VERIFY", "checksum", 1);
	dfi = rig_join(&rig);
	unsetenv("DFI_VERIFY");
	cr_assert_eq(dfi_flow_create(dfi, "f", &attr), 0);
	cr_assert_eq(verify_of_flow(rig.other), DFI_VERIFY_NONE);
	cr_assert_eq(dfi_flow_estimate(dfi, &attr, &plain), 0);
	cr_assert_eq(dfi_flow_remove(dfi, "f"), 0);

	attr.verify = DFI_VERIFY_DEFAULT;
	cr_assert_eq(dfi_flow_create(dfi, "f", &attr), 0);
	cr_assert_eq(verify_of_flow(rig.other), DFI_VERIFY_CHECKSUM);
	cr_assert_eq(dfi_flow_estimate(dfi, &attr, &verified), 0);
	cr_assert_gt(verified.ring_bytes, plain.ring_bytes);
	cr_assert_eq(verified.ring_payload_bytes, plain.ring_payload_bytes);
	move();
	cr_assert_eq(dfi_flow_remove(dfi, "f"), 0);

	attr.verify = 3;
	assert_error(
	    dfi_flow_create(dfi, "f", &attr), -EINVAL, "verify 3", "'f'");
	cr_assert_eq(dfi_close(dfi), 0);
}
