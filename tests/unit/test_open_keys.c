/* SPDX-License-Identifier: Apache-2.0 */
/* What open flows leave in the registry: nothing of those who have left. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include <dfi/dfi.h>
#include "base/clock.h"
#include "flows/context/context.h"
#include "registry/client/client.h"

#define SEATS 3
#define VISITS 30

static const struct dfi_field fields[] = {
	{ "number", NULL, DFI_UINT64, 0, 8, 0 },
};
static const struct dfi_schema schema = {
	.fields = fields,
	.n_fields = 1,
	.tuple_size = 8,
};

static struct dfi_registry *registry;
static struct dfi *dfi;

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	cr_assert_eq(dfi_registry_start(NULL, &registry), 0);
	attr.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(open_keys, .init = setup, .fini = teardown, .timeout = 300);

static size_t count_keys(const char *prefix)
{
	struct registry_value *values;
	size_t n;

	cr_assert_eq(dfi__client_list(dfi->registry, prefix,
			 deadline_in_ms(60000), &values, &n),
	    0, "%s", dfi_errmsg());
	dfi__registry_values_free(values, n);
	return n;
}

/* Requests made while leaving have no answer. */
static void await_keys(size_t n)
{
	int64_t until = deadline_in_ms(60000);

	while (count_keys("flows/") > n && clock_now_ns() < until)
		sched_yield();
	cr_assert_eq(count_keys("flows/"), n);
}

static void create(uint32_t routing)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.n_sources = SEATS;
	attr.n_targets = 1;
	attr.routing = routing;
	attr.open.membership = DFI_MEMBERS_OPEN;
	cr_assert_eq(dfi_flow_create(dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

static void visit(struct dfi_target *target, uint64_t number)
{
	struct dfi_source *source;
	const void *tuple;
	uint64_t got;

	cr_assert_eq(dfi_source_open(dfi, "f", DFI_ANY_SEAT, NULL, &source), 0,
	    "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_push(source, &number), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_consume(target, &tuple), 1, "%s", dfi_errmsg());
	memcpy(&got, tuple, sizeof(got));
	cr_assert_eq(got, number);
}

Test(open_keys, go_with_their_endpoints)
{
	struct dfi_target *target;
	uint64_t i;

	create(DFI_ROUTE_ANY);
	cr_assert_eq(dfi_target_open(dfi, "f", 0, NULL, &target), 0);
	for (i = 0; i < VISITS; i++)
		visit(target, i);
	/* The flow, its target, and at most a pair for each seat twice. */
	cr_assert_leq(count_keys("flows/"), 2 + 2 * SEATS);
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
	await_keys(1);
}

/*
 * The only one has all partitions. The table stays for who comes next, and goes
 * with the flow.
 */
Test(open_keys, go_with_a_target_that_cancels)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	int64_t until = deadline_in_ms(60000);
	struct dfi_target *target;
	const void *tuple;

	create(DFI_ROUTE_HASH);
	attr.flags = DFI_NONBLOCK;
	cr_assert_eq(dfi_target_open(dfi, "f", 0, &attr, &target), 0);
	/* The flow, the target, the table, and what the target has taken. */
	while (count_keys("flows/") < 4 && clock_now_ns() < until)
		cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
	cr_assert_eq(count_keys("flows/"), 4);
	cr_assert_eq(dfi_target_cancel(target), 0, "%s", dfi_errmsg());
	await_keys(2);
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_flow_remove(dfi, "f"), 0, "%s", dfi_errmsg());
	await_keys(0);
}
