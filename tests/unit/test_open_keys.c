/* SPDX-License-Identifier: Apache-2.0 */
/* What open flows leave in the registry: nothing of those who have left. */
#include <criterion/criterion.h>
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

static struct dfi *dfi;

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

Test(open_keys, go_with_their_endpoints, .timeout = 300)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_registry *registry;
	struct dfi_attr open = DFI_ATTR_INIT;
	struct dfi_target *target;
	int64_t until;
	uint64_t i;

	cr_assert_eq(dfi_registry_start(NULL, &registry), 0);
	open.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&open, &dfi), 0, "%s", dfi_errmsg());
	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.n_sources = SEATS;
	attr.n_targets = 1;
	attr.routing = DFI_ROUTE_ANY;
	attr.open.membership = DFI_MEMBERS_OPEN;
	cr_assert_eq(dfi_flow_create(dfi, "f", &attr), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_open(dfi, "f", 0, NULL, &target), 0);
	for (i = 0; i < VISITS; i++)
		visit(target, i);
	/* The flow, its target, and at most a pair for each seat twice. */
	cr_assert_leq(count_keys("flows/"), 2 + 2 * SEATS);
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
	/* Requests made while leaving have no answer. */
	until = deadline_in_ms(60000);
	while (count_keys("flows/") > 1 && clock_now_ns() < until)
		sched_yield();
	cr_assert_eq(count_keys("flows/"), 1);
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}
