/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of peers about their regions: a size that the flow's rings can't have
 * is refused before anything of that size is mapped.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../flow/flow_help.h"
#include "base/clock.h"
#include "flows/members/attach.h"
#include "flows/context/context.h"
#include "registry/client/client.h"

static struct rig rig;
static char key[KEY_SIZE];
static struct endpoint entry;

static int64_t soon(void)
{
	return deadline_in_ms(LONG_MS);
}

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(published, .init = setup, .fini = teardown, .timeout = 300);

/* The entry of target 0 of flow "f", as its process has published it. */
static void read_entry(void)
{
	struct registry_value value;
	struct flow flow;

	cr_assert_eq(
	    dfi__attach_find(rig.other, "f", "source", 0, NULL, soon(), &flow),
	    0);
	dfi__endpoint_key(key, &flow, "target", 0);
	dfi__flow_free(&flow);
	cr_assert_eq(
	    dfi__client_get(rig.dfi->registry, key, soon(), &value), 0);
	cr_assert_eq(dfi__endpoint_decode(value.data, value.size, &entry), 0);
	dfi__registry_value_free(&value);
}

static void publish(const struct endpoint *changed)
{
	size_t size;
	void *data = dfi__endpoint_encode(changed, &size);

	cr_assert_not_null(data);
	cr_assert_eq(dfi__client_put(rig.dfi->registry, key, data, size,
			 CLIENT_LEASED, soon(), NULL),
	    0);
	free(data);
}

static void expect_refusal(
    const struct endpoint *changed, const char *what, const char *bytes)
{
	struct dfi_source *source;

	publish(changed);
	assert_error(dfi_source_open(rig.other, "f", 0, NULL, &source),
	    -EBADMSG, "flow 'f': ", what, bytes);
}

static void finish(struct dfi_target *target)
{
	const void *tuple;

	publish(&entry);
	cr_assert_eq(dfi_source_close(open_source(rig.other, "f", 0, 0)), 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(published, region_larger_or_smaller_than_its_rings_is_refused)
{
	struct dfi_target *target;
	struct endpoint changed;

	create_kv_flow(rig.dfi, "f", 1, 1, 64, 4);
	target = open_target(rig.dfi, "f", 0, 0);
	read_entry();
	changed = entry;
	changed.region.size = UINT64_C(1) << 40;
	expect_refusal(&changed, "target 0 has published a region",
	    "1099511627776 bytes, but its rings take");
	changed.region.size = 4096;
	expect_refusal(
	    &changed, "target 0 has published a region", "of 4096 bytes");
	changed = entry;
	changed.region.n_addresses = 0;
	expect_refusal(&changed, "target 0", "has no address of memory");
	finish(target);
}

Test(published, sequencer_larger_than_a_counter_is_refused)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_target *target;
	struct endpoint changed;

	attr.kind = DFI_REPLICATE;
	attr.schema = &kv_schema;
	attr.n_sources = attr.n_targets = 1;
	attr.replicate.ordered = 1;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	target = open_target(rig.dfi, "f", 0, 0);
	read_entry();
	changed = entry;
	changed.sequencer.size = UINT64_C(1) << 40;
	expect_refusal(&changed, "its counter has", "1099511627776 bytes");
	changed = entry;
	changed.sequencer.n_addresses = 0;
	expect_refusal(&changed, "entry", "has no address of memory");
	finish(target);
}

/* Some add to it over that transport: memory is no way around it. */
Test(published, counter_of_an_unknown_transport_is_refused)
{
	static const struct transport_row unknown = { .name = "unknown" };
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct region_address *address;
	struct dfi_source *source;
	struct dfi_target *target;
	struct endpoint changed;

	attr.kind = DFI_REPLICATE;
	attr.schema = &kv_schema;
	attr.n_sources = attr.n_targets = 1;
	attr.replicate.ordered = 1;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	target = open_target(rig.dfi, "f", 0, 0);
	read_entry();
	changed = entry;
	cr_assert_eq(changed.sequencer.n_addresses, 1);
	address = &changed.sequencer.addresses[changed.sequencer.n_addresses++];
	*address = changed.sequencer.addresses[0];
	address->transport = &unknown;
	publish(&changed);
	assert_error(dfi_source_open(rig.other, "f", 0, NULL, &source),
	    -EHOSTUNREACH, "flow 'f': ", "transport", "lacks");
	finish(target);
}
