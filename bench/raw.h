/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-written ring that flows are compared with. It has one producer, and
 * one consumer or several that all read everything. A segment has a payload and
 * one flag line. Data is built and read in place. The ring has only what a
 * benchmark needs: no attaching, no death of peers, no sleeping, no errors.
 *
 *	ring    +----------------------------+--------+--------+----
 *	        | header of each consumer    | slot 0 | slot 1 | ...
 *	        +----------------------------+--------+--------+----
 *	slot    +-------------------------+-----------+
 *	        | payload, in whole lines | flag line |
 *	        +-------------------------+-----------+
 *
 * Zeroed memory is an empty ring. Counters run free.
 */
#ifndef DFI_BENCH_RAW_H
#define DFI_BENCH_RAW_H

#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tuple.h"

#define RAW_LINE 64

/* Polls before a waiter yields the processor, if it may. */
#define RAW_SPINS 16384

struct raw_geometry {
	uint32_t segment_size; /* payload bytes */
	uint32_t segment_count;
};

struct raw_header {
	/* The number of segments that the consumer has given back. */
	alignas(2 * RAW_LINE) _Atomic uint64_t consumed;
	alignas(2 * RAW_LINE) _Atomic uint32_t ready;
};

struct raw_flag {
	alignas(RAW_LINE) _Atomic uint64_t seq; /* of the segment, plus 1 */
	uint32_t used;                          /* payload bytes */
	uint32_t end;                           /* 1: the last segment */
};

static inline size_t raw_slot_size(const struct raw_geometry *geometry)
{
	size_t payload = geometry->segment_size;

	return (payload + RAW_LINE - 1) / RAW_LINE * RAW_LINE +
	    sizeof(struct raw_flag);
}

/* The bytes of a ring, in whole pages. */
static inline size_t raw_ring_size(
    const struct raw_geometry *geometry, uint32_t n_readers)
{
	size_t size = sizeof(struct raw_header) * n_readers +
	    raw_slot_size(geometry) * geometry->segment_count;

	return (size + 4095) / 4096 * 4096;
}

/* Pause a waiter: spin, or spin and then yield. */
static force_inline void raw_poll_pause(bool yields, uint32_t *polls)
{
	if (yields && ++*polls >= RAW_SPINS)
		sched_yield();
}

/* The producer's end. */
struct raw_writer {
	char *slot; /* of the open segment */
	char *first_slot;
	char *end_slot;
	size_t slot_size;
	uint64_t seq;               /* of the open segment */
	uint64_t limit;             /* the first segment without room */
	struct raw_header *headers; /* of each consumer */
	uint32_t n_readers;
	uint32_t segment_count;
	bool yields;
};

/* The consumer's end. */
struct raw_reader {
	const char *slot;
	const char *first_slot;
	const char *end_slot;
	size_t slot_size;
	uint64_t seq;
	uint64_t return_at; /* publish the count when seq reaches this */
	uint64_t batch;
	struct raw_header *header;
	bool ended;
};

void raw_writer_init(struct raw_writer *writer, void *ring,
    const struct raw_geometry *geometry, uint32_t n_readers, bool yields);
/*
 * The reader number `number` of n_readers. It gives back `interval` segments at
 * a time, at most all; 0: a quarter of them.
 */
void raw_reader_init(struct raw_reader *reader, void *ring,
    const struct raw_geometry *geometry, uint32_t n_readers, uint32_t number,
    uint32_t interval);

/* Wait until there is room for the open segment. Call it only without room. */
void raw_wait_for_room(struct raw_writer *writer);

/* Returns the payload of the next segment, which may be written. */
static force_inline char *raw_claim(struct raw_writer *writer)
{
	if (__builtin_expect(writer->seq == writer->limit, 0))
		raw_wait_for_room(writer);
	return writer->slot;
}

static force_inline void raw_commit(
    struct raw_writer *writer, size_t used, uint32_t end)
{
	struct raw_flag *flag;
	char *next = writer->slot + writer->slot_size;

	flag = (struct raw_flag *)(void *)(next - sizeof(*flag));
	flag->used = (uint32_t)used;
	flag->end = end;
	writer->seq++;
	/* Pairs with raw_poll(): orders the payload, used and end. */
	atomic_store_explicit(&flag->seq, writer->seq, memory_order_release);
	writer->slot = next == writer->end_slot ? writer->first_slot : next;
}

/* The flag of the next segment if it has come, else NULL. */
static force_inline const struct raw_flag *raw_poll(
    const struct raw_reader *reader)
{
	const struct raw_flag *flag;

	flag = (const struct raw_flag *)(const void *)(reader->slot +
	    reader->slot_size - sizeof(*flag));
	/* Pairs with raw_commit(). */
	if (atomic_load_explicit(&flag->seq, memory_order_acquire) !=
	    reader->seq + 1)
		return NULL;
	return flag;
}

/* Give back the segment at reader->slot. */
static force_inline void raw_release(struct raw_reader *reader)
{
	const char *next = reader->slot + reader->slot_size;

	reader->slot = next == reader->end_slot ? reader->first_slot : next;
	reader->seq++;
	if (reader->seq == reader->return_at) {
		/*
		 * Pairs with raw_wait_for_room(): the reads come before the
		 * reuse.
		 */
		atomic_store_explicit(&reader->header->consumed, reader->seq,
		    memory_order_release);
		reader->return_at += reader->batch;
	}
}

/* A source's rings, one to each target, and their content. */
struct raw_stream {
	struct raw_writer *writers;
	uint32_t n_targets;
	uint32_t segment_size;
	uint64_t tuples;
	uint64_t first_word;
	char *table; /* for raw_send_table() */
	uint64_t table_tuples;
	uint64_t *scratch; /* for raw_send_copied(): a tuple */
};

/* A thread's rings: all rings of all its targets. */
struct raw_intake {
	struct raw_reader *readers;
	uint32_t n_readers;
	bool yields;
	uint64_t tuples;
	struct word_sum sum;
};

/* Build tuples in the rings, a segment for each target in turn. Returns 0. */
int raw_send_in_place(struct raw_stream *stream, size_t tuple_size);

/*
 * The same, but make each tuple outside of the rings and copy it in, as a push
 * does.
 */
int raw_send_copied(struct raw_stream *stream, size_t tuple_size);

/* Build each tuple in the ring that the hash of its key selects. */
int raw_send_routed(struct raw_stream *stream, size_t tuple_size);

/* Partition a table repeatedly by the hashes of its keys. */
int raw_send_table(struct raw_stream *stream, size_t tuple_size);

/* Sum tuples in the rings until all rings have ended. */
int raw_receive(struct raw_intake *intake, size_t tuple_size);

#endif
