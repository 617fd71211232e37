/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open flows in one process, for ThreadSanitizer: while members come and go, an
 * owner looks at little more than a count of changes, and shares lanes with the
 * thread that the library has for it.
 *
 * stress_open [VISITS]: of those who come and go.
 */
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "stress_help.h"

#define SEGMENT 256
#define SEATS 4
#define BATCH 20

struct tuple {
	uint64_t key;
	uint64_t number; /* of its source, from 1 on */
};
static const struct dfi_field fields[] = {
	DFI_FIELD(struct tuple, key),
	DFI_FIELD(struct tuple, number),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct tuple, fields);

static struct dfi *dfi;
static uint32_t visits = 20;
static _Atomic bool stops;
static _Atomic uint64_t pushed, received;
/* In order: the last number of each partition, whoever owns it. */
static bool in_order;
/* Of the source that stays, in microseconds; or 0. */
static uint32_t lingers;
#define LINGER_US 30
static _Atomic uint64_t last[DFI_DEFAULT_PARTITIONS];

static void create(const char *name, uint32_t kind, uint32_t routing)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = kind;
	attr.schema = &schema;
	attr.n_sources = attr.n_targets = SEATS;
	attr.transport = DFI_TRANSPORT_SHM;
	attr.segment_size = SEGMENT;
	attr.segment_count = 8;
	attr.open.membership = DFI_MEMBERS_OPEN;
	attr.open.on_loss = DFI_ON_LOSS_DROP;
	if (kind == DFI_SHUFFLE) {
		attr.routing = routing;
		attr.key = routing == DFI_ROUTE_HASH ? "key" : NULL;
	}
	check(dfi_flow_create(dfi, name, &attr) == 0, "create %s", name);
	stops = false;
	pushed = received = 0;
}

static struct dfi_source *open_source(const char *name)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;

	attr.linger_us = lingers;
	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	check(dfi_source_open(dfi, name, DFI_ANY_SEAT, &attr, &source) == 0,
	    "source of %s", name);
	return source;
}

static struct dfi_target *open_target(const char *name)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;

	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	check(dfi_target_open(dfi, name, DFI_ANY_SEAT, &attr, &target) == 0,
	    "target of %s", name);
	return target;
}

/* Push a few, one by one or as a batch. */
static void push_some(
    struct dfi_source *source, struct rng *rng, uint64_t *number)
{
	struct tuple tuples[BATCH];
	uint32_t i;

	for (i = 0; i < BATCH; i++)
		tuples[i] = (struct tuple){ rng_next(rng), ++*number };
	if (rng_below(rng, 4))
		for (i = 0; i < BATCH; i++)
			check(dfi_source_push(source, &tuples[i]) == 0, "push");
	else
		check(dfi_source_push_batch(source, tuples, BATCH) == BATCH,
		    "batch");
	rng_yield(rng, 8);
	/* Long enough for the helper to send what has lingered. */
	if (lingers && !rng_below(rng, 8))
		nanosleep(
		    &(struct timespec){ .tv_nsec = 3000 * LINGER_US }, NULL);
}

/* A source that stays until it is told. */
static void *run_source(void *name)
{
	struct rng rng = { 1 };
	struct dfi_source *source = open_source(name);
	uint64_t number = 0;

	while (!stops)
		push_some(source, &rng, &number);
	check(dfi_source_close(source) == 0, "close a source");
	pushed += number;
	return NULL;
}

static void look_at(const struct tuple *tuple)
{
	uint32_t p = dfi_hash64_partition(tuple->key, DFI_DEFAULT_PARTITIONS);

	check(last[p] < tuple->number, "partition %u: tuple %lu behind %lu", p,
	    (unsigned long)tuple->number, (unsigned long)last[p]);
	last[p] = tuple->number;
}

static uint64_t consume_batch(struct dfi_target *target, bool *ended)
{
	struct dfi_batch batch;
	int i, ret = dfi_target_consume_batch(target, &batch);

	check(ret >= 0, "consume: %d", ret);
	*ended = !ret;
	for (i = 0; in_order && i < ret; i++)
		look_at((const struct tuple *)batch.tuples + i);
	if (ret > 0)
		dfi_target_release(target, &batch);
	return (uint64_t)ret;
}

/* A target that stays to the end. */
static void *run_target(void *arg)
{
	struct dfi_target *target = arg;
	bool ended = false;

	while (!ended)
		received += consume_batch(target, &ended);
	check(dfi_target_close(target) == 0, "close a target");
	return NULL;
}

static void end_all(const char *name, pthread_t source, pthread_t target)
{
	stops = true;
	check(pthread_join(source, NULL) == 0, "join");
	check(dfi_flow_finish(dfi, name) == 0, "finish");
	check(pthread_join(target, NULL) == 0, "join");
	check(received == pushed, "%s: %lu of %lu tuples came", name,
	    (unsigned long)received, (unsigned long)pushed);
	check(dfi_flow_remove(dfi, name) == 0, "remove");
	printf("%s: %lu tuples\n", name, (unsigned long)pushed);
}

/* Targets come, get partitions, and leave with all that is theirs. */
static void move_partitions(char *name)
{
	struct dfi_target *visitor;
	pthread_t source, target;
	uint32_t i, n;
	bool ended;

	create(name, DFI_SHUFFLE, DFI_ROUTE_HASH);
	in_order = true;
	memset(last, 0, sizeof(last));
	target = start_thread(run_target, open_target(name));
	source = start_thread(run_source, name);
	for (i = 0; i < visits; i++) {
		visitor = open_target(name);
		for (n = 0, ended = false; n < 100; n++)
			received += consume_batch(visitor, &ended);
		check(dfi_target_leave(visitor) == 0, "leave");
		while (!ended)
			received += consume_batch(visitor, &ended);
		check(dfi_target_close(visitor) == 0, "close a visitor");
	}
	end_all(name, source, target);
	in_order = false;
}

/* Sources come and end while a target takes from the rings of all. */
static void change_sources(void)
{
	char name[] = "any";
	struct dfi_source *visitor;
	struct rng rng = { 2 };
	pthread_t source, target;
	uint64_t number;
	uint32_t i, n;

	create(name, DFI_SHUFFLE, DFI_ROUTE_ANY);
	target = start_thread(run_target, open_target(name));
	source = start_thread(run_source, name);
	for (i = 0; i < visits; i++) {
		visitor = open_source(name);
		number = 0;
		for (n = 0; n < 50; n++)
			push_some(visitor, &rng, &number);
		check(dfi_source_close(visitor) == 0, "close a visitor");
		pushed += number;
	}
	end_all(name, source, target);
}

/* Followers come and go, so the source moves to shared rings and back. */
static void change_followers(void)
{
	char name[] = "copies";
	struct dfi_target *visitor;
	pthread_t source, target;
	uint32_t i, n;
	bool ended;

	create(name, DFI_REPLICATE, 0);
	target = start_thread(run_target, open_target(name));
	source = start_thread(run_source, name);
	/* The one who stays is to be the first who joins. */
	while (!received)
		sched_yield();
	for (i = 0; i < visits; i++) {
		visitor = open_target(name);
		for (n = 0; n < 500; n++)
			(void)consume_batch(visitor, &ended);
		check(dfi_target_close(visitor) == 0, "close a visitor");
	}
	end_all(name, source, target);
}

int main(int argc, char **argv)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;

	if (argc > 1)
		visits = (uint32_t)strtoul(argv[1], NULL, 10);
	check(dfi_registry_start(NULL, &registry) == 0, "registry");
	attr.registry = dfi_registry_address(registry);
	check(dfi_open(&attr, &dfi) == 0, "open");
	move_partitions((char[]){ "keyed" });
	lingers = LINGER_US;
	move_partitions((char[]){ "lingering" });
	lingers = 0;
	change_sources();
	change_followers();
	check(dfi_close(dfi) == 0, "close");
	check(dfi_registry_stop(registry) == 0, "stop");
	return EXIT_SUCCESS;
}
