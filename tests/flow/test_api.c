/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invalid calls on contexts and flows: their error codes and texts, and the
 * registry's content. For sources and targets: test_errors.c.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flow_help.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(context, .timeout = 300);
TestSuite(flow, .init = setup, .fini = teardown, .timeout = 300);

static int open_with(const char *registry, const char *node_name)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi;

	attr.registry = registry;
	attr.node_name = node_name;
	attr.open_timeout_ms = LONG_MS;
	return dfi_open(&attr, &dfi);
}

Test(context, needs_a_registry)
{
	struct dfi *dfi = NULL;

	unsetenv("DFI_REGISTRY");
	assert_error(
	    dfi_open(NULL, &dfi), -EINVAL, "dfi_attr.registry", "DFI_REGISTRY");
	cr_assert_null(dfi);
	assert_error(open_with("unix:@dfi-nobody-is-here", NULL), -ECONNREFUSED,
	    "@dfi-nobody-is-here");
	assert_error(open_with("nonsense", NULL), -EINVAL, "nonsense");
	assert_error(open_with("tcp:192.0.2.1:7", NULL), -EPERM, "192.0.2.1");
}

Test(context, takes_the_registry_from_the_environment)
{
	struct dfi_registry *registry;
	struct dfi *dfi;

	cr_assert_eq(dfi_registry_start(NULL, &registry), 0);
	setenv("DFI_REGISTRY", dfi_registry_address(registry), 1);
	cr_assert_eq(dfi_open(NULL, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

Test(context, refuses_bad_attributes)
{
	struct dfi_attr attr = { .size = 0 };
	char name[65];
	struct dfi *dfi;
	struct {
		struct dfi_attr attr;
		uint64_t more;
	} newer = { { .size = sizeof(newer) }, 1 };

	assert_error(dfi_open(&attr, &dfi), -EINVAL, "dfi_attr.size");
	assert_error(dfi_open(&newer.attr, &dfi), -E2BIG, "dfi_attr");
	assert_error(dfi_open(&attr, NULL), -EINVAL, "NULL");
	memset(name, 'n', 64);
	name[64] = '\0';
	assert_error(open_with("unix:@x", name), -EINVAL, "node_name", "63");
	assert_error(open_with("unix:@x", ""), -EINVAL, "node_name");
	assert_error(
	    open_with("unix:@x", "a\nb"), -EINVAL, "'a?b'", "printable ASCII");
	assert_error(open_with("unix:@x", "a\x1b"), -EINVAL, "printable ASCII");
	assert_error(open_with("unix:@x", "\x7f"), -EINVAL, "printable ASCII");
	assert_error(open_with("unix:@x", "\xc3\xa4"), -EINVAL, "printable");
	setenv("DFI_WAIT", "patiently", 1);
	assert_error(open_with("unix:@x", NULL), -EINVAL, "DFI_WAIT=patiently");
}

Test(context, handles_are_checked)
{
	struct dfi_flow_info info;

	assert_error(
	    dfi_flow_remove(NULL, "f"), -EINVAL, "the context", "is NULL");
	assert_error(dfi_flow_lookup(NULL, "f", &info), -EINVAL, "the context",
	    "is NULL");
	assert_error(dfi_source_flush(NULL), -EINVAL, "the source is NULL");
	cr_assert_eq(dfi_source_close(NULL), 0);
	cr_assert_eq(dfi_target_close(NULL), 0);
	cr_assert_eq(dfi_target_group_close(NULL), 0);
	cr_assert_eq(dfi_barrier_close(NULL), 0);
	cr_assert_eq(dfi_close(NULL), 0);
}

Test(context, version_is_that_of_the_headers)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d.%d", DFI_VERSION_MAJOR,
	    DFI_VERSION_MINOR, DFI_VERSION_PATCH);
	cr_assert_str_eq(dfi_version(), text);
}

Test(flow, context_with_open_endpoints_stays_open)
{
	struct dfi_target *target;
	struct dfi_source *source;
	const void *tuple;
	struct kv kv = { 1, 2 };

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	assert_error(
	    dfi_close(rig.dfi), -EBUSY, "1 sources, targets, barriers");
	assert_error(dfi_close(rig.other), -EBUSY, "close or await them");
	/* Nothing happened to them. */
	cr_assert_eq(dfi_source_push(source, &kv), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	cr_assert_eq(dfi_target_consume(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

static struct dfi_flow_attr kv_attr(void)
{
	struct dfi_flow_attr attr = { .size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = 2,
		.n_targets = 2 };

	return attr;
}

/* Spoil one member of a good attribute struct. */
#define refuse(member, value, err, ...)                                        \
	do {                                                                   \
		struct dfi_flow_attr attr = kv_attr();                         \
		attr.member = (value);                                         \
		assert_error(                                                  \
		    dfi_flow_create(rig.dfi, "f", &attr), (err), __VA_ARGS__); \
	} while (0)

Test(flow, attributes_out_of_range_are_named)
{
	struct dfi_schema empty = { kv_schema.fields, 0, 16 };

	refuse(size, 0, -EINVAL, "dfi_flow_attr.size");
	refuse(kind, 0, -EINVAL, "flow 'f'", "kind 0");
	refuse(kind, 77, -EINVAL, "kind 77");
	refuse(schema, NULL, -EINVAL, "schema");
	refuse(schema, &empty, -EINVAL, "schema");
	refuse(n_sources, 0, -EINVAL, "n_sources is 0");
	refuse(n_sources, DFI_MAX_ENDPOINTS + 1, -EINVAL, "n_sources is 4097");
	refuse(n_targets, 0, -EINVAL, "n_targets is 0");
	refuse(n_targets, DFI_MAX_ENDPOINTS + 1, -EINVAL, "n_targets is 4097");
	refuse(goal, 2, -EINVAL, "goal 2");
	refuse(routing, DFI_ROUTE_DIRECT + 1, -EINVAL, "routing 6");
	refuse(routing, DFI_ROUTE_RADIX, -EINVAL, "radix_bits 0");
	refuse(routing, DFI_ROUTE_RANGE, -EINVAL, "splits");
	refuse(key, "value", -EINVAL, "key", "'value'");
	refuse(flags, 2, -EINVAL, "flags 0x2");
	refuse(transport, DFI_TRANSPORT_OFI + 1, -EINVAL, "transport 5");
	refuse(segment_size, 15, -EMSGSIZE, "16 bytes", "15", "segment_size");
	refuse(segment_size, DFI_MAX_SEGMENT_SIZE + 1, -EINVAL, "segment_size");
	refuse(
	    segment_count, DFI_MAX_SEGMENT_COUNT + 1, -EINVAL, "segment_count");
}

Test(flow, missing_arguments_are_named)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	assert_error(dfi_flow_create(rig.dfi, "f", NULL), -EINVAL, "flow 'f'",
	    "attr is NULL");
	assert_error(dfi_flow_create(rig.dfi, NULL, &attr), -EINVAL,
	    "the flow name is NULL");
	assert_error(
	    dfi_flow_lookup(rig.dfi, "f", NULL), -EINVAL, "info is NULL");
	assert_error(dfi_flow_list(rig.dfi, NULL, NULL), -EINVAL,
	    "dfi_flow_list: fn is NULL");
	assert_error(dfi_node_list(rig.dfi, NULL, NULL), -EINVAL,
	    "dfi_node_list: fn is NULL");
}

Test(flow, latency_flow_has_segments_of_one_tuple)
{
	struct dfi_flow_attr attr = kv_attr();

	attr.goal = DFI_LATENCY;
	attr.segment_size = 32;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL,
	    "segment_size 32", "one tuple");
}

Test(flow, names_are_checked)
{
	static const char *const bad[] = { "", "a b", "a/b", "a\n", "\xc3\xa4",
		"a*" };
	struct dfi_flow_attr attr = kv_attr();
	char name[DFI_MAX_FLOW_NAME + 2];
	size_t i;

	for (i = 0; i < N_ELEMENTS(bad); i++)
		assert_error(dfi_flow_create(rig.dfi, bad[i], &attr), -EINVAL,
		    "flow name");
	assert_error(
	    dfi_flow_create(rig.dfi, NULL, &attr), -EINVAL, "flow name");
	memset(name, 'n', sizeof(name));
	name[DFI_MAX_FLOW_NAME + 1] = '\0';
	assert_error(
	    dfi_flow_create(rig.dfi, name, &attr), -EINVAL, "flow name", "127");
	name[DFI_MAX_FLOW_NAME] = '\0';
	cr_assert_eq(dfi_flow_create(rig.dfi, name, &attr), 0);
	cr_assert_eq(dfi_flow_create(rig.dfi, "A-z_0.9:", &attr), 0);
	cr_assert_eq(dfi_flow_remove(rig.other, name), 0);
	assert_error(dfi_flow_remove(rig.dfi, "a/b"), -EINVAL, "flow name");
}

Test(flow, description_larger_than_a_message_is_refused)
{
	static struct dfi_field fields[DFI_MAX_FIELDS];
	static char names[DFI_MAX_FIELDS][DFI_MAX_FIELD_NAME + 1];
	static int64_t splits[DFI_MAX_ENDPOINTS];
	struct dfi_schema schema = { fields, DFI_MAX_FIELDS, DFI_MAX_FIELDS };
	struct dfi_flow_attr attr = kv_attr();
	uint32_t i;

	for (i = 0; i < DFI_MAX_FIELDS; i++) {
		snprintf(
		    names[i], sizeof(names[i]), "%0*u", DFI_MAX_FIELD_NAME, i);
		fields[i] = (struct dfi_field){ names[i], names[i], DFI_USER, i,
			1, 0 };
	}
	for (i = 0; i < DFI_MAX_ENDPOINTS; i++)
		splits[i] = INT64_MIN + i;
	fields[0] = (struct dfi_field){ "key", NULL, DFI_INT64, 0, 8, 0 };
	attr.schema = &schema;
	attr.routing = DFI_ROUTE_RANGE;
	attr.splits = splits;
	attr.n_targets = DFI_MAX_ENDPOINTS;
	assert_error(
	    dfi_flow_create(rig.dfi, "f", &attr), -EMSGSIZE, "flow 'f'");
	attr.n_targets = 100;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

Test(flow, name_is_taken_once_at_a_time)
{
	struct dfi_flow_attr attr = kv_attr();

	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	assert_error(dfi_flow_create(rig.other, "f", &attr), -EEXIST,
	    "flow 'f' exists already");
	cr_assert_eq(dfi_flow_remove(rig.other, "f"), 0);
	assert_error(
	    dfi_flow_remove(rig.dfi, "f"), -ENOENT, "flow 'f' doesn't exist");
	cr_assert_eq(dfi_flow_create(rig.other, "f", &attr), 0);
}

Test(flow, lives_as_long_as_its_creator_unless_persistent)
{
	struct dfi_flow_attr attr = kv_attr();
	struct dfi *dfi = rig_join(&rig);
	struct dfi_flow_info info;

	cr_assert_eq(dfi_flow_create(dfi, "short", &attr), 0);
	attr.flags = DFI_FLOW_PERSISTENT;
	cr_assert_eq(dfi_flow_create(dfi, "long", &attr), 0);
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "short", &info), 0);
	cr_assert_eq(info.flags, 0);
	cr_assert_eq(dfi_close(dfi), 0);
	assert_error(dfi_flow_lookup(rig.dfi, "short", &info), -ENOENT,
	    "flow 'short' doesn't exist");
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "long", &info), 0);
	cr_assert_eq(info.flags, DFI_FLOW_PERSISTENT);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "long"), 0);
}

Test(flow, query_reports_what_was_declared_and_who_is_attached)
{
	struct dfi_flow_attr attr = kv_attr();
	struct dfi_target *target;
	struct dfi_flow_info info;
	char creator[64];

	attr.key = "val,key";
	attr.segment_size = 40;
	attr.segment_count = 3;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	cr_assert_eq(dfi_flow_create(rig.dfi, "f2", &attr), 0);
	target = open_target(rig.dfi, "f", 1, 0);
	cr_assert_eq(dfi_flow_lookup(rig.other, "f", &info), 0);
	cr_assert_str_eq(info.name, "f");
	cr_assert_eq(info.kind, DFI_SHUFFLE);
	cr_assert_eq(info.goal, DFI_BANDWIDTH);
	cr_assert_eq(info.routing, DFI_ROUTE_HASH);
	cr_assert_eq(info.n_sources, 2);
	cr_assert_eq(info.n_targets, 2);
	cr_assert_eq(info.attached_sources, 0);
	cr_assert_eq(info.attached_targets, 1);
	cr_assert_eq(info.tuple_size, 16);
	cr_assert_eq(info.n_fields, 2);
	cr_assert_eq(info.segment_size, 40);
	cr_assert_eq(info.segment_count, 3);
	cr_assert_geq(info.ring_bytes, 3 * (40 + 16));
	cr_assert_str_eq(info.schema, "key:uint64@0 val:uint64@8");
	cr_assert_str_eq(info.key, "val,key");
	snprintf(creator, sizeof(creator), "pid %d)", (int)getpid());
	cr_assert(strstr(info.creator, creator) != NULL, "%s", info.creator);
	cr_assert_eq(dfi_target_close(target), 0);
	/*
	 * Closing doesn't wait for the registry, but later calls queue behind
	 * it.
	 */
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	cr_assert_eq(info.attached_targets, 0);
	assert_error(dfi_flow_lookup(rig.dfi, NULL, &info), -EINVAL, "name");
	assert_error(dfi_flow_lookup(rig.dfi, "f", NULL), -EINVAL, "NULL");
}

/* The default geometry keeps to the memory that a target may use. */
Test(flow, default_rings_share_the_ring_memory)
{
	static const uint32_t sources[] = { 1, 2, 16, 500, DFI_MAX_ENDPOINTS };
	struct dfi_flow_attr attr = kv_attr();
	struct dfi_flow_info info;
	uint64_t payload;
	uint32_t goal;
	struct dfi *dfi;
	size_t i;

	setenv("DFI_RING_MEMORY", "8M", 1);
	dfi = rig_join(&rig);
	for (goal = 0; goal < 2; goal++)
		for (i = 0; i < N_ELEMENTS(sources); i++) {
			attr.goal = goal;
			attr.n_sources = sources[i];
			cr_assert_eq(dfi_flow_create(dfi, "f", &attr), 0);
			cr_assert_eq(dfi_flow_lookup(dfi, "f", &info), 0);
			cr_assert_geq(info.segment_count, 2);
			cr_assert_eq(info.segment_size % 16, 0);
			payload = (uint64_t)info.segment_size *
			    info.segment_count * sources[i];
			cr_assert_leq(
			    payload, 8u << 20, "%u sources", sources[i]);
			cr_assert_gt(info.ring_bytes * sources[i], payload);
			cr_assert_eq(dfi_flow_remove(dfi, "f"), 0);
		}
	cr_assert_eq(dfi_close(dfi), 0);
}

/* All that was asked for is taken, and no cache says otherwise. */
static void expect_payload(
    struct dfi *dfi, const struct dfi_flow_attr *attr, uint64_t payload)
{
	struct dfi_flow_info info;

	cr_assert_eq(dfi_flow_create(dfi, "f", attr), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_flow_lookup(dfi, "f", &info), 0);
	cr_assert_eq(
	    (uint64_t)info.segment_size * info.segment_count * attr->n_sources,
	    payload, "%u x %u", info.segment_count, info.segment_size);
	cr_assert_eq(dfi_flow_remove(dfi, "f"), 0);
}

Test(flow, default_rings_take_the_ring_memory_that_is_set)
{
	struct dfi_flow_attr attr = kv_attr();
	struct dfi *dfi;

	setenv("DFI_RING_MEMORY", "64M", 1);
	dfi = rig_join(&rig);
	attr.n_sources = 1;
	expect_payload(dfi, &attr, 64u << 20);
	attr.n_sources = 4;
	expect_payload(dfi, &attr, 64u << 20);
	attr.segment_size = 4096;
	expect_payload(dfi, &attr, 64u << 20);
	attr.segment_size = 0;
	attr.kind = DFI_REPLICATE;
	attr.n_targets = 2;
	expect_payload(dfi, &attr, 64u << 20);
	cr_assert_eq(dfi_close(dfi), 0);
}

/* Up to what a ring may be. */
Test(flow, default_rings_are_no_larger_than_a_ring_may_be)
{
	struct dfi_flow_attr attr = kv_attr();
	struct dfi *dfi;

	setenv("DFI_RING_MEMORY", "4096G", 1);
	dfi = rig_join(&rig);
	attr.n_sources = 1;
	expect_payload(
	    dfi, &attr, (uint64_t)DFI_MAX_SEGMENT_COUNT * (4u << 20));
	attr.segment_count = 2;
	expect_payload(dfi, &attr, 2 * (uint64_t)DFI_MAX_SEGMENT_SIZE);
	cr_assert_eq(dfi_close(dfi), 0);
}

struct names {
	char text[256];
	unsigned n, stop_at;
};

static int add_flow(void *arg, const struct dfi_flow_info *info)
{
	struct names *names = arg;

	strcat(names->text, info->name);
	strcat(names->text, " ");
	return ++names->n == names->stop_at ? 42 : 0;
}

Test(flow, list_is_in_the_order_of_names_and_can_be_ended)
{
	static const char *const flows[] = { "b", "a.1", "c", "a-2", "a" };
	struct dfi_flow_attr attr = kv_attr();
	struct names names = { .n = 0 };
	struct dfi_target *target;
	size_t i;

	cr_assert_eq(dfi_flow_list(rig.dfi, add_flow, &names), 0);
	cr_assert_eq(names.n, 0);
	for (i = 0; i < N_ELEMENTS(flows); i++)
		cr_assert_eq(dfi_flow_create(rig.dfi, flows[i], &attr), 0);
	/* Its entry lies between those of the flows. */
	target = open_target(rig.dfi, "a", 0, 0);
	cr_assert_eq(dfi_flow_list(rig.other, add_flow, &names), 0);
	cr_assert_str_eq(names.text, "a a-2 a.1 b c ");
	names = (struct names){ .stop_at = 2 };
	cr_assert_eq(dfi_flow_list(rig.other, add_flow, &names), 42);
	cr_assert_eq(names.n, 2);
	cr_assert_eq(dfi_target_close(target), 0);
}

struct nodes {
	unsigned n, n_sources, n_targets, n_named;
	uint64_t last;
};

static int add_node(void *arg, const struct dfi_node_info *info)
{
	struct nodes *nodes = arg;

	cr_assert_gt(info->id, nodes->last);
	cr_assert_eq(info->pid, getpid());
	nodes->last = info->id;
	nodes->n++;
	nodes->n_sources += info->n_sources;
	nodes->n_targets += info->n_targets;
	nodes->n_named += !strcmp(info->name, "worker-3");
	return 0;
}

Test(flow, nodes_are_listed_with_their_endpoints)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct nodes nodes = { .n = 0 };
	struct dfi_target *target;
	struct dfi_source *source;
	struct dfi *dfi;

	attr.registry = rig_address(&rig);
	attr.node_name = "worker-3";
	cr_assert_eq(dfi_open(&attr, &dfi), 0);
	create_kv_flow(dfi, "f", 1, 1, 4, 4);
	target = open_target(dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(dfi_node_list(rig.other, add_node, &nodes), 0);
	cr_assert_eq(nodes.n, 3);
	cr_assert_eq(nodes.n_sources, 1);
	cr_assert_eq(nodes.n_targets, 1);
	cr_assert_eq(nodes.n_named, 1);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	nodes = (struct nodes){ .n = 0 };
	cr_assert_eq(dfi_node_list(rig.other, add_node, &nodes), 0);
	cr_assert_eq(nodes.n, 2);
	cr_assert_eq(nodes.n_named, 0);
}
