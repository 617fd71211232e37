/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners against the control thread, which sends lingering segments: sources
 * push in all ways, at all speeds, and linger so briefly that it often sends in
 * the middle of a segment. Rings are small, so their memory is reused all the
 * time. Each target checks the order of each source's tuples.
 *
 * stress_linger [ROUNDS]
 */
#include <time.h>

#include "stress_help.h"

#define N_SOURCES 3
#define N_TARGETS 2
#define ROUNDS 4000
#define LINGER_US 30

struct tuple {
	uint64_t source, number;
	uint64_t sum;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct tuple, source),
	DFI_FIELD(struct tuple, number),
	DFI_FIELD(struct tuple, sum),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct tuple, fields);

static struct dfi *from, *to;
static uint64_t rounds = ROUNDS;

struct sender {
	struct dfi_source *source;
	uint32_t index;
	uint64_t sent[N_TARGETS];
	struct rng rng;
};

static struct tuple next_tuple(struct sender *s, uint32_t target)
{
	uint64_t number = s->sent[target]++;

	return (struct tuple){ s->index, number, s->index + number };
}

static void push_some(struct sender *s, uint32_t target, uint32_t n)
{
	struct tuple tuple;

	for (; n > 0; n--) {
		tuple = next_tuple(s, target);
		check(
		    dfi_source_push_to(s->source, target, &tuple) == 0, "push");
	}
}

static void push_by_cursor(struct sender *s, uint32_t target, uint32_t n)
{
	struct dfi_source_cursor cursor = dfi_source_cursor_open(
	    s->source, target, sizeof(struct tuple));
	struct tuple tuple;

	for (; n > 0; n--) {
		tuple = next_tuple(s, target);
		check(
		    dfi_source_cursor_push(&cursor, &tuple, sizeof(tuple)) == 0,
		    "cursor");
	}
	check(dfi_source_cursor_close(cursor) == 0, "cursor");
}

static void claim_some(struct sender *s, uint32_t target, uint32_t n)
{
	struct dfi_span span;
	struct tuple *tuples;
	uint32_t i;

	check(dfi_source_claim(s->source, target, &span) == 0, "claim");
	if (n > span.count)
		n = span.count;
	tuples = span.tuples;
	for (i = 0; i < n; i++) {
		tuples[i] = next_tuple(s, target);
		rng_yield(&s->rng, 50);
	}
	check(dfi_source_commit(s->source, &span, n) == 0, "commit");
}

static void rest(struct sender *s)
{
	struct timespec time = { .tv_nsec = rng_below(&s->rng, 100000) };

	if (!rng_below(&s->rng, 8))
		nanosleep(&time, NULL);
	rng_yield(&s->rng, 4);
}

static void *run_source(void *arg)
{
	struct sender *s = arg;
	uint32_t target, n;
	uint64_t round;

	for (round = 0; round < rounds; round++) {
		target = rng_below(&s->rng, N_TARGETS);
		n = 1 + rng_below(&s->rng, round % 16 ? 4 : 40);
		switch (rng_below(&s->rng, 8)) {
		case 0:
			push_by_cursor(s, target, n);
			break;
		case 1:
			claim_some(s, target, n);
			break;
		case 2:
			check(dfi_source_flush(s->source) == 0, "flush");
			break;
		default:
			push_some(s, target, n);
		}
		rest(s);
	}
	check(dfi_source_close(s->source) == 0, "close");
	return NULL;
}

struct receiver {
	struct dfi_target *target;
	uint64_t received[N_SOURCES];
};

static void *run_target(void *arg)
{
	struct receiver *r = arg;
	const struct tuple *tuple;
	const void *at;
	int ret;

	while ((ret = dfi_target_consume(r->target, &at)) == 1) {
		tuple = at;
		check(tuple->source < N_SOURCES, "source %lu",
		    (unsigned long)tuple->source);
		check(tuple->number == r->received[tuple->source],
		    "tuple %lu of source %lu is %lu",
		    (unsigned long)r->received[tuple->source],
		    (unsigned long)tuple->source, (unsigned long)tuple->number);
		check(tuple->sum == tuple->source + tuple->number, "content");
		r->received[tuple->source]++;
	}
	check(ret == 0, "consume: %d", ret);
	check(dfi_target_close(r->target) == 0, "close");
	return NULL;
}

static void open_all(
    struct sender *senders, struct receiver *receivers, uint32_t verify)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = N_SOURCES,
		.n_targets = N_TARGETS,
		.segment_size = 16 * sizeof(struct tuple),
		.segment_count = 3,
		.verify = verify,
	};
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	uint32_t i;

	check(dfi_flow_create(from, "flow", &attr) == 0, "create");
	for (i = 0; i < N_TARGETS; i++)
		check(dfi_target_open(to, "flow", i, &target_attr,
			  &receivers[i].target) == 0,
		    "target");
	for (i = 0; i < N_SOURCES; i++) {
		/* One that is never told before it is due. */
		source_attr.linger_us = i ? LINGER_US * i : 1;
		senders[i].index = i;
		senders[i].rng.state = i;
		check(dfi_source_open(from, "flow", i, &source_attr,
			  &senders[i].source) == 0,
		    "source");
	}
}

static void run(uint32_t verify)
{
	struct receiver receivers[N_TARGETS] = { 0 };
	struct sender senders[N_SOURCES] = { 0 };
	pthread_t threads[N_SOURCES + N_TARGETS];
	uint32_t s, t;

	open_all(senders, receivers, verify);
	for (t = 0; t < N_TARGETS; t++)
		threads[t] = start_thread(run_target, &receivers[t]);
	for (s = 0; s < N_SOURCES; s++)
		threads[N_TARGETS + s] = start_thread(run_source, &senders[s]);
	for (s = 0; s < N_SOURCES + N_TARGETS; s++)
		pthread_join(threads[s], NULL);
	for (s = 0; s < N_SOURCES; s++)
		for (t = 0; t < N_TARGETS; t++)
			check(senders[s].sent[t] == receivers[t].received[s],
			    "source %u sent %lu, target %u received %lu", s,
			    (unsigned long)senders[s].sent[t], t,
			    (unsigned long)receivers[t].received[s]);
	check(dfi_flow_remove(from, "flow") == 0, "remove");
}

int main(int argc, char **argv)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;

	if (argc > 1)
		rounds = strtoull(argv[1], NULL, 0);
	check(dfi_registry_start(NULL, &registry) == 0, "registry");
	attr.registry = dfi_registry_address(registry);
	check(dfi_open(&attr, &from) == 0 && dfi_open(&attr, &to) == 0, "open");
	run(DFI_VERIFY_NONE);
	run(DFI_VERIFY_CHECKSUM);
	check(dfi_close(from) == 0 && dfi_close(to) == 0, "close");
	check(dfi_registry_stop(registry) == 0, "stop");
	return EXIT_SUCCESS;
}
