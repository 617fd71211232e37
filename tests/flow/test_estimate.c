/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The needs of a flow: the estimate equals the use, to the byte, and an error
 * states need, limit and remedy.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "flow_help.h"

#define MIB (1024.0 * 1024.0)

static struct rig rig;

static void setup(void)
{
	setenv("DFI_HUGE_PAGES", "never", 1);
	/* The estimate is the use of a flow without spare regions. */
	setenv("DFI_SPARE_MEMORY", "0", 1);
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(estimate, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_needs estimate_of(const struct dfi_flow_attr *attr)
{
	struct dfi_flow_needs estimate;

	cr_assert_eq(
	    dfi_flow_estimate(rig.dfi, attr, &estimate), 0, "%s", dfi_errmsg());
	return estimate;
}

static struct dfi_flow_attr kv_attr(
    uint32_t n_sources, uint32_t n_targets, uint32_t size, uint32_t count)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = n_sources,
		.n_targets = n_targets,
		.segment_size = size,
		.segment_count = count,
	};
}

/*
 * The memory of a node in the paper (section 7.6.1.4 of Thostrup's thesis): 32
 * segments of 8 KiB, and on each node as many source threads as target threads,
 * a ring at either end. 785.5 MiB counts a footer of 16 bytes for each
 * segment; the others show no difference at their precision.
 */
static double paper_mib(uint32_t n_nodes, uint32_t n_threads, double footer)
{
	uint32_t n = n_nodes * n_threads;
	struct dfi_flow_attr attr = kv_attr(n, n, 8192, 32);
	struct dfi_flow_needs estimate;
	double ring, rings;

	attr.transport = DFI_TRANSPORT_VERBS;
	estimate = estimate_of(&attr);
	cr_assert_eq(estimate.rings, (uint64_t)n * n);
	ring = (double)estimate.ring_payload_bytes +
	    footer * estimate.segment_count;
	rings = (double)estimate.rings / n_nodes;
	/*
	 * Our additions: headers, alignment, and whole pages for shadow rings.
	 */
	cr_assert_lt(
	    (double)estimate.target_bytes * n_threads, 1.02 * ring * rings);
	cr_assert_lt(
	    (double)estimate.shadow_bytes * rings, 1.04 * ring * rings);
	return 2 * ring * rings / MIB;
}

Test(estimate, gives_the_figures_of_the_paper)
{
	cr_assert_float_eq(paper_mib(2, 4, 0), 16, 1e-9);
	cr_assert_float_eq(paper_mib(8, 4, 0), 64, 1e-9);
	cr_assert_float_eq(paper_mib(8, 14, 16), 785.5, 0.05);
}

/* Open files, and the bytes of the regions among them. */
static uint32_t count_files(uint64_t *region_bytes)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	char target[256];
	uint32_t n = 0;
	struct stat st;
	ssize_t length;

	*region_bytes = 0;
	cr_assert_not_null(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		n++;
		length = readlinkat(
		    dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		if (strstr(target, "memfd:dfi-region") &&
		    fstatat(dirfd(dir), entry->d_name, &st, 0) == 0)
			*region_bytes += (uint64_t)st.st_size;
	}
	closedir(dir);
	return n;
}

/* A figure of /proc/self/status, in bytes. */
static uint64_t status_bytes(const char *name)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[256];

	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			kib = strtoull(line + strlen(name), NULL, 10);
	fclose(file);
	return kib << 10;
}

#define MAX_ENDS 4

struct ends {
	uint32_t n_sources, n_targets;
	struct dfi_source *sources[MAX_ENDS];
	struct dfi_target *targets[MAX_ENDS];
};

static void open_targets(struct ends *ends)
{
	uint32_t i;

	for (i = 0; i < ends->n_targets; i++)
		ends->targets[i] = open_target(rig.dfi, "f", i, 0);
}

static void open_sources(struct ends *ends)
{
	uint32_t i;

	for (i = 0; i < ends->n_sources; i++)
		ends->sources[i] = open_source(rig.other, "f", i, 0);
}

static void close_ends(struct ends *ends, const char *flow)
{
	const void *tuple;
	uint32_t i;

	for (i = 0; i < ends->n_sources; i++)
		cr_assert_eq(dfi_source_close(ends->sources[i]), 0);
	for (i = 0; i < ends->n_targets; i++) {
		cr_assert_eq(dfi_target_consume(ends->targets[i], &tuple), 0);
		cr_assert_eq(dfi_target_close(ends->targets[i]), 0);
	}
	cr_assert_eq(dfi_flow_remove(rig.dfi, flow), 0);
}

static struct dfi_flow_attr random_attr(struct rng *rng, struct ends *ends)
{
	struct dfi_flow_attr attr;

	ends->n_sources = 1 + rng_below(rng, MAX_ENDS);
	ends->n_targets = 1 + rng_below(rng, MAX_ENDS);
	attr = kv_attr(ends->n_sources, ends->n_targets,
	    rng_below(rng, 4) ? 16 + rng_below(rng, 9000) : 0,
	    rng_below(rng, 4) ? 1 + rng_below(rng, 70) : 0);
	if (!rng_below(rng, 4)) {
		attr.goal = DFI_LATENCY;
		attr.segment_size = 0;
	}
	attr.kind = rng_below(rng, 3) ? DFI_SHUFFLE : DFI_REPLICATE;
	attr.replicate.ordered = attr.kind == DFI_REPLICATE &&
	    !rng_below(rng, 3);
	return attr;
}

/* Then the slots of rings are their sources'. */
static bool is_multicast(const struct dfi_flow_needs *estimate)
{
	return estimate->replication == DFI_REPLICATION_MULTICAST;
}

static void check_published(const struct dfi_flow_needs *estimate)
{
	struct dfi_flow_info info;

	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	cr_assert_eq(estimate->segment_size, info.segment_size);
	cr_assert_eq(estimate->segment_count, info.segment_count);
	cr_assert_eq(estimate->ring_bytes, info.ring_bytes);
	cr_assert_eq(estimate->replication, info.replication);
	cr_assert_eq(estimate->rings,
	    (uint64_t)info.n_sources *
		(is_multicast(estimate) ? 1 : info.n_targets));
}

static bool has_files(void *n)
{
	uint64_t bytes;

	return count_files(&bytes) == *(uint32_t *)n;
}

static void check_one(struct rng *rng)
{
	struct dfi_flow_needs estimate;
	struct dfi_flow_attr attr;
	struct ends ends;
	uint64_t before, bytes;
	uint32_t files;

	attr = random_attr(rng, &ends);
	estimate = estimate_of(&attr);
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	check_published(&estimate);
	files = count_files(&before);
	open_targets(&ends);
	cr_assert_eq(count_files(&bytes) - files,
	    ends.n_targets * estimate.target_descriptors +
		attr.replicate.ordered);
	cr_assert_eq(bytes - before,
	    ends.n_targets * estimate.target_bytes + estimate.sequencer_bytes);
	files = count_files(&before);
	open_sources(&ends);
	files += ends.n_sources * estimate.source_descriptors;
	if (is_multicast(&estimate))
		before += ends.n_sources * estimate.source_bytes;
	/* The other end of the region's connection closes a moment later. */
	cr_assert(eventually(has_files, &files), "a source keeps a file open");
	count_files(&bytes);
	cr_assert_eq(bytes, before);
	close_ends(&ends, "f");
}

Test(estimate, is_what_flows_then_use)
{
	struct rng rng = { test_setting("SEED", 1) };
	uint32_t i;

	if (over_network())
		cr_skip_test("see is_what_is_taken_over_verbs");
	for (i = 0; i < 60; i++)
		check_one(&rng);
}

static bool is_locked(void *bytes)
{
	return status_bytes("VmPin:") == *(uint64_t *)bytes;
}

/* Its memory for rings only: memory for messages stays. */
static bool has_no_memory_regions(void *dfi)
{
	struct dfi_transport_stats stats = device_stats(dfi);

	return stats.memory_regions == (stats.receives + 4095) / 4096;
}

/* A device's own needs come with its first use. */
static void use_device(void)
{
	struct ends ends = { .n_sources = 1, .n_targets = 1 };

	create_kv_flow(rig.dfi, "g", 1, 1, 16, 4);
	ends.targets[0] = open_target(rig.dfi, "g", 0, 0);
	ends.sources[0] = open_source(rig.other, "g", 0, 0);
	close_ends(&ends, "g");
	cr_assert(eventually(has_no_memory_regions, rig.dfi));
	cr_assert(eventually(has_no_memory_regions, rig.other));
}

/*
 * The receives of a context that needs this many; at least as many as it had.
 */
static uint32_t receives_for(uint64_t needed, uint32_t had)
{
	uint64_t steps = (needed + 4095) / 4096;
	uint32_t all = (uint32_t)(steps > 4 ? 4 : steps) * 4096;

	return all > had ? all : had;
}

/* The bytes of a context's messages. */
static uint64_t receive_bytes(uint32_t receives)
{
	return receives * UINT64_C(64);
}

/* The receives of a context, including those of datagram endpoints. */
static uint32_t receives_of(struct dfi *dfi)
{
	return device_stats(dfi).receives;
}

static uint64_t locked_by_targets(
    const struct dfi_flow_needs *estimate, const struct ends *ends)
{
	uint64_t each = is_multicast(estimate) ? estimate->target_datagram_bytes
					       : estimate->target_bytes;

	return ends->n_targets * each + estimate->sequencer_bytes;
}

static uint64_t locked_by_sources(
    const struct dfi_flow_needs *estimate, const struct ends *ends)
{
	uint64_t each = estimate->send_buffer_bytes +
	    estimate->sequencer_shadow_bytes;

	if (is_multicast(estimate))
		each += estimate->source_bytes;
	return ends->n_sources * each +
	    estimate->rings * estimate->shadow_bytes;
}

static void check_targets_over_verbs(
    const struct dfi_flow_needs *estimate, uint32_t ordered, struct ends *ends)
{
	uint32_t receives = receives_of(rig.dfi), new = 0;
	uint64_t locked = status_bytes("VmPin:"), regions, bytes;
	uint32_t files = count_files(&regions);

	if (!is_multicast(estimate))
		new = receives_for(ends->n_targets * estimate->target_receives +
			      4 * ordered,
			  receives) -
		    receives;
	open_targets(ends);
	if (!is_multicast(estimate))
		cr_assert_eq(receives_of(rig.dfi), receives + new);
	cr_assert_eq(status_bytes("VmPin:") - locked,
	    locked_by_targets(estimate, ends) + receive_bytes(new));
	cr_assert_eq(count_files(&bytes) - files,
	    ends->n_targets * estimate->target_descriptors + ordered);
	cr_assert_eq(bytes - regions,
	    ends->n_targets *
		    (estimate->target_bytes - estimate->target_datagram_bytes) +
		estimate->sequencer_bytes);
}

/* Of those of a source: rings, stages, sequencers, and two of each port. */
static uint32_t regions_of_sources(const struct dfi_flow_needs *estimate,
    uint32_t ordered, const struct ends *ends)
{
	uint32_t each = (estimate->send_buffer_bytes ? 1 : 0) + ordered;

	if (is_multicast(estimate))
		return ends->n_sources * (each + 2);
	return ends->n_sources * (each + ends->n_targets);
}

static void check_sources_over_verbs(
    const struct dfi_flow_needs *estimate, uint32_t ordered, struct ends *ends)
{
	struct dfi_transport_stats before = device_stats(rig.other), stats;
	uint64_t locked = status_bytes("VmPin:"), bytes;
	uint32_t files = count_files(&bytes), new;

	new = receives_for(ends->n_sources * estimate->source_receives,
		  before.receives) -
	    before.receives;
	open_sources(ends);
	stats = device_stats(rig.other);
	if (!is_multicast(estimate))
		cr_assert_eq(stats.receives, before.receives + new);
	cr_assert_eq(status_bytes("VmPin:") - locked,
	    locked_by_sources(estimate, ends) + receive_bytes(new));
	cr_assert_eq(stats.memory_regions - before.memory_regions,
	    regions_of_sources(estimate, ordered, ends) + new / 4096);
	cr_assert_leq(stats.connections - before.connections,
	    ends->n_sources * estimate->source_queue_pairs);
	/* Connections of the open are closed a moment later. */
	files += ends->n_sources * estimate->source_descriptors;
	cr_assert(eventually(has_files, &files), "not the files of sources");
}

static void check_over_verbs(const struct dfi_flow_attr *attr)
{
	struct dfi_flow_needs estimate = estimate_of(attr);
	struct ends ends = { .n_sources = attr->n_sources,
		.n_targets = attr->n_targets };
	uint64_t locked;

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
	check_targets_over_verbs(&estimate, attr->replicate.ordered, &ends);
	check_sources_over_verbs(&estimate, attr->replicate.ordered, &ends);
	locked = status_bytes("VmPin:") - locked_by_targets(&estimate, &ends) -
	    locked_by_sources(&estimate, &ends);
	close_ends(&ends, "f");
	cr_assert(eventually(is_locked, &locked));
	cr_assert(eventually(has_no_memory_regions, rig.dfi));
	cr_assert(eventually(has_no_memory_regions, rig.other));
}

/* Locked memory, which is registered memory, memory regions, and files. */
Test(estimate, is_what_is_taken_over_verbs)
{
	struct rng rng = { test_setting("SEED", 1) };
	struct dfi_flow_attr attr;
	struct ends ends;
	uint32_t i;

	if (!over_verbs())
		cr_skip_test("DFI_TRANSPORT is not verbs");
	use_device();
	for (i = 0; i < 6; i++) {
		attr = random_attr(&rng, &ends);
		attr.kind = i % 3 ? DFI_REPLICATE : DFI_SHUFFLE;
		attr.replicate.ordered = i % 3 == 2;
		check_over_verbs(&attr);
	}
}

/* Ports have files, and room for datagrams, which have headers of their own. */
Test(estimate, is_what_a_multicast_takes_over_verbs)
{
	struct rng rng = { test_setting("SEED", 1) };
	struct dfi_flow_attr attr;
	uint32_t i;

	if (!over_verbs())
		cr_skip_test("DFI_TRANSPORT is not verbs");
	use_device();
	for (i = 0; i < 6; i++) {
		attr = kv_attr(1 + i % 3, 1 + i / 2, 16 + rng_below(&rng, 500),
		    1 + rng_below(&rng, 300));
		attr.kind = DFI_REPLICATE;
		attr.replicate.method = DFI_REPLICATION_MULTICAST;
		attr.replicate.ordered = i % 2;
		check_over_verbs(&attr);
	}
}

/* Receives come 4096 at a time, and never go. */
Test(estimate, has_the_receives_of_many_segments)
{
	struct dfi_flow_attr attr = kv_attr(2, 2, 16, 2000);

	if (!over_verbs())
		cr_skip_test("DFI_TRANSPORT is not verbs");
	use_device();
	cr_assert_eq(device_stats(rig.dfi).receives, 4096);
	check_over_verbs(&attr);
	cr_assert_eq(device_stats(rig.dfi).receives, 8192);
	attr = kv_attr(3, 2, 16, 4000);
	check_over_verbs(&attr);
	cr_assert_eq(device_stats(rig.dfi).receives, 16384);
	cr_assert_eq(device_stats(rig.other).receives, 4096);
}

/* ---- Trees of combiners ----------------------------------------------------
 */

/* Bytes that are locked over verbs, or else those of regions. */
static uint64_t taken(void)
{
	uint64_t bytes;

	if (over_network())
		return status_bytes("VmPin:");
	count_files(&bytes);
	return bytes;
}

static bool all_is_returned(void *before)
{
	return taken() == *(uint64_t *)before;
}

static void open_combiners(struct dfi_combiner **combiners, uint32_t n)
{
	uint32_t c;

	for (c = n; c-- > 0;)
		cr_assert_eq(
		    dfi_combiner_open(rig.other, "f", c, NULL, &combiners[c]),
		    0, "%s", dfi_errmsg());
}

/* Of one level whose combiners all have as many inputs. */
static void check_tree(
    uint32_t n_sources, uint32_t n_targets, uint32_t fan_in, bool exact)
{
	static const struct dfi_aggregate sum = { .function = DFI_SUM,
		.field = "val" };
	struct dfi_flow_attr attr = kv_attr(n_sources, n_targets, 4096, 4);
	struct ends ends = { .n_sources = n_sources, .n_targets = n_targets };
	uint64_t at_first = taken(), before = at_first;
	struct dfi_flow_needs estimate;
	struct dfi_combiner *combiners[8];
	uint32_t c;

	attr.kind = DFI_COMBINE;
	attr.combine.group_by = "key";
	attr.combine.aggregates = &sum;
	attr.combine.n_aggregates = 1;
	attr.combine.fan_in = fan_in;
	estimate = estimate_of(&attr);
	/* It can't know that all are on one host. */
	if (!over_network())
		estimate.shadow_bytes = estimate.combiner_shadow_bytes = 0;
	cr_assert_eq(estimate.n_combiners, n_sources / fan_in);
	/* For each segment, and four more for each end of a ring. */
	cr_assert_eq(estimate.source_receives, 4);
	cr_assert_eq(
	    estimate.combiner_receives, fan_in * (4 + 4) + n_targets * 4);
	cr_assert_eq(estimate.target_receives, estimate.n_combiners * (4 + 4));
	cr_assert_eq(estimate.rings,
	    n_sources + (uint64_t)estimate.n_combiners * n_targets);
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	open_targets(&ends);
	if (exact)
		cr_assert_eq(
		    taken() - before, n_targets * estimate.target_bytes);
	before = taken();
	open_combiners(combiners, estimate.n_combiners);
	if (exact)
		cr_assert_eq(taken() - before,
		    estimate.n_combiners *
			(estimate.combiner_bytes +
			    n_targets * estimate.combiner_shadow_bytes));
	before = taken();
	open_sources(&ends);
	if (exact)
		cr_assert_eq(
		    taken() - before, n_sources * estimate.shadow_bytes);
	if (!exact)
		at_first = taken() - n_targets * estimate.target_bytes -
		    estimate.n_combiners *
			(estimate.combiner_bytes +
			    n_targets * estimate.combiner_shadow_bytes) -
		    n_sources * estimate.shadow_bytes;
	for (c = 0; c < n_sources; c++)
		cr_assert_eq(dfi_source_close(ends.sources[c]), 0);
	ends.n_sources = 0;
	for (c = 0; c < estimate.n_combiners; c++) {
		cr_assert_eq(dfi_combiner_run(combiners[c]), 0);
		cr_assert_eq(dfi_combiner_close(combiners[c]), 0);
	}
	close_ends(&ends, "f");
	cr_assert(eventually(all_is_returned, &at_first));
}

Test(estimate, has_the_combiners_of_a_tree)
{
	if (over_network() && !over_verbs())
		cr_skip_test("nothing is locked over libfabric");
	/* The transport's own locked memory comes with its first flow. */
	check_tree(2, 1, 2, false);
	check_tree(4, 1, 4, true);
	check_tree(4, 3, 2, true);
	check_tree(3, 2, 3, true);
}

/*
 * A level above takes partial aggregates: the larger ones of all rings count.
 */
Test(estimate, of_a_tree_takes_the_largest_combiner)
{
	static const struct dfi_aggregate averages[] = {
		{ .function = DFI_AVG, .field = "val", .name = "a" },
		{ .function = DFI_MAX, .field = "val", .name = "b" },
	};
	struct dfi_flow_attr attr = kv_attr(8, 1, 16, 4);
	struct dfi_flow_needs one, two;

	attr.kind = DFI_COMBINE;
	attr.combine.group_by = "key";
	attr.combine.aggregates = averages;
	attr.combine.n_aggregates = 2;
	attr.goal = DFI_LATENCY;
	attr.combine.fan_in = 4;
	one = estimate_of(&attr);
	attr.combine.fan_in = 2;
	two = estimate_of(&attr);
	cr_assert_eq(one.n_combiners, 2);
	cr_assert_eq(two.n_combiners, 4 + 2);
	cr_assert_eq(two.rings, 8 + 4 + 2);
	/* Two rings of records against four of tuples. */
	cr_assert_eq(two.combiner_bytes, two.target_bytes);
	cr_assert_eq(one.target_bytes, two.target_bytes);
	cr_assert_gt(one.combiner_bytes, 0);
}

/* Where a source has many others beside it, but its combiner has few. */
Test(estimate, of_a_tree_has_rings_for_few_sources)
{
	static const struct dfi_aggregate sum = { .function = DFI_SUM,
		.field = "val" };
	struct dfi_flow_attr attr = kv_attr(64, 3, 0, 0);
	struct dfi_flow_needs all, few, tree;

	attr.kind = DFI_COMBINE;
	attr.combine.group_by = "key";
	attr.combine.aggregates = &sum;
	attr.combine.n_aggregates = 1;
	all = estimate_of(&attr);
	attr.n_sources = 4;
	attr.n_targets = 1;
	few = estimate_of(&attr);
	attr.n_sources = 64;
	attr.n_targets = 3;
	attr.combine.fan_in = 4;
	tree = estimate_of(&attr);
	cr_assert_eq(tree.n_combiners, 16 + 4);
	cr_assert_gt(tree.ring_bytes, all.ring_bytes);
	cr_assert_leq(tree.ring_bytes, few.ring_bytes);
	/* A source's tables are for one combiner, not for three targets. */
	cr_assert_eq(tree.source_bytes, few.source_bytes);
}

/* With this much ring memory for a context. */
static struct dfi *join_with_limit(uint64_t bytes)
{
	struct dfi *dfi;
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	setenv("DFI_RING_MEMORY_LIMIT", text, 1);
	dfi = rig_join(&rig);
	unsetenv("DFI_RING_MEMORY_LIMIT");
	return dfi;
}

Test(estimate, bound_on_ring_memory_is_kept_to_the_byte)
{
	struct dfi_flow_attr attr = kv_attr(2, 2, 4096, 8);
	struct dfi_flow_needs estimate = estimate_of(&attr);
	struct dfi_target *first, *second;
	struct dfi *dfi;
	char need[64];

	if (over_network())
		cr_skip_test(
		    "over verbs a context's bound also counts its sources");
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	dfi = join_with_limit(2 * estimate.target_bytes - 1);
	first = open_target(dfi, "f", 0, 0);
	snprintf(need, sizeof(need), "%llu bytes",
	    (unsigned long long)estimate.target_bytes);
	assert_error(dfi_target_open(dfi, "f", 1, NULL, &second), -ENOMEM,
	    "flow 'f': target 1", need, "are taken", "DFI_RING_MEMORY_LIMIT");
	cr_assert_eq(dfi_target_close(first), 0);
	second = open_target(dfi, "f", 1, 0);
	cr_assert_eq(dfi_target_close(second), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	dfi = join_with_limit(2 * estimate.target_bytes);
	first = open_target(dfi, "f", 0, 0);
	second = open_target(dfi, "f", 1, 0);
	cr_assert_eq(dfi_target_close(first), 0);
	cr_assert_eq(dfi_target_close(second), 0);
	cr_assert_eq(dfi_close(dfi), 0);
}

/*
 * A source's segment, where it builds what goes to all targets; over RDMA then
 * its stage, in place of that, and its shadow ring. There is one target: shadow
 * rings of more would take what a segment must not take beside the stage.
 */
static void check_limit(const struct dfi_flow_attr *attr, bool exact)
{
	struct dfi_flow_needs estimate = estimate_of(attr);
	uint64_t each = over_network()
	    ? estimate.send_buffer_bytes + estimate.shadow_bytes
	    : estimate.source_bytes;
	uint64_t last = over_network() ? each - estimate.source_bytes : each;
	struct ends ends = { .n_targets = 1 };
	struct dfi_source *first, *second;
	struct dfi *dfi;
	char need[64];

	cr_assert_geq(each, 8192);
	cr_assert_neq(estimate.replication, DFI_REPLICATION_DEFAULT);
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", attr), 0);
	open_targets(&ends);
	dfi = join_with_limit(2 * each - !exact);
	first = open_source(dfi, "f", 0, 0);
	if (!exact) {
		snprintf(
		    need, sizeof(need), "%llu bytes", (unsigned long long)last);
		assert_error(dfi_source_open(dfi, "f", 1, NULL, &second),
		    -ENOMEM, "flow 'f': source 1", need, "are taken",
		    "DFI_RING_MEMORY_LIMIT");
		cr_assert_eq(dfi_source_close(first), 0);
	}
	second = open_source(dfi, "f", 1, 0);
	if (exact)
		cr_assert_eq(dfi_source_close(first), 0);
	cr_assert_eq(dfi_source_close(second), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	close_ends(&ends, "f");
}

Test(estimate, bound_on_ring_memory_counts_segments_of_replicate_flows)
{
	struct dfi_flow_attr attr = kv_attr(2, 1, 8192, 32);

	cr_assert_eq(estimate_of(&attr).source_bytes, 0);
	attr.kind = DFI_REPLICATE;
	check_limit(&attr, false);
	check_limit(&attr, true);
}

Test(estimate, wrong_attributes_are_named)
{
	struct dfi_flow_attr attr = kv_attr(1, 1, 0, 0);
	struct dfi_flow_needs estimate;

	assert_error(dfi_flow_estimate(rig.dfi, NULL, &estimate), -EINVAL,
	    "attr is NULL");
	assert_error(dfi_flow_estimate(rig.dfi, &attr, NULL), -EINVAL,
	    "estimate is NULL");
	assert_error(
	    dfi_flow_estimate(NULL, &attr, &estimate), -EINVAL, "context");
	attr.n_sources = DFI_MAX_ENDPOINTS + 1;
	assert_error(dfi_flow_estimate(rig.dfi, &attr, &estimate), -EINVAL,
	    "n_sources is 4097", "at most 4096");
	attr.n_sources = 1;
	attr.segment_size = 15;
	assert_error(dfi_flow_estimate(rig.dfi, &attr, &estimate), -EMSGSIZE,
	    "a tuple of 16 bytes", "segment of 15", "raise segment_size");
}

static uint64_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* As the header says. Sanitizers' allocators report nothing. */
Test(estimate, leaves_out_at_most_2560_bytes_a_ring)
{
	enum {
		N = 256,
		BYTES = N * 2560 + (64 << 10)
	};
	struct dfi_target *targets[N], *target;
	struct dfi_source *source;
	uint64_t before;
	uint32_t i;

	if (over_network())
		cr_skip_test("a device has more for each");
	create_kv_flow(rig.dfi, "in", N, 1, 1, 2);
	create_kv_flow(rig.dfi, "out", 1, N, 1, 2);
	before = heap_bytes();
	target = open_target(rig.dfi, "in", 0, 0);
	cr_assert_leq(heap_bytes(), before + BYTES);
	for (i = 0; i < N; i++)
		targets[i] = open_target(rig.dfi, "out", i, 0);
	before = heap_bytes();
	source = open_source(rig.dfi, "out", 0, 0);
	cr_assert_leq(heap_bytes(), before + BYTES);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	for (i = 0; i < N; i++)
		cr_assert_eq(dfi_target_close(targets[i]), 0);
}

/* Use RDMA once, so that its modules are loaded. */
static void load_modules(void)
{
	struct dfi *other = rig_join(&rig);
	struct dfi_target *target;

	create_kv_flow(other, "g", 1, 1, 4, 4);
	target = open_target(other, "g", 0, 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_close(other), 0);
}

/* No rings are reserved: they would take more than the heap may grow by. */
Test(estimate, no_file_descriptor_left_is_refused)
{
	struct dfi_flow_attr attr = kv_attr(1, 1, 65536, 64);
	struct rlimit old, low;
	/* The device is looked for first. */
	const char *need = over_verbs() ? "needs 8 file descriptors"
	    : over_network()            ? "needs 12 file descriptors"
					: "needs 1 file descriptor";
	struct dfi_target *target;
	uint64_t mapped;
	int fd, lowest;

	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	if (over_network())
		load_modules();
	mapped = status_bytes("VmSize:");
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	lowest = fcntl(STDIN_FILENO, F_DUPFD, 0);
	cr_assert_geq(lowest, 0);
	close(lowest);
	low = old;
	low.rlim_cur = (rlim_t)lowest;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_error(dfi_target_open(rig.dfi, "f", 0, NULL, &target), -EMFILE,
	    "flow 'f': target 0", need, "ulimit -n");
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	cr_assert_leq(status_bytes("VmSize:"), mapped + (1 << 20));
	fd = dup(STDIN_FILENO);
	cr_assert_eq(fd, lowest, "a descriptor was left open");
	close(fd);
}

static void limit_address_space(uint64_t more, struct rlimit *old)
{
	struct rlimit low;

	cr_assert_eq(getrlimit(RLIMIT_AS, old), 0);
	low = *old;
	low.rlim_cur = status_bytes("VmSize:") + more;
	cr_assert_eq(setrlimit(RLIMIT_AS, &low), 0);
}

/* A target's region, and what a source has of it: mapped, or a shadow ring. */
Test(estimate, no_address_space_left_is_refused)
{
	struct dfi_flow_attr attr = kv_attr(1, 1, 1 << 20, 64);
	struct dfi_source *source;
	struct dfi_target *target;
	struct rlimit old;

	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	/* A device's own needs come with its first use. */
	if (over_network())
		use_device();
	limit_address_space(32 << 20, &old);
	assert_error(dfi_target_open(rig.dfi, "f", 0, NULL, &target), -ENOMEM,
	    "flow 'f': target 0", "bytes of address space", "are left of",
	    "ulimit -v", "segment_count");
	cr_assert_eq(setrlimit(RLIMIT_AS, &old), 0);
	target = open_target(rig.dfi, "f", 0, 0);
	limit_address_space(32 << 20, &old);
	assert_error(dfi_source_open(rig.other, "f", 0, NULL, &source), -ENOMEM,
	    "flow 'f': source 0: ", "ulimit -v", "segment_count");
	cr_assert_eq(setrlimit(RLIMIT_AS, &old), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

/*
 * Each ring of a source fits except the last: the error states the need of all
 * of them, and nothing was opened.
 */
static void expect_nothing_opened(struct dfi *dfi, uint64_t bytes,
    const char *limit, const struct rlimit *space)
{
	uint64_t messages = device_stats(dfi).messages, most = 0;
	struct dfi_source *source;
	struct rlimit old;
	char need[64];

	snprintf(need, sizeof(need), "%llu bytes", (unsigned long long)bytes);
	if (space) {
		cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
		most = status_bytes("VmPeak:");
		cr_assert_eq(setrlimit(RLIMIT_AS, space), 0);
	}
	assert_error(dfi_source_open(dfi, "f", 0, NULL, &source), -ENOMEM,
	    "flow 'f': source 0", need, limit);
	if (space) {
		cr_assert_eq(setrlimit(RLIMIT_AS, &old), 0);
		cr_assert_lt(status_bytes("VmPeak:"), most + (16 << 20));
	}
	cr_assert_eq(device_stats(dfi).messages, messages);
}

#define N_LARGE 3

/* What a source maps. */
static void refuse_mappings(const struct dfi_flow_attr *attr)
{
	struct dfi_flow_needs estimate = estimate_of(attr);
	struct ends ends = { .n_sources = 1, .n_targets = N_LARGE };
	uint64_t all = N_LARGE * estimate.target_bytes;
	struct rlimit space;

	if (over_network())
		all = N_LARGE * estimate.shadow_bytes +
		    estimate.send_buffer_bytes +
		    estimate.sequencer_shadow_bytes;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", attr), 0);
	open_targets(&ends);
	cr_assert_eq(getrlimit(RLIMIT_AS, &space), 0);
	space.rlim_cur = status_bytes("VmSize:") + all - 1;
	expect_nothing_opened(rig.other, all, "ulimit -v", &space);
	open_sources(&ends);
	close_ends(&ends, "f");
}

Test(estimate, rings_of_a_source_are_refused_before_the_first_is_mapped)
{
	struct dfi_flow_attr attr = kv_attr(1, N_LARGE, 1 << 20, 32);

	if (over_network())
		use_device();
	refuse_mappings(&attr);
	if (!over_network())
		return;
	attr.kind = DFI_REPLICATE;
	attr.replicate.method = DFI_REPLICATION_NAIVE;
	attr.replicate.ordered = 1;
	refuse_mappings(&attr);
}

Test(estimate, rings_of_a_source_are_refused_before_the_first_counts)
{
	struct dfi_flow_attr attr = kv_attr(1, N_LARGE, 8192, 8);
	struct dfi_flow_needs estimate = estimate_of(&attr);
	struct ends ends = { .n_targets = N_LARGE };
	uint64_t all = N_LARGE * estimate.shadow_bytes;
	struct dfi_source *source;
	struct dfi *dfi;

	if (!over_network())
		cr_skip_test("what is mapped doesn't count");
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	open_targets(&ends);
	dfi = join_with_limit(all - 1);
	expect_nothing_opened(dfi, all, "DFI_RING_MEMORY_LIMIT", NULL);
	cr_assert_eq(dfi_close(dfi), 0);
	dfi = join_with_limit(all);
	source = open_source(dfi, "f", 0, 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	close_ends(&ends, "f");
}

Test(estimate, pairs_of_an_ordered_open_flow_share_its_counter)
{
	struct dfi_flow_attr attr = kv_attr(2, 3, 64, 4);
	struct dfi_flow_needs estimate;

	attr.kind = DFI_REPLICATE;
	attr.replicate.ordered = 1;
	attr.open.membership = DFI_MEMBERS_OPEN;
	estimate = estimate_of(&attr);
	cr_assert_eq(estimate.source_queue_pairs, over_network() ? 3 + 1 : 0);
}

/* From now on VmHWM is what there was at most since. */
static void forget_most_memory(void)
{
	FILE *file = fopen("/proc/self/clear_refs", "we");

	cr_assert_not_null(file);
	fputs("5", file);
	cr_assert_eq(fclose(file), 0);
}

/* Of one end of a multicast: its ring is not reserved for nothing. */
Test(estimate, port_is_refused_before_its_ring_is_reserved)
{
	struct dfi_flow_attr attr = kv_attr(1, 1, 512, 16384);
	struct dfi_flow_needs estimate;
	struct rlimit old, low;
	struct dfi_target *target;
	char need[64];
	uint64_t most;

	if (!over_verbs())
		cr_skip_test("DFI_TRANSPORT is not verbs");
	use_device();
	attr.kind = DFI_REPLICATE;
	attr.replicate.method = DFI_REPLICATION_MULTICAST;
	estimate = estimate_of(&attr);
	cr_assert_gt(estimate.target_bytes - estimate.target_datagram_bytes,
	    UINT64_C(8) << 20);
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	snprintf(need, sizeof(need), "%llu bytes",
	    (unsigned long long)estimate.target_datagram_bytes);
	cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
	low = old;
	forget_most_memory();
	most = status_bytes("VmHWM:");
	low.rlim_cur = status_bytes("VmSize:") +
	    estimate.target_datagram_bytes - 1;
	cr_assert_eq(setrlimit(RLIMIT_AS, &low), 0);
	assert_error(dfi_target_open(rig.dfi, "f", 0, NULL, &target), -ENOMEM,
	    "flow 'f': target 0", need, "ulimit -v");
	cr_assert_eq(setrlimit(RLIMIT_AS, &old), 0);
	cr_assert_lt(status_bytes("VmHWM:"), most + (4 << 20));
	target = open_target(rig.dfi, "f", 0, 0);
	cr_assert_eq(dfi_target_close(target), 0);
}
