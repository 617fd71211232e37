/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport of tuples: existing devices, the flow's transport, and its
 * counters. Tests that need a device run where DFI_TEST_DEVICE names it, as in
 * the testbed.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "flow_help.h"

static struct rig rig;

TestSuite(devices, .timeout = 300);
TestSuite(transport, .timeout = 300);
TestSuite(stats, .timeout = 300);

/* Of RDMA; and how often libfabric. */
struct seen {
	unsigned n, usable, chosen, of_test_device, of_ofi;
};

static int see_ofi(struct seen *seen, const struct dfi_device_info *info)
{
	const char *address = getenv("DFI_OFI_ADDRESS");

	seen->of_ofi++;
	cr_assert_eq(info->chosen, !info->reason[0]);
	if (!info->chosen)
		return 0;
	cr_assert_str_eq(info->device, "tcp");
	cr_assert_str_eq(info->address, address ? address : "127.0.0.1");
	cr_assert_eq(info->plain_text, address != NULL);
	if (!address)
		cr_assert_str_eq(info->interface, "lo");
	return 0;
}

static int see(void *arg, const struct dfi_device_info *info)
{
	const char *wanted = getenv("DFI_TEST_DEVICE");
	struct seen *seen = arg;

	if (!strcmp(info->transport, "ofi"))
		return see_ofi(seen, info);
	cr_assert_str_eq(info->transport, "verbs");
	if (!info->device[0]) {
		cr_assert_eq(seen->n, 0);
		cr_assert_not_null(strstr(info->reason, "RDMA"));
		return 0;
	}
	seen->n++;
	cr_assert_eq(info->plain_text, 1);
	seen->usable += !info->reason[0];
	if (wanted && !strcmp(info->device, wanted))
		seen->of_test_device++;
	if (info->reason[0])
		cr_assert_not(info->chosen, "%s", info->reason);
	if (!info->chosen)
		return 0;
	seen->chosen++;
	cr_assert_neq(info->address[0], '\0');
	cr_assert_neq(info->interface[0], '\0');
	cr_assert_str_eq(info->state, "active");
	cr_assert_gt(info->port, 0);
	cr_assert_geq(info->mtu, 256);
	if (!strcmp(info->link_layer, "Ethernet") && info->gid_index >= 0) {
		cr_assert_not_null(strstr(info->gid, info->address));
		if (strchr(info->address, '.'))
			cr_assert_eq(info->gid, strstr(info->gid, "::ffff:"));
	}
	return 0;
}

static int stop(void *arg, const struct dfi_device_info *info)
{
	(void)info;
	++*(int *)arg;
	return 17;
}

Test(devices, are_listed_or_it_is_said_why_there_are_none)
{
	struct seen seen = { .n = 0 };

	cr_assert_eq(dfi_device_list(see, &seen), 0, "%s", dfi_errmsg());
	cr_assert_eq(seen.chosen, seen.usable > 0);
	cr_assert_eq(seen.of_ofi, 1);
	cr_assert(seen.n > 0 || !getenv("DFI_TEST_DEVICE"));
}

Test(devices, over_libfabric_are_at_the_address_of_the_settings)
{
	struct seen seen = { .n = 0 };

	/* An address for documents, which no host has. */
	setenv("DFI_OFI_ADDRESS", "192.0.2.77", 1);
	cr_assert_eq(dfi_device_list(see, &seen), 0, "%s", dfi_errmsg());
	cr_assert_eq(seen.of_ofi, 1);
	setenv("DFI_OFI_PROVIDER", "pigeon", 1);
	cr_assert_eq(dfi_device_list(see, &seen), 0, "%s", dfi_errmsg());
	cr_assert_eq(seen.of_ofi, 2);
}

Test(devices, that_the_settings_exclude_are_not_chosen)
{
	struct seen seen = { .n = 0 };
	int n_stops = 0;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_VERBS_DEVICE", getenv("DFI_TEST_DEVICE"), 1);
	cr_assert_eq(dfi_device_list(see, &seen), 0);
	cr_assert_gt(seen.of_test_device, 0);
	cr_assert_eq(seen.chosen, 1);
	seen = (struct seen){ .n = 0 };
	setenv("DFI_VERBS_DEVICE", "none_such", 1);
	cr_assert_eq(dfi_device_list(see, &seen), 0);
	cr_assert_gt(seen.n, 0);
	cr_assert_eq(seen.usable + seen.chosen, 0);
	cr_assert_eq(dfi_device_list(stop, &n_stops), 17);
	cr_assert_eq(n_stops, 1);
}

Test(devices, wrong_arguments_are_named)
{
	assert_error(dfi_device_list(NULL, NULL), -EINVAL, "fn");
	setenv("DFI_TRANSPORT", "pigeon", 1);
	assert_error(dfi_device_list(see, NULL), -EINVAL, "pigeon");
}

static void create_flow(struct dfi *dfi, uint32_t transport)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &kv_schema;
	attr.n_sources = attr.n_targets = 1;
	attr.segment_size = 4 * sizeof(struct kv);
	attr.segment_count = 4;
	attr.transport = transport;
	cr_assert_eq(dfi_flow_create(dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

/* One tuple goes from a context to another one, and the end. */
static void run_flow(struct dfi *from, struct dfi *to)
{
	struct dfi_target *target = open_target(to, "f", 0, 0);
	struct dfi_source *source = open_source(from, "f", 0, 0);
	struct kv kv = { 1, 2 };
	const void *tuple;

	cr_assert_eq(dfi_source_push(source, &kv), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	cr_assert_eq(memcmp(tuple, &kv, sizeof(kv)), 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

/* Without a device this proves it: verbs, which the setting demands, can't. */
Test(transport, shm_of_the_flow_beats_the_setting)
{
	struct dfi_target *target;
	struct dfi_flow_info info;

	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	create_flow(rig.dfi, DFI_TRANSPORT_SHM);
	cr_assert_eq(dfi_flow_lookup(rig.other, "f", &info), 0);
	cr_assert_eq(info.transport, DFI_TRANSPORT_SHM);
	run_flow(rig.dfi, rig.other);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	create_flow(rig.dfi, DFI_TRANSPORT_AUTO);
	run_flow(rig.dfi, rig.other);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	create_flow(rig.dfi, DFI_TRANSPORT_DEFAULT);
	if (getenv("DFI_TEST_DEVICE"))
		run_flow(rig.dfi, rig.other);
	else
		assert_error(dfi_target_open(rig.dfi, "f", 0, NULL, &target),
		    -ENODEV, "flow 'f'", "target 0", "RDMA");
	rig_stop(&rig);
}

Test(transport, verbs_of_the_flow_needs_a_device)
{
	struct dfi_target *target;

	if (getenv("DFI_TEST_DEVICE"))
		cr_skip_test("DFI_TEST_DEVICE is set");
	setenv("DFI_TRANSPORT", "shm", 1);
	rig_start(&rig);
	create_flow(rig.dfi, DFI_TRANSPORT_VERBS);
	assert_error(dfi_target_open(rig.other, "f", 0, NULL, &target), -ENODEV,
	    "flow 'f'", "target 0", "RDMA");
	rig_stop(&rig);
}

/* The source wants verbs, and the target's process has another setting. */
static void expect_why(const char *setting, const char *why)
{
	struct dfi_target *target;
	struct dfi_source *source;
	struct dfi *there;

	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	setenv("DFI_TRANSPORT", setting, 1);
	there = rig_join(&rig);
	create_flow(rig.dfi, DFI_TRANSPORT_DEFAULT);
	target = open_target(there, "f", 0, 0);
	assert_error(dfi_source_open(rig.dfi, "f", 0, NULL, &source),
	    -EHOSTUNREACH, "flow 'f'", "source 0", "target 0", "verbs", why);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_close(there), 0);
	rig_stop(&rig);
}

Test(transport, source_says_why_a_target_is_not_there_over_verbs)
{
	expect_why("shm", "DFI_TRANSPORT=auto");
	expect_why("auto", "registry");
}

Test(transport, verbs_of_the_flow_beats_the_setting)
{
	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "shm", 1);
	rig_start(&rig);
	create_flow(rig.dfi, DFI_TRANSPORT_VERBS);
	run_flow(rig.dfi, rig.other);
	rig_stop(&rig);
}

/* This many more descriptors are available, or fewer. */
static void leave_files(rlim_t n)
{
	struct rlimit limit;
	int lowest = fcntl(0, F_DUPFD_CLOEXEC, 0);

	cr_assert_geq(lowest, 0);
	close(lowest);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)lowest + n;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Any resource that a device needs may be the one too many. */
Test(transport, files_that_run_out_are_no_missing_device)
{
	struct dfi_target *target = NULL;
	int n, ret = -EMFILE;
	struct rlimit limit;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	create_flow(rig.dfi, DFI_TRANSPORT_VERBS);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (n = 0; ret < 0 && n < 100; n++) {
		leave_files((rlim_t)n);
		ret = dfi_target_open(rig.other, "f", 0, NULL, &target);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		if (ret < 0)
			assert_error(ret, -EMFILE, "flow 'f'", "ulimit -n");
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_gt(n, 4);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	create_flow(rig.dfi, DFI_TRANSPORT_VERBS);
	run_flow(rig.dfi, rig.other);
	rig_stop(&rig);
}

/* A missing part of the library is no cause either: it is a file. */
Test(transport, files_that_run_out_are_no_missing_module)
{
	struct dfi_target *target;
	struct rlimit limit;

	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	create_flow(rig.dfi, DFI_TRANSPORT_VERBS);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	leave_files(0);
	assert_error(dfi_target_open(rig.other, "f", 0, NULL, &target), -EMFILE,
	    "flow 'f'", "target 0", "ulimit -n");
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	rig_stop(&rig);
}

/* The counters of how rings notice segments. */
struct ways {
	uint64_t footer, checksum, imm;
};

static struct ways ways_of(struct dfi *dfi)
{
	struct dfi_transport_stats stats = device_stats(dfi);

	return (struct ways){ counter(&stats, "footer_rings"),
		counter(&stats, "checksum_rings"),
		counter(&stats, "imm_rings") };
}

static uint64_t doorbells(struct dfi *dfi)
{
	struct dfi_transport_stats stats = device_stats(dfi);

	return counter(&stats, "doorbells");
}

static int count_transports(void *arg, const struct dfi_transport_stats *stats)
{
	(void)stats;
	++*(uint32_t *)arg;
	return 0;
}

Test(stats, are_of_no_device_without_a_network)
{
	uint32_t n = 0;

	setenv("DFI_TRANSPORT", "shm", 1);
	rig_start(&rig);
	create_flow(rig.dfi, DFI_TRANSPORT_DEFAULT);
	run_flow(rig.dfi, rig.other);
	cr_assert_eq(dfi_context_query(rig.dfi, count_transports, &n), 0);
	cr_assert_eq(n, 0);
	assert_error(dfi_context_query(rig.dfi, NULL, NULL), -EINVAL, "fn");
	assert_error(
	    dfi_context_query(NULL, count_transports, &n), -EINVAL, "NULL");
	rig_stop(&rig);
}

/* Over the loopback transport or over verbs. */
Test(stats, have_a_part_for_each_transport)
{
	const char *name = getenv("DFI_TEST_LOOPBACK") ? "loopback" : "verbs";
	struct dfi_transport_stats from, to;
	uint64_t value = 0;
	uint32_t i;

	if (!over_verbs())
		cr_skip_test("DFI_TRANSPORT is not verbs");
	rig_start(&rig);
	create_flow(rig.dfi, DFI_TRANSPORT_DEFAULT);
	run_flow(rig.dfi, rig.other);
	from = device_stats(rig.dfi);
	to = device_stats(rig.other);
	cr_assert_str_eq(from.transport, name);
	cr_assert_str_eq(to.transport, name);
	cr_assert_eq(from.is_known, 1);
	cr_assert_gt(from.writes + to.writes, 0);
	cr_assert_gt(from.n_counters, 0);
	for (i = 0; i < from.n_counters; i++) {
		value = from.counters[i].value + 1;
		cr_assert_eq(
		    dfi_transport_counter(&from, from.counters[i].name, &value),
		    0);
		cr_assert_eq(value, from.counters[i].value);
	}
	assert_error(dfi_transport_counter(&from, "coffees", &value), -ENOENT,
	    name, "'coffees'");
	rig_stop(&rig);
}

enum {
	SEGMENTS = 1000,
	SEGMENT_COUNT = 64,
	SEGMENT_TUPLES = 32
};

/* Push whole segments; the target is some behind. */
static void stream(struct dfi_source *source, struct dfi_target *target)
{
	struct kv kv = { 1, 2 };
	const void *tuple;
	uint32_t i;

	for (i = 0; i < SEGMENTS * SEGMENT_TUPLES; i++) {
		cr_assert_eq(dfi_source_push(source, &kv), 0);
		if (i >= 4 * SEGMENT_TUPLES)
			cr_assert_eq(consume_soon(target, &tuple), 1);
	}
	cr_assert_eq(dfi_source_flush(source), 0);
	for (i = 0; i < 4 * SEGMENT_TUPLES; i++)
		cr_assert_eq(consume_soon(target, &tuple), 1);
}

Test(stats, show_one_write_a_segment_and_few_credits_and_completions)
{
	struct dfi_transport_stats from, to;
	struct ways from_ways, to_ways;
	struct dfi_flow_info info;
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t messages;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	create_kv_flow(rig.dfi, "f", 1, 1, SEGMENT_TUPLES, SEGMENT_COUNT);
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	stream(source, target);
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	cr_assert_not_null(
	    strstr(info.devices, "source 0: "), "%s", info.devices);
	cr_assert_not_null(
	    strstr(info.devices, "target 0: "), "%s", info.devices);
	cr_assert_not_null(strstr(info.devices, getenv("DFI_TEST_DEVICE")));
	from = device_stats(rig.dfi);
	to = device_stats(rig.other);
	from_ways = ways_of(rig.dfi);
	to_ways = ways_of(rig.other);
	cr_assert_not_null(strstr(info.devices,
	    from_ways.imm ? ", immediate data" : ", footers are polled"));
	cr_assert_eq(strstr(info.devices, ", with checksums") != NULL,
	    from_ways.checksum);
	messages = from.writes + from.messages + to.credits + to.messages;
	cr_assert_eq(from.writes, SEGMENTS);
	cr_assert_geq(from.bytes,
	    (uint64_t)SEGMENTS * SEGMENT_TUPLES * sizeof(struct kv));
	cr_assert_eq(counter(&from, "inline_writes"), 0);
	cr_assert_gt(to.credits, 0);
	cr_assert_leq(
	    (double)messages / SEGMENTS, 1 + 4.0 / SEGMENT_COUNT + 0.01);
	cr_assert_leq(16 * from.completions, from.writes + from.messages);
	cr_assert_leq(16 * to.completions, to.credits + to.messages);
	cr_assert_eq(from_ways.footer + from_ways.checksum + from_ways.imm, 1);
	cr_assert_eq(to_ways.footer, from_ways.footer);
	cr_assert_eq(to_ways.checksum, from_ways.checksum);
	cr_assert_eq(to_ways.imm, from_ways.imm);
	cr_assert_str_eq(from.transport, "verbs");
	cr_assert_eq(from.is_known, 1);
	cr_assert_eq(from.connections, 1);
	cr_assert_eq(to.connections, 1);
	cr_assert_eq(
	    from.broken_connections + counter(&from, "fatal_events"), 0);
	cr_assert_eq(to.broken_connections + counter(&to, "fatal_events"), 0);
	cr_assert_gt(counter(&from, "port"), 0);
	/* Messages, and the shadow ring or the ring. */
	cr_assert_eq(from.memory_regions, 2);
	cr_assert_eq(to.memory_regions, 2);
	cr_assert_neq(from.device[0], '\0');
	cr_assert_neq(from.address[0], '\0');
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	rig_stop(&rig);
}

static struct dfi_target *open_waiting(
    const char *flow, uint32_t segment_tuples, uint32_t wait, uint32_t flags)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;

	create_kv_flow(rig.dfi, flow, 1, 1, segment_tuples, SEGMENT_COUNT);
	attr.wait = wait;
	attr.flags = flags;
	cr_assert_eq(dfi_target_open(rig.other, flow, 0, &attr, &target), 0,
	    "%s", dfi_errmsg());
	return target;
}

/* How the target learns of segments, by itself. */
static struct ways rings_of(const char *flow, struct dfi_target *target)
{
	struct dfi_source *source = open_source(rig.dfi, flow, 0, 0);
	struct ways ways = ways_of(rig.other);

	cr_assert_eq(ways.footer + ways.checksum + ways.imm, 1);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	return ways;
}

static void expect_imm(const char *flow, struct dfi_target *target)
{
	cr_assert_eq(rings_of(flow, target).imm, 1, "%s", flow);
}

/* If the device promises no order, as soft-RoCE. */
Test(stats, show_checksums_where_a_target_spins_for_small_segments)
{
	struct dfi_target_group *group;
	struct dfi_target *target;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	setenv("DFI_VERBS_NOTIFY", "auto", 1);
	rig_start(&rig);
	target = open_waiting("blocks", 4, DFI_WAIT_BLOCK, 0);
	if (rings_of("blocks", target).footer)
		cr_skip_test("the device promises to write in order");
	target = open_waiting("spins", 4, DFI_WAIT_SPIN, 0);
	cr_assert_eq(rings_of("spins", target).checksum, 1);
	target = open_waiting("again", 4, DFI_WAIT_BLOCK, 0);
	expect_imm("again", target);
	target = open_waiting("large", 64, DFI_WAIT_SPIN, 0);
	expect_imm("large", target);
	target = open_waiting("polls", 4, DFI_WAIT_SPIN, DFI_NONBLOCK);
	expect_imm("polls", target);
	target = open_waiting("grouped", 4, DFI_WAIT_SPIN, 0);
	cr_assert_eq(dfi_target_group_open(rig.other, NULL, &group), 0);
	cr_assert_eq(dfi_target_group_add(group, target, NULL), 0);
	expect_imm("grouped", target);
	cr_assert_eq(dfi_target_group_close(group), 0);
	rig_stop(&rig);
}

/* All are looked at for each segment. */
Test(stats, show_checksums_on_few_rings)
{
	enum {
		FLOWS = 20,
		MOST = 16
	};
	struct ways ways;
	struct dfi_target *targets[FLOWS];
	struct dfi_source *sources[FLOWS];
	char name[16];
	int i;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	setenv("DFI_VERBS_NOTIFY", "auto", 1);
	rig_start(&rig);
	for (i = 0; i < FLOWS; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		targets[i] = open_waiting(name, 4, DFI_WAIT_SPIN, 0);
		sources[i] = open_source(rig.dfi, name, 0, 0);
	}
	ways = ways_of(rig.other);
	if (ways.footer)
		cr_skip_test("the device promises to write in order");
	cr_assert_eq(ways.checksum, MOST);
	cr_assert_eq(ways.imm, FLOWS - MOST);
	for (i = 0; i < FLOWS; i++) {
		cr_assert_eq(dfi_source_close(sources[i]), 0);
		cr_assert_eq(dfi_target_close(targets[i]), 0);
	}
	rig_stop(&rig);
}

enum {
	BATCH_SEGMENTS = 8,
	BATCH_TUPLES = BATCH_SEGMENTS * SEGMENT_TUPLES,
	CHAIN = 4 /* VERBS_CHAIN */
};

/* This many tuples from key on arrive without a flush; then no more. */
static void expect_keys(struct dfi_target *target, uint64_t key, int n)
{
	const struct kv *kv;
	const void *tuple;
	int i;

	for (i = 0; i < n; i++) {
		cr_assert_eq(consume_soon(target, &tuple), 1);
		kv = tuple;
		cr_assert_eq(kv->key, key + (uint64_t)i);
	}
	cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
}

/* With room for a batch, and for one more list of writes. */
static void open_both(struct dfi_source **source, struct dfi_target **target)
{
	rig_start(&rig);
	create_kv_flow(
	    rig.dfi, "f", 1, 1, SEGMENT_TUPLES, BATCH_SEGMENTS + CHAIN);
	*target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	*source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
}

/*
 * All tuples are taken, or the ring is full, whatever ends the call. Its full
 * segments don't wait for another call.
 */
Test(stats, show_that_a_batch_of_segments_is_posted_together)
{
	struct dfi_transport_stats before, after;
	struct kv batch[2 * BATCH_TUPLES];
	struct dfi_source *source;
	struct dfi_target *target;
	int i, key, taken;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	open_both(&source, &target);
	for (i = 0; i < 2 * BATCH_TUPLES; i++)
		batch[i] = (struct kv){ (uint64_t)i, 0 };
	before = device_stats(rig.dfi);
	cr_assert_eq(
	    dfi_source_push_batch(source, batch, BATCH_TUPLES), BATCH_TUPLES);
	after = device_stats(rig.dfi);
	cr_assert_eq(after.writes - before.writes, BATCH_SEGMENTS);
	cr_assert_eq(
	    counter(&after, "doorbells") - counter(&before, "doorbells"),
	    BATCH_SEGMENTS / CHAIN);
	expect_keys(target, 0, BATCH_TUPLES);
	/* Fewer than are posted together. */
	cr_assert_eq(dfi_source_push_batch(source, batch, 2 * SEGMENT_TUPLES),
	    2 * SEGMENT_TUPLES);
	expect_keys(target, 0, 2 * SEGMENT_TUPLES);
	/* One tuple more than a segment: it stays here. */
	cr_assert_eq(dfi_source_push_batch(source, batch, SEGMENT_TUPLES + 1),
	    SEGMENT_TUPLES + 1);
	expect_keys(target, 0, SEGMENT_TUPLES);
	cr_assert_eq(dfi_source_push_batch(source, batch + SEGMENT_TUPLES + 1,
			 SEGMENT_TUPLES - 1),
	    SEGMENT_TUPLES - 1);
	expect_keys(target, SEGMENT_TUPLES, SEGMENT_TUPLES);
	/* More than the ring takes. */
	for (key = 0; key < 2 * BATCH_TUPLES; key += taken) {
		taken = dfi_source_push_batch(
		    source, batch + key, (uint32_t)(2 * BATCH_TUPLES - key));
		if (taken == -EAGAIN)
			taken = 0;
		cr_assert_geq(taken, 0, "%s", dfi_errmsg());
		cr_assert_eq((key + taken) % SEGMENT_TUPLES, 0);
		expect_keys(target, (uint64_t)key, taken);
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
	rig_stop(&rig);
}

/* Fill the open segment, with keys from here on. */
static void fill_segment(struct dfi_source *source, uint32_t lane, uint64_t key,
    uint32_t n, bool more)
{
	struct dfi_span span;
	struct kv *kv;
	uint32_t i;

	cr_assert_eq(
	    dfi_source_claim(source, lane, &span), 0, "%s", dfi_errmsg());
	cr_assert_leq(n, span.count);
	for (kv = span.tuples, i = 0; i < n; i++)
		kv[i] = (struct kv){ key + i, 0 };
	cr_assert_eq((more ? dfi_source_commit_more : dfi_source_commit)(
			 source, &span, n),
	    0, "%s", dfi_errmsg());
}

/*
 * A lane is full, or its target wants no more: then the source may do other
 * work.
 */
Test(stats, show_that_nothing_is_held_where_there_is_no_room)
{
	enum {
		ODD_COUNT = CHAIN + 1
	};
	struct dfi_source *source;
	struct dfi_target *targets[2];
	struct dfi_span span;
	int64_t deadline;
	int i, ret;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	create_kv_flow(rig.dfi, "f", 1, 2, SEGMENT_TUPLES, ODD_COUNT);
	targets[0] = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	targets[1] = open_target(rig.other, "f", 1, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	for (i = 0; i < ODD_COUNT; i++)
		fill_segment(source, 0, (uint64_t)i * SEGMENT_TUPLES,
		    SEGMENT_TUPLES, true);
	cr_assert_eq(dfi_source_claim(source, 0, &span), -EAGAIN);
	expect_keys(targets[0], 0, ODD_COUNT * SEGMENT_TUPLES);
	for (i = 0; i < ODD_COUNT; i++)
		fill_segment(source, 1, 0, SEGMENT_TUPLES, true);
	cr_assert_eq(dfi_target_cancel(targets[1]), 0);
	deadline = now_ms() + 10000;
	while ((ret = dfi_source_claim(source, 1, &span)) == -EAGAIN)
		cr_assert_lt(now_ms(), deadline, "not cancelled");
	cr_assert_eq(ret, -EPIPE);
	while (dfi_source_claim(source, 0, &span) == -EAGAIN)
		cr_assert_lt(now_ms(), deadline, "no credit");
	fill_segment(source, 0, 0, SEGMENT_TUPLES, true);
	ret = dfi_source_claim(source, 1, &span);
	cr_assert_eq(ret, -EPIPE);
	expect_keys(targets[0], 0, SEGMENT_TUPLES);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
	rig_stop(&rig);
}

/* A queue pair for each of two processes, as it were. */
Test(stats, show_that_one_queue_pair_holds_writes_at_a_time)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *targets[2];
	struct kv kv = { 1, 1 };
	struct dfi *third;
	uint64_t rung;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	third = rig_join(&rig);
	attr.kind = DFI_SHUFFLE;
	attr.schema = &kv_schema;
	attr.routing = DFI_ROUTE_ROUND_ROBIN;
	attr.n_sources = 1;
	attr.n_targets = 2;
	attr.segment_size = SEGMENT_TUPLES * sizeof(kv);
	attr.segment_count = SEGMENT_COUNT;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	targets[0] = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	targets[1] = open_target(third, "f", 1, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	rung = doorbells(rig.dfi);
	fill_segment(source, 0, 0, SEGMENT_TUPLES, true);
	cr_assert_eq(doorbells(rig.dfi), rung);
	/* The other one's goes out. */
	fill_segment(source, 1, 0, SEGMENT_TUPLES, true);
	cr_assert_eq(doorbells(rig.dfi), rung + 1);
	expect_keys(targets[0], 0, SEGMENT_TUPLES);
	/* This one's, though what is pushed fills nothing. */
	cr_assert_eq(dfi_source_push_batch(source, &kv, 1), 1);
	cr_assert_eq(doorbells(rig.dfi), rung + 2);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
	cr_assert_eq(dfi_close(third), 0);
	rig_stop(&rig);
}

enum {
	STREAM_SEGMENTS = 400
};

static void *consume_all(void *arg)
{
	const struct kv *kv;
	const void *tuple;
	uint64_t key = 0;
	int ret;

	while ((ret = dfi_target_consume(arg, &tuple)) > 0) {
		kv = tuple;
		cr_assert_eq(kv->key, key++);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(key, STREAM_SEGMENTS * SEGMENT_TUPLES);
	return NULL;
}

/* With rings of enough segments that writes are held when they are full. */
Test(stats, show_that_nobody_waits_for_what_is_held)
{
	static const uint32_t counts[] = { 2, 3, 4, 5, 7, 13 };
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *target;
	pthread_t consumer;
	uint64_t key;
	size_t i;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	attr.schema = &kv_schema;
	attr.stall_timeout_ms = LONG_MS;
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		create_kv_flow(rig.dfi, "f", 1, 1, SEGMENT_TUPLES, counts[i]);
		target = open_target(rig.other, "f", 0, 0);
		cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &attr, &source),
		    0, "%s", dfi_errmsg());
		pthread_create(&consumer, NULL, consume_all, target);
		for (key = 0; key < STREAM_SEGMENTS * SEGMENT_TUPLES;
		     key += SEGMENT_TUPLES)
			fill_segment(source, 0, key, SEGMENT_TUPLES, true);
		cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
		pthread_join(consumer, NULL);
		cr_assert_eq(dfi_target_close(target), 0);
		cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	}
	rig_stop(&rig);
}

/* Segments wait until the source says that it sends nothing more now. */
Test(stats, show_that_segments_with_more_to_come_are_posted_together)
{
	struct dfi_transport_stats before, after;
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	uint64_t key = 0, rung;
	int i;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	open_both(&source, &target);
	before = device_stats(rig.dfi);
	for (i = 0; i < BATCH_SEGMENTS; i++, key += SEGMENT_TUPLES)
		fill_segment(source, 0, key, SEGMENT_TUPLES, true);
	after = device_stats(rig.dfi);
	cr_assert_eq(after.writes - before.writes, BATCH_SEGMENTS);
	cr_assert_eq(
	    counter(&after, "doorbells") - counter(&before, "doorbells"),
	    BATCH_SEGMENTS / CHAIN);
	expect_keys(target, 0, BATCH_TUPLES);
	/* Held, and sent with the last one, which is not full. */
	rung = doorbells(rig.dfi);
	fill_segment(source, 0, key, SEGMENT_TUPLES, true);
	cr_assert_eq(doorbells(rig.dfi), rung);
	fill_segment(source, 0, key + SEGMENT_TUPLES, 1, false);
	cr_assert_eq(doorbells(rig.dfi), rung + 1);
	expect_keys(target, key, SEGMENT_TUPLES);
	key += SEGMENT_TUPLES;
	/* With what is flushed, if anything is. */
	fill_segment(source, 0, key + 1, SEGMENT_TUPLES - 1, true);
	cr_assert_eq(doorbells(rig.dfi), rung + 1);
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(doorbells(rig.dfi), rung + 2);
	expect_keys(target, key, SEGMENT_TUPLES);
	key += SEGMENT_TUPLES;
	/* And at the end. */
	fill_segment(source, 0, key, SEGMENT_TUPLES, true);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (i = 0; i < SEGMENT_TUPLES; i++)
		cr_assert_eq(consume_soon(target, &tuple), 1);
	cr_assert_eq(consume_soon(target, &tuple), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
	rig_stop(&rig);
}

enum {
	FLUSHES = 20,
	LARGE_SEGMENT = 4096 /* tuples */
};

/* Also with checksums, which travel with the tuples. */
static void flush_single_tuples(uint32_t verify)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_transport_stats before, after;
	struct dfi_source *source;
	struct dfi_target *target;
	struct kv kv = { 1, 2 };
	const void *tuple;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &kv_schema;
	attr.n_sources = attr.n_targets = 1;
	attr.segment_size = LARGE_SEGMENT * sizeof(kv);
	attr.segment_count = 4;
	attr.verify = verify;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	before = device_stats(rig.dfi);
	for (kv.key = 0; kv.key < FLUSHES; kv.key++) {
		cr_assert_eq(dfi_source_push(source, &kv), 0);
		cr_assert_eq(dfi_source_flush(source), 0);
		cr_assert_eq(consume_soon(target, &tuple), 1);
		cr_assert_eq(memcmp(tuple, &kv, sizeof(kv)), 0);
		cr_assert_eq((uintptr_t)tuple % 64, 0);
	}
	after = device_stats(rig.dfi);
	cr_assert_eq(after.writes - before.writes, FLUSHES);
	cr_assert_leq(after.bytes - before.bytes, FLUSHES * 4 * 64);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(consume_soon(target, &tuple), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

Test(stats, show_that_a_flushed_tuple_takes_no_whole_segment)
{
	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	flush_single_tuples(DFI_VERIFY_NONE);
	flush_single_tuples(DFI_VERIFY_CHECKSUM);
	rig_stop(&rig);
}

Test(stats, show_a_receive_for_each_segment_that_may_be_under_way)
{
	struct dfi_target *small, *large;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	create_kv_flow(rig.dfi, "small", 1, 1, SEGMENT_TUPLES, SEGMENT_COUNT);
	create_kv_flow(rig.dfi, "large", 2, 1, 1, 3000);
	small = open_target(rig.dfi, "small", 0, 0);
	cr_assert_lt(device_stats(rig.dfi).receives, 6000);
	large = open_target(rig.dfi, "large", 0, 0);
	cr_assert_geq(device_stats(rig.dfi).receives, 6000);
	dfi_target_close(large);
	dfi_target_close(small);
	rig_stop(&rig);
}

enum {
	SIDES = 4
};

/* Between two processes: each has four sources and four targets. */
static void open_and_close_all(void)
{
	struct dfi *at[2] = { rig.dfi, rig.other };
	static const char *const flows[2] = { "there", "back" };
	struct dfi_source *sources[2][SIDES];
	struct dfi_target *targets[2][SIDES];
	uint32_t f, i;

	for (f = 0; f < 2; f++) {
		create_kv_flow(rig.dfi, flows[f], SIDES, SIDES, 4, 4);
		for (i = 0; i < SIDES; i++)
			targets[f][i] = open_target(at[!f], flows[f], i, 0);
		for (i = 0; i < SIDES; i++)
			sources[f][i] = open_source(at[f], flows[f], i, 0);
	}
	for (f = 0; f < 2; f++)
		cr_assert_leq(device_stats(at[f]).connections, 2 * SIDES);
	for (f = 0; f < 2; f++) {
		for (i = 0; i < SIDES; i++)
			cr_assert_eq(dfi_source_close(sources[f][i]), 0);
		for (i = 0; i < SIDES; i++)
			cr_assert_eq(dfi_target_close(targets[f][i]), 0);
		cr_assert_eq(dfi_flow_remove(rig.dfi, flows[f]), 0);
	}
}

Test(stats, show_a_queue_pair_for_each_source_and_peer_used_again)
{
	int i;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	for (i = 0; i < 16; i++)
		open_and_close_all();
	cr_assert_eq(device_stats(rig.dfi).connections, 2 * SIDES);
	cr_assert_eq(device_stats(rig.other).connections, 2 * SIDES);
	rig_stop(&rig);
}
