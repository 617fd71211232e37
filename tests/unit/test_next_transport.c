/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which transport a source takes. Only passing the memory's descriptor shows
 * whether it can be shared; here it fails, and the loopback is the next
 * transport. A fake network stands for a third one.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../flow/flow_help.h"
#include "../transport/loopback/loopback.h"
#include "base/error.h"
#include "flows/context/network.h"
#include "flows/endpoint/source.h"

static struct rig rig; /* its contexts also offer regions over the network */
static struct dfi *from;

static int fetch_error;
static unsigned n_fetches;
static char logged[1024]; /* the line about the way that was taken instead */
static char warned[1024], missed[1024];

/* See tests/CMakeLists.txt. */
int __wrap_dfi__shm_pass_fetch(const struct region_name *name,
    const struct wait_limit *wait_limit, int *fd);

int __wrap_dfi__shm_pass_fetch(const struct region_name *name,
    const struct wait_limit *wait_limit, int *fd)
{
	(void)name;
	(void)wait_limit;
	(void)fd;
	n_fetches++;
	return dfi__fail(fetch_error, "no descriptor came");
}

static void note(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	if (level == DFI_LOG_WARN)
		snprintf(warned, sizeof(warned), "%s", line);
	if (strstr(line, " is missing"))
		snprintf(missed, sizeof(missed), "%s", line);
	if (strstr(line, ": writes to node "))
		snprintf(logged, sizeof(logged), "%s", line);
}

static void setup(void)
{
	setenv("DFI_TEST_LOOPBACK", "1", 1);
	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	dfi_log_set(DFI_LOG_INFO, note, NULL);
}

static void teardown(void)
{
	loopback_refuses = loopback_detour_refuses = 0;
	loopback_missing = 0;
	cr_assert_eq(dfi_close(from), 0);
	rig_stop(&rig);
}

TestSuite(next_transport, .init = setup, .fini = teardown, .timeout = 300);

/* A context with this setting, and what its attempts to fetch come to. */
static void start(const char *setting, int error)
{
	setenv("DFI_TRANSPORT", setting, 1);
	from = rig_join(&rig);
	fetch_error = error;
}

/* A tuple goes over the loopback. */
static void expect_loopback(void)
{
	struct dfi_target *target = open_target(rig.dfi, "f", 0, 0);
	struct dfi_source *source = open_source(from, "f", 0, 0);
	const struct transport *transport = source->rings[0].remote->transport;

	cr_assert_eq(transport->ops, &loopback_ops);
	push_number(source, 7);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_number(target, 7);
	end_target(target);
}

static void expect_failure(int error)
{
	struct dfi_target *target = open_target(rig.dfi, "f", 0, 0);
	struct dfi_source *source;

	assert_error(dfi_source_open(from, "f", 0, NULL, &source), error,
	    "flow 'f'", "source 0", "target 0", "no descriptor came");
	cr_assert_eq(n_fetches, 1);
	cr_assert_eq(dfi_target_close(target), 0);
}

static void expect_next(int error)
{
	start("auto", error);
	expect_loopback();
	cr_assert_eq(n_fetches, 1);
	cr_assert_not_null(
	    strstr(logged, "flow 'f': source 0: "), "%s", logged);
	cr_assert_not_null(
	    strstr(logged, " over loopback: no descriptor came"), "%s", logged);
}

Test(next_transport, is_taken_where_the_socket_is_not_the_owner)
{
	expect_next(-ECONNRESET);
}

Test(next_transport, is_taken_where_the_owner_refuses)
{
	expect_next(-EACCES);
}

Test(next_transport, is_not_taken_where_a_resource_is_missing)
{
	start("auto", -EMFILE);
	expect_failure(-EMFILE);
}

Test(next_transport, is_not_taken_where_memory_is_demanded)
{
	start("shm", -EACCES);
	expect_failure(-EACCES);
}

Test(next_transport, is_the_only_one_where_a_network_is_demanded)
{
	start("verbs", -EACCES);
	expect_loopback();
	cr_assert_eq(n_fetches, 0);
}

/*
 * This process has both networks. The address is of another process, so that no
 * transport here has the route to it.
 */
Test(next_transport, is_of_the_kind_that_the_address_has)
{
	const struct published_region there = {
		.size = 4096,
		.n_addresses = 1,
		.addresses[0] = {
			.transport = transport_row("loopback"),
			.name.address = "loopback:1:1",
		},
	};
	struct network_ways ways;
	struct transport *transport;

	start("verbs", 0);
	unsetenv("DFI_TEST_LOOPBACK");
	cr_assert_eq(
	    dfi__network_open(from, DFI_TRANSPORT_VERBS, &transport), 0);
	cr_assert_eq(transport->ops, &dfi__verbs_ops);
	setenv("DFI_TEST_LOOPBACK", "1", 1);
	cr_assert_eq(dfi__network_ways(
			 from, DFI_TRANSPORT_VERBS, &there, 0, NULL, &ways),
	    0);
	cr_assert_eq(ways.n, 1);
	cr_assert_eq(ways.at[0].transport->ops, &loopback_ops);
}

/* ---- Several addresses ------------------------------------------------- */

static void start_both(const char *devices)
{
	setenv("DFI_TEST_LOOPBACK_DEVICES", devices, 1);
	setenv("DFI_TEST_DETOUR", "1", 1);
	start("verbs", 0);
}

#define SOURCES 2
#define TARGETS 4

/* Open a flow's rings, write a tuple to each, and read it. */
static void run_many(const struct transport *over[SOURCES][TARGETS])
{
	struct dfi_target *targets[TARGETS];
	struct dfi_source *sources[SOURCES];
	uint32_t s, t, n_seen, sum;
	const void *tuple;
	struct kv kv = { 0 };

	create_kv_flow(rig.dfi, "many", SOURCES, TARGETS, 4, 4);
	for (t = 0; t < TARGETS; t++)
		targets[t] = open_target(rig.dfi, "many", t, 0);
	for (s = 0; s < SOURCES; s++)
		sources[s] = open_source(from, "many", s, 0);
	for (s = 0; s < SOURCES; s++)
		for (t = 0; t < TARGETS; t++) {
			over[s][t] = sources[s]->rings[t].remote->transport;
			kv.key = s + 1;
			cr_assert_eq(dfi_source_push_to(sources[s], t, &kv), 0);
		}
	for (s = 0; s < SOURCES; s++)
		cr_assert_eq(
		    dfi_source_close(sources[s]), 0, "%s", dfi_errmsg());
	for (t = 0; t < TARGETS; t++) {
		for (sum = n_seen = 0; n_seen < SOURCES; n_seen++) {
			cr_assert_eq(consume_soon(targets[t], &tuple), 1);
			sum += (uint32_t)((const struct kv *)tuple)->key;
		}
		cr_assert_eq(sum, 3);
		end_target(targets[t]);
	}
}

Test(next_transport, rings_are_spread_over_the_devices_of_the_best_network)
{
	const struct transport *over[SOURCES][TARGETS];
	uint32_t s, t;

	start_both("2");
	run_many(over);
	for (s = 0; s < SOURCES; s++)
		for (t = 0; t < TARGETS; t++)
			cr_assert_eq(over[s][t]->ops, &loopback_ops);
	cr_assert_neq(over[0][0], over[0][1]);
	for (s = 0; s < SOURCES; s++)
		for (t = 0; t < TARGETS; t++)
			cr_assert_eq(over[s][t], over[0][(s + t) % 2]);
}

struct devices {
	unsigned n;
	uint64_t writes[8];
	char name[8][16];
};

static int note_device(void *arg, const struct dfi_transport_stats *stats)
{
	struct devices *devices = arg;

	devices->writes[devices->n] = stats->writes;
	snprintf(devices->name[devices->n++], 16, "%s", stats->transport);
	return 0;
}

Test(next_transport, each_device_has_its_counters)
{
	const struct transport *over[SOURCES][TARGETS];
	struct devices devices = { .n = 0 };

	start_both("2");
	run_many(over);
	cr_assert_eq(dfi_context_query(from, note_device, &devices), 0);
	/* The sources took both devices of the one, and one of the other. */
	cr_assert_geq(devices.n, 2);
	cr_assert_str_eq(devices.name[0], "loopback");
	cr_assert_str_eq(devices.name[1], "loopback");
	cr_assert_eq(devices.writes[0], devices.writes[1]);
	cr_assert_gt(devices.writes[0], 0);
}

Test(next_transport, all_addresses_are_published)
{
	struct dfi_flow_info info;
	struct dfi_target *target;
	struct endpoint *endpoint;
	struct dfi_source *source;

	start_both("2");
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(from, "f", 0, 0);
	endpoint = &source->targets.peer[0].endpoint;
	cr_assert_eq(endpoint->region.n_addresses, 5);
	cr_assert_str_eq(
	    region_address_at(&endpoint->region, 0)->transport->name, "shm");
	cr_assert_str_eq(
	    region_address_at(&endpoint->region, 1)->transport->name,
	    "loopback");
	cr_assert_str_eq(
	    region_address_at(&endpoint->region, 2)->transport->name,
	    "loopback");
	cr_assert_str_neq(region_address_at(&endpoint->region, 1)->name.address,
	    region_address_at(&endpoint->region, 2)->name.address);
	cr_assert_str_eq(
	    region_address_at(&endpoint->region, 3)->transport->name, "detour");
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	cr_assert_not_null(
	    strstr(info.devices, ":0 and loopback:"), "%s", info.devices);
	cr_assert_eq(dfi_source_close(source), 0);
	end_target(target);
}

Test(next_transport, next_address_is_taken_where_the_best_does_not_answer)
{
	struct dfi_target *target;
	struct dfi_source *source;

	start_both("2");
	loopback_refuses = -EHOSTUNREACH;
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(from, "f", 0, 0);
	cr_assert_eq(
	    source->rings[0].remote->transport->ops, &loopback_detour_ops);
	cr_assert_not_null(
	    strstr(warned, " over detour: loopback: "), "%s", warned);
	cr_assert_not_null(
	    strstr(warned, "does not answer; loopback: "), "%s", warned);
	push_number(source, 7);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_number(target, 7);
	end_target(target);
}

Test(next_transport, device_that_is_missing_leaves_the_others)
{
	const struct transport *over[SOURCES][TARGETS];
	uint32_t s, t;

	loopback_missing = 2;
	start_both("2");
	run_many(over);
	for (s = 0; s < SOURCES; s++)
		for (t = 0; t < TARGETS; t++) {
			cr_assert_eq(over[s][t], over[0][0]);
			cr_assert_eq(over[s][t]->ops, &loopback_ops);
		}
	cr_assert_not_null(
	    strstr(missed, "not each device can be used: loopback: device 1"),
	    "%s", missed);
}

Test(next_transport, error_has_what_each_address_said)
{
	struct dfi_target *target;
	struct dfi_source *source;

	start_both("1");
	loopback_refuses = -EHOSTUNREACH;
	loopback_detour_refuses = -ECONNREFUSED;
	target = open_target(rig.dfi, "f", 0, 0);
	assert_error(dfi_source_open(from, "f", 0, NULL, &source),
	    -ECONNREFUSED, "flow 'f'",
	    "loopback: loopback:", "does not answer; detour: loopback:");
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(next_transport, next_address_is_not_taken_where_a_resource_is_missing)
{
	struct dfi_target *target;
	struct dfi_source *source;

	start_both("1");
	loopback_refuses = -EMFILE;
	target = open_target(rig.dfi, "f", 0, 0);
	assert_error(dfi_source_open(from, "f", 0, NULL, &source), -EMFILE,
	    "loopback: loopback:");
	cr_assert_eq(dfi_target_close(target), 0);
}

/* Its send buffer is of one network; the ring of the other gets copies. */
Test(next_transport, replicated_segments_go_over_two_networks)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_target *targets[2];
	struct dfi_source *source;
	uint64_t i;

	start_both("1");
	attr.kind = DFI_REPLICATE;
	attr.schema = &kv_schema;
	attr.n_sources = 1;
	attr.n_targets = 2;
	attr.segment_size = 4 * sizeof(struct kv);
	attr.segment_count = 16;
	attr.replicate.method = DFI_REPLICATION_NAIVE;
	cr_assert_eq(dfi_flow_create(rig.dfi, "r", &attr), 0);
	unsetenv("DFI_TEST_LOOPBACK");
	targets[1] = open_target(rig.dfi, "r", 1, 0);
	setenv("DFI_TEST_LOOPBACK", "1", 1);
	targets[0] = open_target(rig.dfi, "r", 0, 0);
	source = open_source(from, "r", 0, 0);
	cr_assert_eq(source->rings[0].remote->transport->ops, &loopback_ops);
	cr_assert_eq(
	    source->rings[1].remote->transport->ops, &loopback_detour_ops);
	cr_assert_not_null(source->rings[0].remote->send_buffer);
	cr_assert_null(source->rings[1].remote->send_buffer);
	for (i = 0; i < 30; i++)
		push_number(source, i);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (i = 0; i < 60; i++)
		expect_number(targets[i / 30], i % 30);
	end_target(targets[0]);
	end_target(targets[1]);
}
