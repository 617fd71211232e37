/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to a flow whose rings take long to reserve, or whose entry in the
 * registry is damaged. From inside, because neither can be caused from outside.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <dfi/dfi.h>

#include "base/clock.h"
#include "base/loop.h"
#include "dfi_flow.pb-c.h"
#include "flows/context/context.h"
#include "flows/descriptor/descriptor.h"
#include "registry/client/client.h"
#include "registry/server/server.h"

#define OPEN_TIMEOUT_MS 1000

static struct dfi_registry *registry;
static struct dfi *dfi;

/* The added time of reserving memory. */
static int64_t reserve_ns;

/* Keeps the registry busy. */
static pthread_t delay;
static sem_t delayed;

static int answer_late(void *arg)
{
	sem_post(&delayed);
	return nanosleep(arg, NULL);
}

/* The next request to the registry takes time as well, so that it matters. */
static void *delay_answers(void *arg)
{
	struct timespec time = { .tv_nsec = 200 * NS_PER_MS };
	const struct server *server = arg;

	dfi__loop_call(server->loop, answer_late, &time, DEADLINE_NEVER);
	return NULL;
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
	struct timespec time = deadline_timespec(reserve_ns);

	if (reserve_ns) {
		nanosleep(&time, NULL);
		/* A registry begins with its server. */
		if (pthread_create(&delay, NULL, delay_answers, registry) == 0)
			sem_wait(&delayed);
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

static const struct dfi_field fields[] = {
	{ "key", NULL, DFI_UINT64, 0, 8, 0 },
	{ "value", NULL, DFI_UINT64, 8, 8, 0 },
};

static const struct dfi_schema schema = {
	.fields = fields,
	.n_fields = 2,
	.tuple_size = 16,
};

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	cr_assert_eq(dfi_registry_start(NULL, &registry), 0);
	attr.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(attach, .init = setup, .fini = teardown, .timeout = 300);

/* The registry works, and is asked only then. */
Test(attach, may_take_longer_than_the_timeout_to_reserve_rings)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = 1,
		.n_targets = 1,
	};
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;

	cr_assert_eq(dfi_flow_create(dfi, "f", &attr), 0, "%s", dfi_errmsg());
	target_attr.open_timeout_ms = OPEN_TIMEOUT_MS;
	cr_assert_eq(sem_init(&delayed, 0, 0), 0);
	reserve_ns = INT64_C(2) * OPEN_TIMEOUT_MS * NS_PER_MS;
	cr_assert_eq(dfi_target_open(dfi, "f", 0, &target_attr, &target), 0,
	    "%s", dfi_errmsg());
	reserve_ns = 0;
	cr_assert_eq(pthread_join(delay, NULL), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

/* Make the flow's entry contain a sum of a missing field. */
static void damage(void)
{
	int64_t deadline = deadline_in_ms(60000);
	struct registry_value value;
	DfiFlow__Flow *message;
	char key[KEY_SIZE], *field;
	uint8_t data[4096];
	size_t size;

	dfi__flow_key(key, "f");
	cr_assert_eq(dfi__client_get(dfi->registry, key, deadline, &value), 0);
	message = dfi_flow__flow__unpack(NULL, value.size, value.data);
	dfi__registry_value_free(&value);
	cr_assert(message);
	field = message->aggregates[0]->field;
	message->aggregates[0]->field = (char[]){ "nothing" };
	size = dfi_flow__flow__pack(message, data);
	message->aggregates[0]->field = field;
	dfi_flow__flow__free_unpacked(message, NULL);
	cr_assert_eq(
	    dfi__client_put(dfi->registry, key, data, size, 0, deadline, NULL),
	    0);
}

static void expect_damage(int ret)
{
	cr_assert_eq(ret, -EBADMSG, "%d %s", ret, dfi_errmsg());
	cr_assert(strstr(dfi_errmsg(), "damaged"), "%s", dfi_errmsg());
	cr_assert(strstr(dfi_errmsg(), "'f'"), "%s", dfi_errmsg());
	cr_assert(strstr(dfi_errmsg(), "'nothing'"), "%s", dfi_errmsg());
}

/* An attaching endpoint passes nothing that could be invalid. */
Test(attach, distinguishes_damaged_aggregates_from_invalid_arguments)
{
	static const struct dfi_aggregate sum = { DFI_SUM, 0, "value", NULL };
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_COMBINE,
		.schema = &schema,
		.n_sources = 1,
		.n_targets = 1,
		.combine.group_by = "key",
		.combine.n_aggregates = 1,
		.combine.aggregates = &sum,
	};
	struct dfi_schema *results;
	struct dfi_target *target;
	struct dfi_source *source;

	cr_assert_eq(dfi_flow_create(dfi, "f", &attr), 0, "%s", dfi_errmsg());
	damage();
	expect_damage(dfi_target_open(dfi, "f", 0, NULL, &target));
	expect_damage(dfi_source_open(dfi, "f", 0, NULL, &source));
	expect_damage(dfi_flow_result_schema(dfi, "f", &results));
}
