/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One writer and one reader on a ring in real shared memory, with the waiting
 * of sources and targets: tiny rings, partial segments, random yields, all ways
 * to wait, and counters that start just before they wrap. Every segment's
 * content is checked on arrival, and again just before the slot is given back.
 */
#include <inttypes.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/settings.h"
#include "base/wait.h"
#include "buffers/reader.h"
#include "buffers/writer.h"
#include "stress_help.h"
#include "transport/transport.h"
#include "tests/unit/stop_loop.h"

#define N_SEGMENTS 20000
#define SEGMENT_TUPLES 5

static struct transport *transport;

struct ring_run {
	struct ring_geometry geometry;
	uint64_t start, seed;
	uint32_t wait;
	struct region *region;
	struct writer writer;
	struct reader reader;
	/* Both ends know in advance how many tuples each segment has. */
	uint32_t tuples[N_SEGMENTS];
};

static bool has_credit(void *arg)
{
	return writer_credit(arg) != 0;
}

static bool segment_or_end(void *arg)
{
	struct reader *reader = arg;

	return reader_ready(reader) || reader_end_marked(reader);
}

static uint64_t word_of(uint64_t segment, uint64_t word)
{
	return (segment << 16 ^ word) * UINT64_C(0x9e3779b97f4a7c15);
}

static void *run_writer(void *arg)
{
	struct ring_run *run = arg;
	struct wait_policy policy = dfi__wait_policy(run->wait);
	struct wait_time time = {
		.timeout_ns = DEADLINE_NEVER,
		.deadline = deadline_in_ms(LONG_MS),
	};
	struct writer *writer = &run->writer;
	struct rng rng = { .state = run->seed + 1 };
	uint64_t i, used, word, words;

	for (i = 0; i < N_SEGMENTS; i++) {
		check(wait_until(&policy, dfi__writer_wait_word(writer), &time,
			  has_credit, writer, 1),
		    "segment %" PRIu64 ": no credit came", i);
		check(writer_open(writer) == 1, "credit went away");
		used = (uint64_t)run->tuples[i] * run->geometry.tuple_size;
		words = used / sizeof(word);
		for (word = 0; word < words; word++) {
			uint64_t value = word_of(i, word);

			memcpy(writer->segment + word * sizeof(value), &value,
			    sizeof(value));
		}
		rng_yield(&rng, 16);
		check(dfi__writer_publish(writer, used) == 0, "publish");
	}
	check(dfi__writer_end(writer, FOOTER_FLAG_END) == 0, "end");
	return NULL;
}

static void check_segment(uint64_t i, const char *payload, uint64_t bytes)
{
	uint64_t value, word;

	for (word = 0; word < bytes / sizeof(value); word++) {
		memcpy(&value, payload + word * sizeof(value), sizeof(value));
		check(value == word_of(i, word),
		    "segment %" PRIu64 " word %" PRIu64 " is damaged", i, word);
	}
}

static void *run_reader(void *arg)
{
	struct ring_run *run = arg;
	struct wait_policy policy = dfi__wait_policy(run->wait);
	struct wait_time time = {
		.timeout_ns = DEADLINE_NEVER,
		.deadline = deadline_in_ms(LONG_MS),
	};
	struct reader *reader = &run->reader;
	struct region_header *header = run->region->base;
	struct rng rng = { .state = run->seed + 2 };
	const char *payload;
	uint64_t i = 0, bytes;

	while (!reader->end) {
		check(wait_until(&policy, &header->reader_waits, &time,
			  segment_or_end, reader, 1),
		    "segment %" PRIu64 " did not come", i);
		if (!reader_ready(reader)) {
			check(dfi__reader_check_end(reader) == 0, "end");
			continue;
		}
		check(reader_take(reader, &payload, &bytes) == 0, "take");
		check(i < N_SEGMENTS &&
			bytes ==
			    (uint64_t)run->tuples[i] * run->geometry.tuple_size,
		    "segment %" PRIu64 " has %" PRIu64 " bytes", i, bytes);
		check_segment(i, payload, bytes);
		rng_yield(&rng, 16);
		check_segment(i, payload, bytes);
		check(reader_release(reader) == 0, "release");
		i++;
	}
	check(reader->end == READER_ENDED && i == N_SEGMENTS,
	    "ended after %" PRIu64 " segments", i);
	return NULL;
}

static void run_ring(uint32_t segment_count, uint64_t start, uint32_t wait)
{
	static struct ring_run run;
	struct rng rng = { .state = start + segment_count * 8 + wait };
	pthread_t writer, reader;
	struct ring_layout layout;
	struct remote *remote;
	uint32_t i;

	/* 24-byte tuples leave a gap at the end of each segment. */
	run.geometry = ring_geometry(
	    24, 24 * SEGMENT_TUPLES + 7, segment_count);
	run.start = start;
	run.seed = rng_next(&rng);
	run.wait = wait;
	for (i = 0; i < N_SEGMENTS; i++)
		run.tuples[i] = rng_below(&rng, 2)
		    ? SEGMENT_TUPLES
		    : 1 + rng_below(&rng, SEGMENT_TUPLES);
	check(transport->ops->region.create(
		  transport, region_size(&run.geometry, 2), &run.region) == 0,
	    "region");
	/* The second of two rings, so that offsets matter. */
	dfi__region_init(run.region);
	dfi__reader_init(&run.reader, run.region, &run.geometry, 2, 1, start);
	layout = ring_layout(&run.geometry, 2);
	check(transport->ops->ring.open(transport, NULL, &run.region->name,
		  &layout, 1, NULL, WAIT_LIMIT(deadline_in_ms(LONG_MS)),
		  &remote) == 0,
	    "remote");
	dfi__writer_init(&run.writer, remote, &run.geometry, start);
	reader = start_thread(run_reader, &run);
	writer = start_thread(run_writer, &run);
	pthread_join(writer, NULL);
	pthread_join(reader, NULL);
	transport->ops->ring.close(remote);
	transport->ops->region.destroy(run.region);
}

int main(void)
{
	static const uint32_t counts[] = { 1, 2, 3, 4, 7, 32 };
	static const uint64_t starts[] = { 0, UINT32_MAX - 1, UINT64_MAX - 1 };
	static const uint32_t waits[] = { DFI_WAIT_ADAPTIVE, DFI_WAIT_BLOCK };
	struct settings settings;
	struct loop *loop;
	size_t count, start, wait;

	check(dfi__settings_load(&settings) == 0, "settings");
	check(dfi__loop_start("stress", &loop) == 0, "loop");
	check(
	    dfi__shm_ops.start(loop, &settings, NULL, &transport) == 0, "shm");
	for (count = 0; count < sizeof(counts) / sizeof(counts[0]); count++)
		for (start = 0; start < 3; start++)
			for (wait = 0; wait < 2; wait++)
				run_ring(
				    counts[count], starts[start], waits[wait]);
	/* Spinning: few turns, as they may cost a time slice each. */
	run_ring(1024, UINT64_MAX - 1, DFI_WAIT_SPIN);
	transport->ops->stop(transport);
	stop_loop(loop);
	return EXIT_SUCCESS;
}
