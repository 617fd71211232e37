/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads send numbers; two others receive them by hash and add them up. */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <dfi/dfi.h>

#define N_NUMBERS 1000000UL
struct number {
	uint64_t value;
};
static const struct dfi_field fields[] = { DFI_FIELD(struct number, value) };
static const struct dfi_schema schema = DFI_SCHEMA(struct number, fields);

static struct dfi *dfi;
static uint64_t sums[2];

static void check(int ret)
{
	if (ret < 0)
		errx(1, "%s", dfi_errmsg());
}

static void *send_numbers(void *index)
{
	uint32_t i = *(const uint32_t *)index;
	struct dfi_source *source;
	struct number number;

	check(dfi_source_open(dfi, "numbers", i, NULL, &source));
	for (number.value = i; number.value < N_NUMBERS; number.value += 2)
		check(dfi_source_push(source, &number));
	check(dfi_source_close(source));
	return NULL;
}

static void *receive_numbers(void *index)
{
	uint32_t i = *(const uint32_t *)index;
	struct dfi_target *target;
	const void *tuple;

	check(dfi_target_open(dfi, "numbers", i, NULL, &target));
	while (dfi_target_consume(target, &tuple) > 0)
		sums[i] += ((const struct number *)tuple)->value;
	check(dfi_target_close(target)); /* tells why, if it wasn't the end */
	return NULL;
}

int main(void)
{
	static uint32_t index[2] = { 0, 1 };
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_attr attr = DFI_ATTR_INIT;
	pthread_t threads[4];

	attr.registry = "local:"; /* several processes share a dfi-registry */
	check(dfi_open(&attr, &dfi));
	flow.kind = DFI_SHUFFLE;
	flow.schema = &schema;
	flow.n_sources = flow.n_targets = 2;
	check(dfi_flow_create(dfi, "numbers", &flow));
	for (int i = 0; i < 4; i++)
		if ((errno = pthread_create(&threads[i], NULL,
			 i < 2 ? send_numbers : receive_numbers,
			 &index[i % 2])) != 0)
			err(1, "cannot start a thread");
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	check(dfi_close(dfi));
	printf("%lu + %lu = %lu\n", sums[0], sums[1], sums[0] + sums[1]);
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
	return sums[0] + sums[1] != N_NUMBERS * (N_NUMBERS - 1) / 2;
}
