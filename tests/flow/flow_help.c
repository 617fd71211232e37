/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of flows; see flow_help.h. */
#include "flow_help.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct dfi_field kv_fields[] = {
	DFI_FIELD(struct kv, key),
	DFI_FIELD(struct kv, val),
};

const struct dfi_schema kv_schema = DFI_SCHEMA(struct kv, kv_fields);

/* Cases run at once, so each has a prefix of its own in an etcd. */
static const char *given_address(void)
{
	static char address[256];
	const char *given = getenv("DFI_TEST_REGISTRY");

	if (!given || strncmp(given, "etcd:", strlen("etcd:")) != 0)
		return given;
	snprintf(address, sizeof(address), "%s/%ld", given, (long)getpid());
	return address;
}

const char *rig_address(const struct rig *rig)
{
	return rig->registry ? dfi_registry_address(rig->registry)
			     : given_address();
}

struct dfi *rig_join(const struct rig *rig)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi = NULL;

	attr.registry = rig_address(rig);
	attr.open_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	return dfi;
}

void rig_start(struct rig *rig)
{
	rig->registry = NULL;
	if (!getenv("DFI_TEST_REGISTRY"))
		cr_assert_eq(dfi_registry_start(NULL, &rig->registry), 0, "%s",
		    dfi_errmsg());
	rig->dfi = rig_join(rig);
	rig->other = rig_join(rig);
}

void rig_stop(struct rig *rig)
{
	cr_assert_eq(dfi_close(rig->other), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_close(rig->dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(rig->registry), 0);
}

uint64_t rng_next(struct rng *rng)
{
	rng->state += UINT64_C(0x9e3779b97f4a7c15);
	return mix(rng->state, 0);
}

uint32_t rng_below(struct rng *rng, uint32_t n)
{
	return (uint32_t)(((rng_next(rng) >> 32) * n) >> 32);
}

uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = a ^ (b * UINT64_C(0xd6e8feb86659fd93));

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void yield_times(uint32_t n)
{
	int64_t end = now_ms() + 100;

	while (n-- && now_ms() < end)
		sched_yield();
}

bool eventually(bool (*condition)(void *arg), void *arg)
{
	int64_t deadline = now_ms() + LONG_MS;

	while (!condition(arg)) {
		if (now_ms() >= deadline)
			return false;
		sched_yield();
	}
	return true;
}

uint64_t test_setting(const char *name, uint64_t value)
{
	char variable[64];
	const char *text;

	snprintf(variable, sizeof(variable), "DFI_TEST_%s", name);
	text = getenv(variable);
	return text && *text ? strtoull(text, NULL, 0) : value;
}

uint32_t fewer(uint32_t n)
{
	uint32_t divisor = (uint32_t)test_setting("DIVISOR", 1);

	cr_assert(divisor > 0 && divisor <= n);
	return n / divisor;
}

void create_kv_flow(struct dfi *dfi, const char *name, uint32_t n_sources,
    uint32_t n_targets, uint32_t segment_tuples, uint32_t segment_count)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &kv_schema;
	attr.n_sources = n_sources;
	attr.n_targets = n_targets;
	attr.segment_size = segment_tuples * (uint32_t)sizeof(struct kv);
	attr.segment_count = segment_count;
	cr_assert_eq(dfi_flow_create(dfi, name, &attr), 0, "%s", dfi_errmsg());
}

struct dfi_source *open_source(
    struct dfi *dfi, const char *flow, uint32_t index, uint32_t flags)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.flags = flags;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(dfi, flow, index, &attr, &source), 0, "%s",
	    dfi_errmsg());
	return source;
}

struct dfi_target *open_target(
    struct dfi *dfi, const char *flow, uint32_t index, uint32_t flags)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.flags = flags;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(dfi, flow, index, &attr, &target), 0, "%s",
	    dfi_errmsg());
	return target;
}

static int take_first(void *arg, const struct dfi_transport_stats *stats)
{
	*(struct dfi_transport_stats *)arg = *stats;
	return 1;
}

struct dfi_transport_stats device_stats(struct dfi *dfi)
{
	struct dfi_transport_stats stats = { .n_counters = 0 };

	cr_assert_geq(
	    dfi_context_query(dfi, take_first, &stats), 0, "%s", dfi_errmsg());
	return stats;
}

uint64_t counter(const struct dfi_transport_stats *stats, const char *name)
{
	uint64_t value = 0;

	cr_assert_eq(
	    dfi_transport_counter(stats, name, &value), 0, "%s", dfi_errmsg());
	return value;
}

/* In a child: loading it could hide what the library does as it loads it. */
void need_tls(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(!dlopen("libevent_openssl-2.1.so.7", RTLD_LAZY));
	cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (status)
		cr_skip_test("libevent-openssl-2.1-7 is not installed");
}

bool over_verbs(void)
{
	const char *transport = getenv("DFI_TRANSPORT");

	return transport && strcmp(transport, "verbs") == 0;
}

bool over_network(void)
{
	const char *transport = getenv("DFI_TRANSPORT");

	return over_verbs() || (transport && strcmp(transport, "ofi") == 0);
}

int consume_soon(struct dfi_target *target, const void **tuple)
{
	int64_t deadline = now_ms() + LONG_MS;
	int ret;

	while ((ret = dfi_target_consume(target, tuple)) == -EAGAIN &&
	    now_ms() < deadline)
		sched_yield();
	return ret;
}

struct kv numbered_kv(uint64_t number)
{
	return (struct kv){ mix(number, 5), number };
}

void expect_number(struct dfi_target *target, uint64_t number)
{
	const void *tuple;
	const struct kv *kv;

	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	kv = tuple;
	cr_assert_eq(kv->val, number);
	cr_assert_eq(kv->key, numbered_kv(number).key);
}

void expect_nothing(struct dfi_target *target)
{
	const void *tuple;

	assert_error(dfi_target_consume(target, &tuple), -EAGAIN, "no tuple");
}

void end_target(struct dfi_target *target)
{
	const void *tuple;

	cr_assert_eq(consume_soon(target, &tuple), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

void push_number(struct dfi_source *source, uint64_t number)
{
	struct kv kv = numbered_kv(number);

	cr_assert_eq(dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
}

int consume_batch_soon(struct dfi_target *target, struct dfi_batch *batch)
{
	int64_t deadline = now_ms() + LONG_MS;
	int ret;

	while ((ret = dfi_target_consume_batch(target, batch)) == -EAGAIN &&
	    now_ms() < deadline)
		sched_yield();
	return ret;
}

const void *cursor_get_soon(struct dfi_target_cursor *cursor, size_t size)
{
	int64_t deadline = now_ms() + LONG_MS;
	const void *tuple;

	while (!(tuple = dfi_target_cursor_get(cursor, size)) &&
	    cursor->status == -EAGAIN && now_ms() < deadline)
		sched_yield();
	return tuple;
}

int push_soon(struct dfi_source *source, const void *tuple)
{
	int64_t deadline = now_ms() + LONG_MS;
	int ret;

	while ((ret = dfi_source_push(source, tuple)) == -EAGAIN &&
	    now_ms() < deadline)
		sched_yield();
	return ret;
}

void expect_error(int line, int ret, int err, ...)
{
	const char *word;
	va_list ap;

	cr_assert_eq(ret, err, "line %d: returned %d (%s), expected %d (%s)",
	    line, ret, ret < 0 ? dfi_errmsg() : "no error", err,
	    dfi_strerror(err));
	va_start(ap, err);
	while ((word = va_arg(ap, const char *)))
		cr_assert(strstr(dfi_errmsg(), word) != NULL,
		    "line %d: '%s' is not in '%s'", line, word, dfi_errmsg());
	va_end(ap);
}
