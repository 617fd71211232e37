/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows in the memory of earlier ones, one after the other in one region, with
 * other tuples, segments and ends, until each has followed most others. The
 * number of its file identifies a region.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "flow_help.h"

#define REGION_BYTES (256u << 10)
#define MAX_WORDS 16
#define MAX_SOURCES 3

static struct rig rig;

static void setup(void)
{
	setenv("DFI_HUGE_PAGES", "never", 1);
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(spare, .init = setup, .fini = teardown, .timeout = 300);

/* The regions of this process; *file: the number of one of them. */
static unsigned count_regions(ino_t *file)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	char target[256];
	unsigned n = 0;
	struct stat st;
	ssize_t length;

	cr_assert_not_null(dir);
	while ((entry = readdir(dir))) {
		length = readlinkat(
		    dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		if (!strstr(target, "memfd:dfi-region") ||
		    fstatat(dirfd(dir), entry->d_name, &st, 0) < 0)
			continue;
		*file = st.st_ino;
		n++;
	}
	closedir(dir);
	return n;
}

/* How a flow ends. */
enum end {
	END_CLOSE = 0,     /* by its source */
	END_CANCEL,        /* by its target, with tuples in the ring */
	END_TARGET_CLOSES, /* likewise */
	END_ABORT,         /* by its sources */
	N_ENDS,
};

struct trial {
	struct dfi_field field;
	struct dfi_schema schema;
	struct dfi_flow_attr attr;
	enum end end;
	uint64_t seed;
	uint32_t n_tuples;  /* of each source */
	struct dfi *sender; /* this context, or another */
	struct dfi_target *target;
	struct dfi_source *sources[MAX_SOURCES];
	uint32_t pushed[MAX_SOURCES], consumed[MAX_SOURCES];
};

static uint64_t region_bytes(const struct dfi_flow_attr *attr)
{
	struct dfi_flow_needs estimate;

	cr_assert_eq(
	    dfi_flow_estimate(rig.dfi, attr, &estimate), 0, "%s", dfi_errmsg());
	return estimate.target_bytes;
}

/* Push as many segments as the region takes. Returns whether that is all. */
static bool fill_region(struct dfi_flow_attr *attr)
{
	uint32_t low = 1, high = REGION_BYTES / 64;

	while (low < high) {
		attr->segment_count = (low + high + 1) / 2;
		if (region_bytes(attr) <= REGION_BYTES)
			low = attr->segment_count;
		else
			high = attr->segment_count - 1;
	}
	attr->segment_count = low;
	return region_bytes(attr) == REGION_BYTES;
}

static void make_up(struct trial *trial, struct rng *rng)
{
	uint32_t tuple_size;

	memset(trial, 0, sizeof(*trial));
	do {
		tuple_size = 8 * (1 + rng_below(rng, MAX_WORDS));
		trial->field = (struct dfi_field){
			.name = "words",
			.type = DFI_BYTES,
			.size = tuple_size,
		};
		trial->schema = (struct dfi_schema){
			.fields = &trial->field,
			.n_fields = 1,
			.tuple_size = tuple_size,
		};
		trial->attr = (struct dfi_flow_attr){
			.size = sizeof(trial->attr),
			.kind = DFI_SHUFFLE,
			.schema = &trial->schema,
			.n_sources = 1 + rng_below(rng, MAX_SOURCES),
			.n_targets = 1,
			.transport = DFI_TRANSPORT_SHM,
			.verify = rng_below(rng, 2) ? DFI_VERIFY_CHECKSUM
						    : DFI_VERIFY_NONE,
		};
		if (rng_below(rng, 4))
			trial->attr.segment_size = tuple_size +
			    rng_below(rng, rng_below(rng, 2) ? 300 : 9000);
		else
			trial->attr.goal = DFI_LATENCY;
	} while (!fill_region(&trial->attr));
	trial->end = rng_below(rng, N_ENDS);
	trial->seed = rng_next(rng);
	/* Fewer than a lap, or some laps. */
	trial->n_tuples = rng_below(rng, 2)
	    ? rng_below(rng, 20)
	    : rng_below(rng, 3 * REGION_BYTES / tuple_size);
	trial->sender = rng_below(rng, 2) ? rig.dfi : rig.other;
}

/* The first word identifies the source and the tuple. */
static void fill_tuple(const struct trial *trial, uint32_t source,
    uint32_t number, uint64_t *words)
{
	uint32_t i;

	words[0] = (uint64_t)source << 32 | number;
	for (i = 1; i < trial->schema.tuple_size / 8; i++)
		words[i] = mix(trial->seed + i, words[0]);
}

static void check_tuple(struct trial *trial, const void *tuple)
{
	uint64_t expected[MAX_WORDS];
	uint32_t source = (uint32_t)(*(const uint64_t *)tuple >> 32);

	cr_assert_lt(source, trial->attr.n_sources);
	cr_assert_lt(trial->consumed[source], trial->pushed[source]);
	fill_tuple(trial, source, trial->consumed[source]++, expected);
	cr_assert(!memcmp(tuple, expected, trial->schema.tuple_size),
	    "tuple %u of source %u is another", trial->consumed[source] - 1,
	    source);
}

/* Push as much as fits, or is left. */
static void push_some(struct trial *trial, uint32_t source, uint32_t most)
{
	uint64_t words[MAX_WORDS];
	int ret;

	while (most-- && trial->pushed[source] < trial->n_tuples) {
		fill_tuple(trial, source, trial->pushed[source], words);
		ret = dfi_source_push(trial->sources[source], words);
		if (ret == -EAGAIN)
			return;
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
		trial->pushed[source]++;
	}
}

/* Consume until nothing is left, or the end. Returns the last result. */
static int consume_all(struct trial *trial)
{
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(trial->target, &tuple)) > 0)
		check_tuple(trial, tuple);
	return ret;
}

static bool is_pushed(const struct trial *trial)
{
	uint32_t i;

	for (i = 0; i < trial->attr.n_sources; i++)
		if (trial->pushed[i] < trial->n_tuples)
			return false;
	return true;
}

static void move_tuples(struct trial *trial, struct rng *rng)
{
	uint32_t i;

	while (!is_pushed(trial)) {
		for (i = 0; i < trial->attr.n_sources; i++) {
			push_some(trial, i, 1 + rng_below(rng, 3000));
			if (!rng_below(rng, 3))
				cr_assert_eq(
				    dfi_source_flush(trial->sources[i]), 0);
		}
		cr_assert_eq(consume_all(trial), -EAGAIN, "%s", dfi_errmsg());
	}
}

static void close_sources(struct trial *trial, int expected)
{
	uint32_t i;
	int ret;

	for (i = 0; i < trial->attr.n_sources; i++) {
		ret = dfi_source_close(trial->sources[i]);
		if (expected <= 0)
			cr_assert_eq(ret, expected, "%s", dfi_errmsg());
	}
}

static void close_target(struct trial *trial, int expected)
{
	cr_assert_eq(dfi_target_close(trial->target), expected);
}

static bool has_ended(void *arg)
{
	return consume_all(arg) != -EAGAIN;
}

#define WHATEVER 1

static void end(struct trial *trial)
{
	const void *tuple;
	uint32_t i;
	int ret;

	switch (trial->end) {
	case END_CLOSE:
		close_sources(trial, 0);
		cr_assert(eventually(has_ended, trial));
		cr_assert_eq(dfi_target_consume(trial->target, &tuple), 0, "%s",
		    dfi_errmsg());
		for (i = 0; i < trial->attr.n_sources; i++)
			cr_assert_eq(trial->consumed[i], trial->n_tuples);
		close_target(trial, 0);
		return;
	case END_CANCEL:
		cr_assert_eq(dfi_target_cancel(trial->target), 0);
		close_sources(trial, 0);
		close_target(trial, 0);
		return;
	case END_TARGET_CLOSES:
		close_target(trial, 0);
		close_sources(trial, WHATEVER);
		return;
	default:
		for (i = 0; i < trial->attr.n_sources; i++)
			dfi_source_abort(trial->sources[i]);
		close_sources(trial, WHATEVER);
		cr_assert(eventually(has_ended, trial));
		ret = dfi_target_consume(trial->target, &tuple);
		cr_assert_lt(ret, 0);
		(void)dfi_target_close(trial->target);
	}
}

static void run(struct trial *trial, struct rng *rng)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	uint32_t i;

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &trial->attr), 0, "%s", dfi_errmsg());
	trial->target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	attr.flags = DFI_NONBLOCK;
	for (i = 0; i < trial->attr.n_sources; i++)
		cr_assert_eq(dfi_source_open(trial->sender, "f", i, &attr,
				 &trial->sources[i]),
		    0, "%s", dfi_errmsg());
	/* No tuple of earlier flows. */
	cr_assert_eq(consume_all(trial), -EAGAIN, "%s", dfi_errmsg());
	move_tuples(trial, rng);
	end(trial);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

Test(spare, flows_follow_each_other_in_the_same_memory)
{
	struct rng rng = { test_setting("SEED", 1) };
	uint64_t n = test_setting("TRIALS", 200), i;
	struct trial trial;
	ino_t first, file;

	make_up(&trial, &rng);
	run(&trial, &rng);
	cr_assert_eq(count_regions(&first), 1);
	for (i = 0; i < n; i++) {
		make_up(&trial, &rng);
		run(&trial, &rng);
		cr_assert_eq(count_regions(&file), 1);
		cr_assert_eq(file, first, "trial %lu", (unsigned long)i);
	}
}

static void run_one(struct dfi *dfi)
{
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;

	create_kv_flow(dfi, "f", 1, 1, 16, 16);
	target = open_target(dfi, "f", 0, 0);
	source = open_source(dfi, "f", 0, 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_flow_remove(dfi, "f"), 0);
}

/* How many regions a context keeps with a setting. */
static unsigned kept_with(const char *variable, const char *value)
{
	struct dfi *dfi;
	unsigned n;
	ino_t file;

	setenv(variable, value, 1);
	dfi = rig_join(&rig);
	unsetenv(variable);
	run_one(dfi);
	n = count_regions(&file);
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(count_regions(&file), 0);
	return n;
}

Test(spare, settings_bound_what_a_context_keeps_until_it_closes)
{
	if (over_network())
		cr_skip_test("what was exported is not kept");
	cr_assert_eq(kept_with("DFI_SPARE_MEMORY", "32M"), 1);
	cr_assert_eq(kept_with("DFI_SPARE_MEMORY", "4K"), 0);
	cr_assert_eq(kept_with("DFI_SPARE_MEMORY", "0"), 0);
	cr_assert_eq(kept_with("DFI_RING_MEMORY_LIMIT", "1G"), 0);
}
