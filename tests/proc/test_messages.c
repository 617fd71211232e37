/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of faults, word by word: people read them, and search for them.
 * Only processes, hosts and paths are filled in.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spawn.h"
#include "worker.h"

#define FLOW "orders"
#define LONG_MS 60000u

static struct dfi_registry *registry;
static struct dfi *dfi;
static const char *address;
static char host[64];

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	gethostname(host, sizeof(host) - 1);
	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
	address = attr.registry = dfi_registry_address(registry);
	attr.node_name = "judge";
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(lone_messages, .timeout = 300);
TestSuite(messages, .init = setup, .fini = teardown, .timeout = 300);

/* The code of a call, and its whole text. */
__attribute__((format(printf, 3, 4))) static void expect(
    int ret, int err, const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	cr_assert_eq(ret, err, "%d instead of %d: %s", ret, err, dfi_errmsg());
	cr_assert_str_eq(
	    dfi_errmsg(), text, "\n%s\nis not\n%s", dfi_errmsg(), text);
}

/* A broken connection may be noticed before the registry says why. */
static void needs_shared_memory(void)
{
	const char *transport = getenv("DFI_TRANSPORT");

	if (transport && strcmp(transport, "auto") && strcmp(transport, "shm"))
		cr_skip_test("over a network the text also names the device");
}

static void create_flow(uint32_t n_sources, uint32_t n_targets)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &worker_schema,
		.n_sources = n_sources,
		.n_targets = n_targets,
		.segment_size = 4 * (uint32_t)sizeof(struct worker_tuple),
		.segment_count = 2,
	};

	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

static struct dfi_source *open_source(uint32_t index, uint32_t stall_ms)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.open_timeout_ms = LONG_MS;
	attr.stall_timeout_ms = stall_ms;
	cr_assert_eq(dfi_source_open(dfi, FLOW, index, &attr, &source), 0, "%s",
	    dfi_errmsg());
	return source;
}

static struct dfi_target *open_target(uint32_t index)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.open_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(dfi, FLOW, index, &attr, &target), 0, "%s",
	    dfi_errmsg());
	return target;
}

/* Push until that fails. */
static int push_on(struct dfi_source *source)
{
	struct worker_tuple tuple;
	uint32_t i = 0;
	int ret;

	do {
		worker_make_tuple(0, i++, &tuple);
		ret = dfi_source_push(source, &tuple);
	} while (!ret);
	return ret;
}

static int consume_on(struct dfi_target *target)
{
	const void *tuple;
	int ret;

	do
		ret = dfi_target_consume(target, &tuple);
	while (ret > 0);
	return ret;
}

Test(messages, of_a_killed_source)
{
	struct dfi_target *target;
	struct child child;

	needs_shared_memory();
	create_flow(1, 1);
	target = open_target(0);
	child_spawn(&child, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "4",
	    "source:0", NULL);
	child_expect(&child, "source 0 held 4");
	child_signal(&child, SIGKILL);
	expect(consume_on(target), -ECONNRESET,
	    "flow 'orders': source 0 (node %s, host %s, pid %d) died or closed "
	    "before the end of the flow",
	    host, host, (int)child.pid);
	dfi_target_close(target);
	child_wait(&child);
}

Test(messages, of_a_killed_target)
{
	struct dfi_source *source;
	struct child child;

	needs_shared_memory();
	create_flow(1, 1);
	child_spawn(&child, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "1",
	    "target:0", NULL);
	child_expect(&child, "target 0 open");
	source = open_source(0, 0);
	child_signal(&child, SIGKILL);
	expect(push_on(source), -ECONNRESET,
	    "flow 'orders': target 0 (node %s, host %s, pid %d) died or closed "
	    "before the end of the flow",
	    host, host, (int)child.pid);
	dfi_source_close(source);
	child_wait(&child);
}

Test(messages, of_a_source_that_aborts)
{
	struct dfi_source *source;
	struct dfi_target *target;

	create_flow(1, 1);
	target = open_target(0);
	source = open_source(0, 0);
	dfi_source_abort(source);
	expect(dfi_source_close(source), -ECANCELED,
	    "flow 'orders': source 0 was aborted here (dfi_source_abort())");
	expect(consume_on(target), -ECANCELED,
	    "flow 'orders': source 0 (node judge, host %s, pid %d) aborted the "
	    "flow after 0 tuples",
	    host, (int)getpid());
	dfi_target_close(target);
}

Test(messages, of_a_target_that_cancels)
{
	struct dfi_source *source;
	struct dfi_target *target;

	create_flow(1, 1);
	target = open_target(0);
	source = open_source(0, 0);
	cr_assert_eq(dfi_target_cancel(target), 0);
	expect(consume_on(target), -ECANCELED,
	    "flow 'orders': target 0 was cancelled here (dfi_target_cancel())");
	expect(push_on(source), -EPIPE,
	    "flow 'orders': source 0: target 0 (node judge, host %s, pid %d) "
	    "has cancelled: it takes no more tuples",
	    host, (int)getpid());
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	dfi_target_close(target);
}

Test(messages, of_a_target_that_does_not_read)
{
	struct dfi_source *source;
	struct dfi_target *target;

	create_flow(1, 1);
	target = open_target(0);
	source = open_source(0, 50);
	expect(push_on(source), -ETIMEDOUT,
	    "flow 'orders': source 0: the ring of target 0 stayed full for 50 "
	    "ms");
	expect(dfi_source_close(source), -ETIMEDOUT,
	    "flow 'orders': source 0: closed after a push for target 0 found "
	    "no room and was not repeated");
	dfi_target_close(target);
}

Test(messages, of_peers_that_do_not_come)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;

	attr.open_timeout_ms = 5000; /* enough for a registry to answer */
	expect(dfi_source_open(dfi, FLOW, 0, &attr, &source), -ETIMEDOUT,
	    "flow 'orders': nobody has created it");
	create_flow(1, 3);
	expect(dfi_source_open(dfi, FLOW, 0, &attr, &source), -ETIMEDOUT,
	    "flow 'orders': waiting for target 0 and 2 more of 3: nobody has "
	    "opened them");
}

Test(messages, of_a_number_that_is_taken_or_does_not_exist)
{
	struct dfi_target *target, *other;

	create_flow(1, 1);
	target = open_target(0);
	expect(dfi_target_open(dfi, FLOW, 0, NULL, &other), -EEXIST,
	    "flow 'orders': target 0 is attached already");
	expect(dfi_target_open(dfi, FLOW, 1, NULL, &other), -ERANGE,
	    "flow 'orders': target 1: the flow has 1, numbered from 0");
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(messages, of_a_peer_with_another_schema)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;

	create_flow(1, 1);
	attr.schema = &worker_other_schema;
	expect(dfi_target_open(dfi, FLOW, 0, &attr, &target), -EPROTOTYPE,
	    "flow 'orders': field 1 is source:uint32@8 in the flow, but "
	    "origin:uint32@8 in the endpoint's schema");
}

Test(messages, of_a_tuple_larger_than_a_segment)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &worker_schema,
		.n_sources = 1,
		.n_targets = 1,
		.segment_size = 8,
	};

	expect(dfi_flow_create(dfi, FLOW, &attr), -EMSGSIZE,
	    "flow 'orders': a tuple of 16 bytes doesn't fit a segment of 8: "
	    "raise segment_size");
}

Test(messages, of_too_many_endpoints)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_flow_needs estimate;

	attr.kind = DFI_SHUFFLE;
	attr.n_sources = 5000;
	attr.n_targets = 1;
	expect(dfi_flow_create(dfi, FLOW, &attr), -EINVAL,
	    "flow 'orders': n_sources is 5000, but a flow has at most 4096 "
	    "sources: open fewer, or divide them among several flows");
	attr.n_sources = 1;
	attr.n_targets = 4097;
	expect(dfi_flow_estimate(dfi, &attr, &estimate), -EINVAL,
	    "flow '(estimate)': n_targets is 4097, but a flow has at most 4096 "
	    "targets: open fewer, or divide them among several flows");
}

Test(messages, of_a_context_that_is_in_use)
{
	struct dfi_target *target;

	create_flow(1, 1);
	target = open_target(0);
	expect(dfi_close(dfi), -EBUSY,
	    "dfi_close: 1 sources, targets, barriers and calls use the "
	    "context: close or await them first");
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(messages, of_a_handle_in_a_forked_child)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(dfi_close(dfi) != -EOWNERDEAD ||
		    strcmp(dfi_errmsg(),
			"the context (struct dfi) was opened before fork(): a "
			"child opens its own context") != 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

Test(messages, of_a_lower_limit_on_ring_memory)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_target *target;
	struct dfi *small;

	create_flow(1, 1);
	setenv("DFI_RING_MEMORY_LIMIT", "64", 1);
	setenv("DFI_HUGE_PAGES", "never", 1);
	attr.registry = address;
	cr_assert_eq(dfi_open(&attr, &small), 0, "%s", dfi_errmsg());
	expect(dfi_target_open(small, FLOW, 0, NULL, &target), -ENOMEM,
	    "flow 'orders': target 0: %d bytes for rings, but 0 are taken of "
	    "the 64 that this context may have: raise DFI_RING_MEMORY_LIMIT, "
	    "close endpoints, or make rings smaller (segment_count, "
	    "DFI_RING_MEMORY)",
	    getpagesize());
	cr_assert_eq(dfi_close(small), 0);
}

/* ---- Without a registry
 * ------------------------------------------------------ */

Test(lone_messages, of_a_registry_that_is_not_there)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *none;

	unsetenv("DFI_REGISTRY");
	expect(dfi_open(NULL, &none), -EINVAL,
	    "no registry is named: set DFI_REGISTRY, or the program "
	    "dfi_attr.registry, to "
	    "the address of a dfi-registry, such as unix:/run/dfi.sock, "
	    "or to local: within one process");
	attr.registry = "unix:/nowhere/dfi.sock";
	expect(dfi_open(&attr, &none), -ECONNREFUSED,
	    "nobody answers at registry address 'unix:/nowhere/dfi.sock': "
	    "start dfi-registry there, or set DFI_REGISTRY to where it is");
	attr.registry = "somewhere";
	expect(dfi_open(&attr, &none), -EINVAL,
	    "registry address 'somewhere': unknown kind; use unix:PATH, "
	    "unix:@NAME, tcp:IP:PORT or tcp:[IPV6]:PORT, the IP in digits, "
	    "etcd:https://HOST:PORT for an etcd, or local: within one process");
}

/* Of the context, the flow and target 0. */
Test(lone_messages, of_a_registry_that_has_no_room_for_more_endpoints)
{
	struct dfi_registry_attr registry_attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_target *target, *other;

	registry_attr.max_keys = 3;
	cr_assert_eq(dfi_registry_start(&registry_attr, &registry), 0, "%s",
	    dfi_errmsg());
	attr.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	create_flow(1, 2);
	target = open_target(0);
	expect(dfi_target_open(dfi, FLOW, 1, NULL, &other), -ENOSPC,
	    "flow 'orders': target 1: registry %s: the registry is at its "
	    "limit of 3 keys, one for each context, flow, endpoint and "
	    "barrier: close some, or raise max_keys (dfi_registry_attr)",
	    attr.registry);
	cr_assert_eq(dfi_target_close(target), 0);
	teardown();
}

Test(lone_messages, of_a_setting_that_is_not_valid)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *none;

	setenv("DFI_WAIT", "fast", 1);
	attr.registry = "unix:@any";
	expect(dfi_open(&attr, &none), -EINVAL,
	    "DFI_WAIT=fast is not valid; it sets how calls wait: adaptive, "
	    "spin or block");
}

Test(lone_messages, of_a_registry_that_was_killed)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_flow_info info;
	struct child server;
	char where[sizeof(server.line)];
	int ret;

	if (access(DFI_BIN_DIR "/dfi-registry", X_OK) < 0)
		cr_skip_test("dfi-registry is not built");
	child_spawn_registry(&server, NULL);
	snprintf(where, sizeof(where), "%s", server.line);
	attr.registry = where;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	child_signal(&server, SIGKILL);
	child_wait(&server);
	/* Until it has tried to connect again. */
	do
		ret = dfi_flow_lookup(dfi, FLOW, &info);
	while (!strstr(dfi_errmsg(), "not back yet"));
	expect(ret, -ENOTCONN,
	    "the connection to registry %s is lost, and is not back yet: "
	    "nobody answers at registry address '%s': start dfi-registry "
	    "there, or set DFI_REGISTRY to where it is",
	    where, where);
	cr_assert_eq(dfi_close(dfi), 0);
}
