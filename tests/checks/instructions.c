/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves tuples over shared memory in each way that there is, for
 * instructions.sh. One thread fills rings and drains them, so no call waits.
 *
 * instructions [WAY]: with its name, only that one.
 */
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <dfi/dfi.h>

#include "count_this.h"

enum {
	SEGMENT = 8192,
	SEGMENTS = 32,                  /* of a ring */
	BYTES = SEGMENT * SEGMENTS / 2, /* that a round moves */
	ROUNDS = 8,                     /* four times through the ring */
	MAX_TARGETS = 4,
	GROUPS = 1, /* the hashes of several may collide in some runs */
	BATCH = 64, /* tuples of a push_batch */
	STALL_MS = 10000,
	FEW = 28, /* tuples: less than a ring; some for each target */
};

struct small {
	uint64_t key;
	uint64_t value;
};
struct large {
	uint64_t key;
	uint64_t value;
	char rest[48];
};
static const struct dfi_field fields[] = {
	DFI_FIELD(struct small, key),
	DFI_FIELD(struct small, value),
};
static const struct dfi_aggregate sum = { .function = DFI_SUM,
	.field = "value" };

static struct dfi *dfi;
static struct dfi_source *source, *answer;
static struct dfi_target *targets[MAX_TARGETS], *asker;
static uint32_t n_targets;
static bool is_open; /* the membership of the flows */
static struct small smalls[BYTES / sizeof(struct small)];
static struct large larges[BYTES / sizeof(struct large)];

static int check(int ret)
{
	if (ret < 0)
		errx(1, "%s", dfi_errmsg());
	return ret;
}

/* As a program that computes with the value. */
static inline void use(uint64_t value)
{
	__asm__ volatile("" : : "r"(value));
}

/* The ways in: n tuples. */
static void push_small(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		check(dfi_source_push(source, &smalls[i]));
}

static void push_large(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		check(dfi_source_push(source, &larges[i]));
}

static void push_batch_small(uint32_t n)
{
	for (uint32_t i = 0; i < n; i += BATCH)
		check(dfi_source_push_batch(source, &smalls[i], BATCH));
}

static void push_batch_large(uint32_t n)
{
	for (uint32_t i = 0; i < n; i += BATCH)
		check(dfi_source_push_batch(source, &larges[i], BATCH));
}

static void push_cursor(uint32_t n)
{
	struct dfi_source_cursor cursor = dfi_source_cursor_open(
	    source, 0, sizeof(struct small));

	for (uint32_t i = 0; i < n; i++)
		check(dfi_source_cursor_push(
		    &cursor, &smalls[i], sizeof(smalls[i])));
	check(dfi_source_cursor_close(cursor));
}

/* Nothing is built in the segments. */
static void claim_of(uint32_t target, uint32_t n)
{
	struct dfi_span span;

	for (; n; n -= span.count) {
		check(dfi_source_claim(source, target, &span));
		check(dfi_source_commit(source, &span, span.count));
	}
}

static void claim(uint32_t n)
{
	claim_of(0, n);
}

static void claim_all(uint32_t n)
{
	claim_of(DFI_ALL_TARGETS, n);
}

static void push_window(uint32_t n)
{
	static uint64_t window;

	push_small(n);
	check(dfi_source_mark(source, ++window));
}

/* The ways out: n tuples of each target. */
static void consume(uint32_t n)
{
	const struct small *tuple;
	const void *address;

	for (uint32_t i = 0; i < n; i++) {
		check(dfi_target_consume(targets[0], &address));
		tuple = address;
		use(tuple->key);
	}
}

static void consume_batch(uint32_t n)
{
	struct dfi_batch batch;

	for (uint32_t t = 0; t < n_targets; t++)
		for (uint32_t got = 0; got < n;) {
			got += (uint32_t)check(
			    dfi_target_consume_batch(targets[t], &batch));
			dfi_target_release(targets[t], &batch);
		}
}

static void consume_cursor(uint32_t n)
{
	struct dfi_target_cursor cursor = dfi_target_cursor_open(
	    targets[0], sizeof(struct small));

	for (uint32_t i = 0; i < n; i++) {
		const struct small *tuple = dfi_target_cursor_get(
		    &cursor, sizeof(*tuple));

		if (!tuple)
			errx(1, "%s", dfi_errmsg());
		use(tuple->key);
	}
	check(dfi_target_cursor_close(cursor));
}

/* The results of a window. */
static void consume_results(uint32_t n)
{
	(void)n;
	consume_batch(GROUPS);
}

/* Whatever is there. */
static void drain(uint32_t n)
{
	struct dfi_batch batch;
	int ret;

	(void)n;
	check(dfi_source_flush(source));
	for (uint32_t t = 0; t < n_targets; t++) {
		while ((ret = dfi_target_consume_batch(targets[t], &batch)) > 0)
			dfi_target_release(targets[t], &batch);
		if (ret != -EAGAIN)
			errx(1, "%s",
			    ret < 0 ? dfi_errmsg() : "the flow has ended");
	}
}

static void round_trips(uint32_t n)
{
	const void *tuple;

	for (uint32_t i = 0; i < n; i++) {
		check(dfi_source_push(source, &larges[0]));
		check(dfi_target_consume(targets[0], &tuple));
		check(dfi_source_push(answer, tuple));
		check(dfi_target_consume(asker, &tuple));
	}
}

static void nothing(uint32_t n)
{
	(void)n;
}

/* What the figure is of. */
enum unit {
	TUPLE,
	SEGMENT_OF_TUPLES,
	ROUND_TRIP
};
static const char *const units[] = { "tuple", "segment", "trip" };

struct way {
	const char *name;
	void (*fill)(uint32_t n), (*rest)(uint32_t n);
	uint32_t tuple_size;
	uint32_t n_targets;
	enum dfi_flow_kind kind;
	enum unit unit;
	uint32_t of_rest; /* count the rest, not the filling */
	/* enum dfi_replication, enum dfi_source_combining; the routing of an
	 * open shuffle flow */
	uint32_t variant;
};

static const struct way ways[] = {
	{ "push, 16 B", push_small, drain, 16, 1, DFI_SHUFFLE, TUPLE, 0, 0 },
	{ "push, 64 B", push_large, drain, 64, 1, DFI_SHUFFLE, TUPLE, 0, 0 },
	{ "push to 4 targets by hash, 16 B", push_small, drain, 16, 4,
	    DFI_SHUFFLE, TUPLE, 0, 0 },
	{ "push_batch, 64 B", push_batch_large, drain, 64, 1, DFI_SHUFFLE,
	    TUPLE, 0, 0 },
	{ "push_batch to 4 targets by hash, 16 B", push_batch_small, drain, 16,
	    4, DFI_SHUFFLE, TUPLE, 0, 0 },
	{ "source cursor, 16 B", push_cursor, drain, 16, 1, DFI_SHUFFLE, TUPLE,
	    0, 0 },
	{ "claim and commit", claim, drain, 64, 1, DFI_SHUFFLE,
	    SEGMENT_OF_TUPLES, 0, 0 },
	{ "consume, 64 B", push_large, consume, 64, 1, DFI_SHUFFLE, TUPLE, 1,
	    0 },
	{ "consume_batch and release", claim, consume_batch, 64, 1, DFI_SHUFFLE,
	    SEGMENT_OF_TUPLES, 1, 0 },
	{ "target cursor, 16 B", claim, consume_cursor, 16, 1, DFI_SHUFFLE,
	    TUPLE, 1, 0 },
	{ "replicate to 2: push, 64 B", push_large, drain, 64, 2, DFI_REPLICATE,
	    TUPLE, 0, DFI_REPLICATION_MULTICAST },
	{ "replicate to 2: claim and commit", claim_all, drain, 64, 2,
	    DFI_REPLICATE, SEGMENT_OF_TUPLES, 0, DFI_REPLICATION_MULTICAST },
	{ "replicate to 2: consume_batch at both", claim_all, consume_batch, 64,
	    2, DFI_REPLICATE, SEGMENT_OF_TUPLES, 1, DFI_REPLICATION_MULTICAST },
	{ "replicate to 2, naive: claim and commit", claim_all, drain, 64, 2,
	    DFI_REPLICATE, SEGMENT_OF_TUPLES, 0, DFI_REPLICATION_NAIVE },
	{ "combine in the source, 16 B", push_window, drain, 16, 1, DFI_COMBINE,
	    TUPLE, 0, DFI_COMBINING_ALWAYS },
	{ "combine in the target, 16 B", push_window, consume_results, 16, 1,
	    DFI_COMBINE, TUPLE, 1, DFI_COMBINING_OFF },
	{ "ping-pong, 64 B", round_trips, nothing, 64, 1, DFI_SHUFFLE,
	    ROUND_TRIP, 0, 0 },
};

/* Some of these in open flows: what open membership costs. */
static const struct way open_ways[] = {
	{ "open: push, 64 B", push_large, drain, 64, 1, DFI_SHUFFLE, TUPLE, 0,
	    DFI_ROUTE_ANY },
	{ "open: push to 4 targets by hash, 16 B", push_small, drain, 16, 4,
	    DFI_SHUFFLE, TUPLE, 0, DFI_ROUTE_HASH },
	{ "open: push_batch, 64 B", push_batch_large, drain, 64, 1, DFI_SHUFFLE,
	    TUPLE, 0, DFI_ROUTE_ANY },
	{ "open: claim and commit", claim, drain, 64, 1, DFI_SHUFFLE,
	    SEGMENT_OF_TUPLES, 0, DFI_ROUTE_DIRECT },
	{ "open: consume_batch and release", claim, consume_batch, 64, 1,
	    DFI_SHUFFLE, SEGMENT_OF_TUPLES, 1, DFI_ROUTE_DIRECT },
	{ "open: replicate to 2, naive: claim and commit", claim_all, drain, 64,
	    2, DFI_REPLICATE, SEGMENT_OF_TUPLES, 0, DFI_REPLICATION_NAIVE },
	{ "open: replicate to 2: claim and commit", claim_all, drain, 64, 2,
	    DFI_REPLICATE, SEGMENT_OF_TUPLES, 0, DFI_REPLICATION_MULTICAST },
	{ "open: ping-pong, 64 B", round_trips, nothing, 64, 1, DFI_SHUFFLE,
	    ROUND_TRIP, 0, DFI_ROUTE_ANY },
};

/* Send some tuples to all targets, and consume them. */
static void send_few(
    struct dfi_source *from, struct dfi_target **to, const struct way *way)
{
	struct dfi_batch batch;

	for (uint32_t i = 0; i < FEW; i++)
		check(
		    way->kind == DFI_SHUFFLE && way->variant == DFI_ROUTE_DIRECT
			? dfi_source_push_to(from, 0, &larges[i])
			: dfi_source_push(from, &larges[i]));
	check(dfi_source_flush(from));
	for (uint32_t t = 0; t < way->n_targets; t++) {
		uint32_t got = 0;
		int ret;

		while ((ret = dfi_target_consume_batch(to[t], &batch)) !=
			-EAGAIN ||
		    !got) {
			if (ret != -EAGAIN)
				got += (uint32_t)check(ret);
			if (ret > 0)
				dfi_target_release(to[t], &batch);
		}
	}
}

/*
 * Rings of open flows are made behind the opening calls. From its first tuple
 * on a target has its own. A source moves to a shared ring later, and then
 * copies nothing.
 */
static void await_rings(
    struct dfi_source *from, struct dfi_target **to, const struct way *way)
{
	bool shares = way->kind == DFI_REPLICATE &&
	    way->variant == DFI_REPLICATION_MULTICAST;
	struct dfi_source_stats before, after;

	for (;;) {
		dfi_source_query(from, &before);
		send_few(from, to, way);
		dfi_source_query(from, &after);
		if (!shares ||
		    after.copied_bytes - before.copied_bytes ==
			(uint64_t)FEW * way->tuple_size)
			return;
	}
}

static void open_flow(const struct way *way, const char *name,
    struct dfi_source **from, struct dfi_target **to)
{
	struct dfi_schema schema = { fields, 2, way->tuple_size };
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = way->kind;
	attr.schema = &schema;
	attr.n_sources = 1;
	attr.n_targets = way->n_targets;
	attr.transport = DFI_TRANSPORT_SHM;
	attr.goal = way->unit == ROUND_TRIP ? DFI_LATENCY : DFI_BANDWIDTH;
	if (attr.goal == DFI_BANDWIDTH)
		attr.segment_size = SEGMENT;
	attr.segment_count = SEGMENTS;
	if (way->kind == DFI_REPLICATE)
		attr.replicate.method = way->variant;
	if (way->kind == DFI_COMBINE) {
		attr.combine.aggregates = &sum;
		attr.combine.n_aggregates = 1;
		attr.combine.group_by = "key";
		attr.combine.window_tuples = DFI_WINDOW_MARKED;
		attr.combine.max_groups = 4 * GROUPS;
		attr.combine.source_combining = way->variant;
	}
	if (is_open) {
		if (way->kind == DFI_SHUFFLE)
			attr.routing = way->variant;
		attr.open.membership = DFI_MEMBERS_OPEN;
		attr.open.min_targets = way->n_targets;
	}
	check(dfi_flow_create(dfi, name, &attr));
	/* What would wait fails; but a source waits until it may push. */
	target_attr.flags = DFI_NONBLOCK;
	source_attr.flags = is_open ? 0 : DFI_NONBLOCK;
	source_attr.stall_timeout_ms = STALL_MS;
	for (uint32_t t = 0; t < way->n_targets; t++)
		check(dfi_target_open(dfi, name, t, &target_attr, &to[t]));
	check(dfi_source_open(dfi, name, 0, &source_attr, from));
	if (is_open)
		await_rings(*from, to, way);
}

static void run_rounds(const struct way *way, uint32_t n_rounds)
{
	uint32_t n = BYTES / way->tuple_size;

	for (uint32_t i = 0; i < n_rounds; i++) {
		if (way->of_rest) {
			way->fill(n);
			count_this(way->rest, n);
		} else {
			count_this(way->fill, n);
			way->rest(n);
		}
	}
	count_ends();
}

static void run(const struct way *way)
{
	uint32_t n = ROUNDS * BYTES;

	n_targets = way->n_targets;
	for (uint32_t i = 0; i < sizeof(smalls) / sizeof(smalls[0]); i++)
		smalls[i] = (struct small){
			.key = way->kind == DFI_COMBINE ? i % GROUPS : i,
			.value = i,
		};
	for (uint32_t i = 0; i < FEW; i++)
		larges[i].key = i;
	open_flow(way, "there", &source, targets);
	if (way->unit == ROUND_TRIP)
		open_flow(way, "back", &answer, &asker);
	run_rounds(way, ROUNDS);
	run_rounds(way, ROUNDS);
	run_rounds(way, 2 * ROUNDS);
	printf("%u\t%s\t%s\n",
	    n / (way->unit == SEGMENT_OF_TUPLES ? SEGMENT : way->tuple_size),
	    units[way->unit], way->name);

	check(dfi_source_close(source));
	for (uint32_t t = 0; t < way->n_targets; t++)
		check(dfi_target_close(targets[t]));
	check(dfi_flow_remove(dfi, "there"));
	if (way->unit == ROUND_TRIP) {
		check(dfi_source_close(answer));
		check(dfi_target_close(asker));
		check(dfi_flow_remove(dfi, "back"));
	}
}

/* only: the name of the only one, or NULL. */
static void run_all(const struct way *which, size_t n, const char *only)
{
	for (size_t i = 0; i < n; i++)
		if (!only || strcmp(only, which[i].name) == 0)
			run(&which[i]);
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;

	count_begins();
	check(dfi_registry_start(NULL, &registry));
	attr.registry = dfi_registry_address(registry);
	check(dfi_open(&attr, &dfi));
	run_all(ways, sizeof(ways) / sizeof(ways[0]), only);
	is_open = true;
	run_all(open_ways, sizeof(open_ways) / sizeof(open_ways[0]), only);
	check(dfi_close(dfi));
	check(dfi_registry_stop(registry));
	return fflush(stdout) || ferror(stdout);
}
