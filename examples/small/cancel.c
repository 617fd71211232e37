/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target with "LIMIT 10" cancels when it has enough, which is no error at any
 * endpoint. Its source gets -EPIPE, and stops.
 */
#include <inttypes.h>
#include <stdint.h>
#include "small.h"

enum {
	LIMIT = 10,
	N_ROWS = 100000000
};
struct row {
	uint64_t number;
};
static const struct dfi_field fields[] = { DFI_FIELD(struct row, number) };
static const struct dfi_schema schema = DFI_SCHEMA(struct row, fields);

static struct dfi *dfi;

static void *scan(void *arg)
{
	uint64_t *n_pushed = arg;
	struct dfi_source *source;
	struct row row = { 0 };
	int ret = 0;

	check(dfi_source_open(dfi, "rows", 0, NULL, &source));
	for (; row.number < N_ROWS; row.number++) {
		ret = dfi_source_push(source, &row);
		if (ret == -EPIPE) /* nobody wants more */
			break;
		check(ret);
	}
	*n_pushed = row.number;
	check(dfi_source_close(source)); /* 0: all is well */
	return NULL;
}

int main(void)
{
	struct dfi_registry *registry;
	struct dfi_target *target;
	uint64_t n_pushed, sum = 0;
	pthread_t thread;
	const void *tuple;

	dfi = start(&registry);
	create_flow(dfi, "rows", &schema);
	thread = spawn(scan, &n_pushed);
	check(dfi_target_open(dfi, "rows", 0, NULL, &target));
	for (int i = 0; i < LIMIT; i++) {
		check(dfi_target_consume(target, &tuple));
		sum += ((const struct row *)tuple)->number;
	}
	check(dfi_target_cancel(target));
	pthread_join(thread, NULL);
	check(dfi_target_close(target));
	printf("the sum of the first %d of %d rows is %" PRIu64 "; %" PRIu64
	       " were produced\n",
	    LIMIT, N_ROWS, sum, n_pushed);
	stop(dfi, registry);
	return sum != LIMIT * (LIMIT - 1) / 2 || n_pushed == N_ROWS;
}
