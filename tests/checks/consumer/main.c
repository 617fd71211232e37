/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small user of an installed DFI that needs all that the library links: a
 * registry, a context, and a flow between two threads.
 */
#include <dfi/dfi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define N_NUMBERS 1000U

struct number {
	uint64_t value;
};
static const struct dfi_field fields[] = { DFI_FIELD(struct number, value) };
static const struct dfi_schema schema = DFI_SCHEMA(struct number, fields);

static struct dfi *dfi;

static void check(int ret)
{
	if (ret < 0) {
		fprintf(stderr, "consumer: %s\n", dfi_errmsg());
		exit(1);
	}
}

static void *send_numbers(void *arg)
{
	struct dfi_source *source;
	struct number number;

	check(dfi_source_open(dfi, "numbers", 0, NULL, &source));
	for (number.value = 0; number.value < N_NUMBERS; number.value++)
		check(dfi_source_push(source, &number));
	check(dfi_source_close(source));
	return arg;
}

static uint64_t receive_numbers(void)
{
	struct dfi_target *target;
	const void *tuple;
	uint64_t sum = 0;

	check(dfi_target_open(dfi, "numbers", 0, NULL, &target));
	while (dfi_target_consume(target, &tuple) > 0)
		sum += ((const struct number *)tuple)->value;
	check(dfi_target_close(target));
	return sum;
}

int main(void)
{
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	pthread_t sender;
	uint64_t sum;

	check(dfi_registry_start(NULL, &registry));
	attr.registry = dfi_registry_address(registry);
	check(dfi_open(&attr, &dfi));
	flow.kind = DFI_SHUFFLE;
	flow.schema = &schema;
	flow.n_sources = flow.n_targets = 1;
	check(dfi_flow_create(dfi, "numbers", &flow));
	if (pthread_create(&sender, NULL, send_numbers, NULL))
		return 1;
	sum = receive_numbers();
	pthread_join(sender, NULL);
	check(dfi_close(dfi));
	check(dfi_registry_stop(registry));
	return sum != N_NUMBERS * (N_NUMBERS - 1) / 2;
}
