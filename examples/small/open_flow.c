/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open flow: visitors come and go while a collector is at work. A visitor
 * takes any free seat, and leaves it to the next one. After the last one has
 * left, dfi_flow_finish() ends the collector.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include "small.h"

enum {
	N_SEATS = 3,
	N_VISITORS = 20,
	N_ROWS = 10
};
struct row {
	uint64_t visitor, number;
};
static const struct dfi_field fields[] = { DFI_FIELD(struct row, visitor),
	DFI_FIELD(struct row, number) };
static const struct dfi_schema schema = DFI_SCHEMA(struct row, fields);

static struct dfi *dfi;

static void *visit(void *arg)
{
	struct row row = { .visitor = *(const uint64_t *)arg };
	struct dfi_source *source;
	int ret;

	do {
		ret = dfi_source_open(
		    dfi, "visits", DFI_ANY_SEAT, NULL, &source);
		if (ret == -EBUSY) /* all seats are taken */
			sched_yield();
	} while (ret == -EBUSY);
	check(ret);
	for (; row.number < N_ROWS; row.number++)
		check(dfi_source_push(source, &row));
	check(dfi_source_close(source));
	return NULL;
}

static void *send_visitors(void *arg)
{
	uint64_t number[N_VISITORS];
	pthread_t threads[N_VISITORS];

	for (uint64_t i = 0; i < N_VISITORS; i++) {
		number[i] = i;
		threads[i] = spawn(visit, &number[i]);
	}
	for (int i = 0; i < N_VISITORS; i++)
		pthread_join(threads[i], NULL);
	check(dfi_flow_finish(dfi, "visits"));
	return arg;
}

int main(void)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_registry *registry;
	struct dfi_target *target;
	uint64_t sum = 0, n = 0;
	pthread_t thread;
	const void *tuple;

	dfi = start(&registry);
	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.n_sources = N_SEATS;
	attr.n_targets = 1;
	attr.routing = DFI_ROUTE_ANY;
	attr.open.membership = DFI_MEMBERS_OPEN;
	check(dfi_flow_create(dfi, "visits", &attr));
	check(dfi_target_open(dfi, "visits", 0, NULL, &target));
	thread = spawn(send_visitors, NULL);
	while (check(dfi_target_consume(target, &tuple))) {
		sum += ((const struct row *)tuple)->number;
		n++;
	}
	pthread_join(thread, NULL);
	check(dfi_target_close(target));
	printf("%d visitors took turns in %d seats and left %" PRIu64 " rows\n",
	    N_VISITORS, N_SEATS, n);
	stop(dfi, registry);
	return n != N_VISITORS * N_ROWS ||
	    sum != N_VISITORS * N_ROWS * (N_ROWS - 1) / 2;
}
