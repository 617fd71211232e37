/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of the hand-written ring, one for each use of a flow: built in
 * place, routed tuple by tuple, and partitioned from a table. Flows are
 * measured against them: whatever makes them faster belongs here.
 */
#include "raw.h"

#include <dfi/dfi.h>

/* The most targets of one source. */
#define MAX_LANES DFI_MAX_ENDPOINTS

/*
 * Byte counters packed into a word: the number of targets, and of tuples of
 * each.
 */
#define PACKED_TARGETS 8
#define PACKED_TUPLES 255

/* Preparing a shorter block costs more than it saves. */
#define PACKED_MIN 16

void raw_writer_init(struct raw_writer *writer, void *ring,
    const struct raw_geometry *geometry, uint32_t n_readers, bool yields)
{
	char *slots = (char *)ring + sizeof(struct raw_header) * n_readers;
	size_t slot_size = raw_slot_size(geometry);

	*writer = (struct raw_writer){
		.slot = slots,
		.first_slot = slots,
		.end_slot = slots + slot_size * geometry->segment_count,
		.slot_size = slot_size,
		.limit = geometry->segment_count,
		.headers = ring,
		.n_readers = n_readers,
		.segment_count = geometry->segment_count,
		.yields = yields,
	};
}

void raw_reader_init(struct raw_reader *reader, void *ring,
    const struct raw_geometry *geometry, uint32_t n_readers, uint32_t number,
    uint32_t interval)
{
	const char *slots = (char *)ring +
	    sizeof(struct raw_header) * n_readers;
	size_t slot_size = raw_slot_size(geometry);
	uint64_t batch = interval ? interval : geometry->segment_count / 4;

	if (!batch)
		batch = 1;
	*reader = (struct raw_reader){
		.slot = slots,
		.first_slot = slots,
		.end_slot = slots + slot_size * geometry->segment_count,
		.slot_size = slot_size,
		.return_at = batch,
		.batch = batch,
		.header = (struct raw_header *)ring + number,
	};
}

/* The number of segments that the slowest consumer has given back. */
static uint64_t least_consumed(const struct raw_writer *writer)
{
	uint64_t consumed, least = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < writer->n_readers; i++) {
		/* Pairs with raw_release(). */
		consumed = atomic_load_explicit(
		    &writer->headers[i].consumed, memory_order_acquire);
		if (consumed < least)
			least = consumed;
	}
	return least;
}

void raw_wait_for_room(struct raw_writer *writer)
{
	uint32_t polls = 0;
	uint64_t limit;

	for (;;) {
		limit = least_consumed(writer) + writer->segment_count;
		if (limit != writer->seq)
			break;
		raw_poll_pause(writer->yields, &polls);
	}
	writer->limit = limit;
}

/*
 * Not one memcpy(): compilers and C libraries turn a long one into string
 * instructions. These write to lines of another core at half the speed of plain
 * stores.
 */
static force_inline void copy_lines(char *to, const char *from, size_t size)
{
	size_t i;

	for (i = 0; i + RAW_LINE <= size; i += RAW_LINE)
		memcpy(to + i, from + i, RAW_LINE);
	memcpy(to + i, from + i, size - i);
}

/*
 * Copy a tuple that was just made. A small one is copied by the words in which
 * it was made: wider loads would wait for the stores.
 */
static force_inline void copy_made(char *to, const uint64_t *tuple, size_t size)
{
	uint64_t word;
	size_t i;

	if (size > RAW_LINE) {
		copy_lines(to, (const char *)tuple, size);
		return;
	}
#pragma GCC unroll 8
	for (i = 0; i < size / 8; i++) {
		word = tuple[i];
		__asm__("" : "+r"(word));
		memcpy(to + 8 * i, &word, 8);
	}
	if (size % 8)
		memcpy(to + size / 8 * 8, &tuple[size / 8], size % 8);
}

/* Fill a segment with tuples, built in place, or in scratch and copied. */
static force_inline void fill_segment(char *next, uint64_t n, size_t tuple_size,
    struct pattern *pattern, uint64_t *scratch)
{
	uint64_t i;

	for (i = 0; i < n; i++, next += tuple_size) {
		if (!scratch) {
			tuple_fill(next, tuple_size, pattern);
			continue;
		}
		tuple_make(scratch, tuple_size, pattern_key(pattern));
		copy_made(next, scratch, tuple_size);
		pattern->next += tuple_words(tuple_size);
	}
}

static force_inline int send_in_turn(
    struct raw_stream *stream, size_t tuple_size, uint64_t *scratch)
{
	struct pattern pattern = pattern_from(stream->first_word);
	uint64_t left = stream->tuples, n;
	uint64_t per_segment = stream->segment_size / tuple_size;
	uint32_t target = 0;
	char *next;

	while (left > 0) {
		n = left < per_segment ? left : per_segment;
		next = raw_claim(&stream->writers[target]);
		fill_segment(next, n, tuple_size, &pattern, scratch);
		raw_commit(&stream->writers[target], n * tuple_size, 0);
		left -= n;
		if (++target == stream->n_targets)
			target = 0;
	}
	for (target = 0; target < stream->n_targets; target++) {
		raw_claim(&stream->writers[target]);
		raw_commit(&stream->writers[target], 0, 1);
	}
	return 0;
}

static force_inline int send_in_place(
    struct raw_stream *stream, size_t tuple_size)
{
	return send_in_turn(stream, tuple_size, NULL);
}

int raw_send_in_place(struct raw_stream *stream, size_t tuple_size)
{
	RETURN_BY_SIZE(send_in_place, stream, tuple_size);
}

static force_inline int send_copied(
    struct raw_stream *stream, uint64_t *tuple, size_t tuple_size)
{
	return send_in_turn(stream, tuple_size, tuple);
}

int raw_send_copied(struct raw_stream *stream, size_t tuple_size)
{
	RETURN_WITH_TUPLE(send_copied, stream, tuple_size);
}

/*
 * The open segment of each target, outside of its writer, so that it is in
 * cache.
 */
struct lane {
	char *next;
	char *end;
};

static void lane_open(const struct raw_stream *stream, struct lane *lanes,
    uint32_t target, size_t tuple_size)
{
	char *payload = raw_claim(&stream->writers[target]);

	lanes[target] = (struct lane){
		.next = payload,
		.end = payload + stream->segment_size / tuple_size * tuple_size,
	};
}

/* Not inlined, since the loops need the registers. */
static __attribute__((noinline)) void lane_full(const struct raw_stream *stream,
    struct lane *lanes, uint32_t target, size_t tuple_size)
{
	struct raw_writer *writer = &stream->writers[target];

	raw_commit(writer, (size_t)(lanes[target].end - writer->slot), 0);
	lane_open(stream, lanes, target, tuple_size);
}

static void lanes_open(
    const struct raw_stream *stream, struct lane *lanes, size_t tuple_size)
{
	uint32_t target;

	for (target = 0; target < stream->n_targets; target++)
		lane_open(stream, lanes, target, tuple_size);
}

static void lanes_close(const struct raw_stream *stream, struct lane *lanes)
{
	struct raw_writer *writer;
	uint32_t target;

	for (target = 0; target < stream->n_targets; target++) {
		writer = &stream->writers[target];
		raw_commit(
		    writer, (size_t)(lanes[target].next - writer->slot), 1);
	}
}

/*
 * dfi_hash_partition(dfi_hash64(key), n) without the last step of the hash,
 * which changes only bits that the partition doesn't depend on.
 */
static force_inline uint32_t partition_of(uint64_t key, uint32_t n)
{
	key ^= key >> 33;
	key *= UINT64_C(0xff51afd7ed558ccd);
	key ^= key >> 33;
	key *= UINT64_C(0xc4ceb9fe1a85ec53);
	return dfi_hash_partition(key, n);
}

static force_inline int send_routed(
    struct raw_stream *stream, size_t tuple_size)
{
	struct lane lanes[MAX_LANES];
	struct pattern pattern = pattern_from(stream->first_word);
	uint64_t i;
	uint32_t target;
	char *next;

	lanes_open(stream, lanes, tuple_size);
	for (i = 0; i < stream->tuples; i++) {
		target = partition_of(
		    tuple_count(pattern_key(&pattern), tuple_size),
		    stream->n_targets);
		next = lanes[target].next;
		tuple_fill(next, tuple_size, &pattern);
		next += tuple_size;
		lanes[target].next = next;
		if (__builtin_expect(next == lanes[target].end, 0))
			lane_full(stream, lanes, target, tuple_size);
	}
	lanes_close(stream, lanes);
	return 0;
}

int raw_send_routed(struct raw_stream *stream, size_t tuple_size)
{
	RETURN_BY_SIZE(send_routed, stream, tuple_size);
}

/* Copy n tuples to their lanes, for any number of targets. */
static force_inline void partition_each(const struct raw_stream *stream,
    struct lane *lanes, const char *tuples, size_t n, size_t tuple_size)
{
	const char *end = tuples + n * tuple_size;
	uint32_t n_targets = stream->n_targets, target;
	char *next;

	for (; tuples != end; tuples += tuple_size) {
		target = partition_of(tuple_key(tuples, tuple_size), n_targets);
		next = lanes[target].next;
		copy_lines(next, tuples, tuple_size);
		next += tuple_size;
		lanes[target].next = next;
		if (__builtin_expect(next == lanes[target].end, 0))
			lane_full(stream, lanes, target, tuple_size);
	}
}

/* How many of n tuples fit even if all go to the same lane. */
static force_inline size_t packed_room(const struct raw_stream *stream,
    const struct lane *lanes, size_t n, size_t tuple_size)
{
	uint32_t target;
	size_t room;

	if (n > PACKED_TUPLES)
		n = PACKED_TUPLES;
	for (target = 0; target < stream->n_targets; target++) {
		room = (size_t)(lanes[target].end - lanes[target].next) /
		    tuple_size;
		if (room < n)
			n = room;
	}
	return n;
}

/*
 * Copy n tuples to their lanes when any lane has room for all of them. A
 * position in memory would cost a load that depends on a recent store, of an
 * unknown tuple. So one register counts the lanes' positions.
 */
static force_inline void partition_packed(const struct raw_stream *stream,
    struct lane *lanes, const char *tuples, size_t n, size_t tuple_size)
{
	const char *end = tuples + n * tuple_size;
	uint32_t n_targets = stream->n_targets, target, shift;
	char *bases[PACKED_TARGETS];
	uint64_t counts = 0, count;

	for (target = 0; target < n_targets; target++)
		bases[target] = lanes[target].next;
	for (; tuples != end; tuples += tuple_size) {
		target = partition_of(tuple_key(tuples, tuple_size), n_targets);
		shift = target * 8;
		count = (counts >> shift) & 0xff;
		counts += UINT64_C(1) << shift;
		memcpy(bases[target] + count * tuple_size, tuples, tuple_size);
	}
	for (target = 0; target < n_targets; target++) {
		count = (counts >> (8 * target)) & 0xff;
		lanes[target].next += count * tuple_size;
		if (lanes[target].next == lanes[target].end)
			lane_full(stream, lanes, target, tuple_size);
	}
}

static force_inline void partition(const struct raw_stream *stream,
    struct lane *lanes, const char *tuples, size_t n, size_t tuple_size)
{
	bool packs = stream->n_targets <= PACKED_TARGETS && tuple_size <= 64;
	size_t block;

	while (n > 0) {
		block = packs ? packed_room(stream, lanes, n, tuple_size) : n;
		if (packs && block >= PACKED_MIN) {
			partition_packed(
			    stream, lanes, tuples, block, tuple_size);
		} else {
			if (packs && n > PACKED_MIN)
				block = PACKED_MIN;
			else
				block = n;
			partition_each(
			    stream, lanes, tuples, block, tuple_size);
		}
		tuples += block * tuple_size;
		n -= block;
	}
}

/* With one target there is nothing to choose: copy what fits. */
static force_inline void copy_block(const struct raw_stream *stream,
    struct lane *lane, const char *tuples, size_t n, size_t tuple_size)
{
	size_t bytes = n * tuple_size, room;

	while (bytes > 0) {
		room = (size_t)(lane->end - lane->next);
		if (room > bytes)
			room = bytes;
		copy_lines(lane->next, tuples, room);
		tuples += room;
		bytes -= room;
		lane->next += room;
		if (lane->next == lane->end)
			lane_full(stream, lane, 0, tuple_size);
	}
}

static force_inline int send_table(struct raw_stream *stream, size_t tuple_size)
{
	struct lane lanes[MAX_LANES];
	uint64_t left = stream->tuples, at = 0, n;

	lanes_open(stream, lanes, tuple_size);
	while (left > 0) {
		n = stream->table_tuples - at;
		if (n > left)
			n = left;
		if (stream->n_targets == 1) {
			copy_block(stream, lanes,
			    stream->table + at * tuple_size, n, tuple_size);
		} else {
			partition(stream, lanes,
			    stream->table + at * tuple_size, n, tuple_size);
		}
		left -= n;
		at += n;
		if (at == stream->table_tuples)
			at = 0;
	}
	lanes_close(stream, lanes);
	return 0;
}

int raw_send_table(struct raw_stream *stream, size_t tuple_size)
{
	RETURN_BY_SIZE(send_table, stream, tuple_size);
}

/* Sum one segment and give it back. Returns its tuples. */
static force_inline uint64_t take_segment(struct raw_reader *reader,
    const struct raw_flag *flag, struct word_sum *sum, size_t tuple_size)
{
	uint32_t used = flag->used;
	const char *tuple = reader->slot;
	const char *end = tuple + used;

	for (; tuple != end; tuple += tuple_size)
		tuple_sum(tuple, tuple_size, sum);
	reader->ended = flag->end;
	raw_release(reader);
	return used / tuple_size;
}

static force_inline int receive(struct raw_intake *intake, size_t tuple_size)
{
	struct raw_reader *reader = intake->readers;
	struct word_sum sum = { 0 };
	uint32_t open = intake->n_readers, polls = 0;
	const struct raw_flag *flag;
	uint64_t tuples = 0;

	while (open > 0) {
		flag = reader->ended ? NULL : raw_poll(reader);
		if (flag) {
			tuples += take_segment(reader, flag, &sum, tuple_size);
			open -= reader->ended;
			polls = 0;
			continue;
		}
		if (++reader == intake->readers + intake->n_readers)
			reader = intake->readers;
		raw_poll_pause(intake->yields, &polls);
	}
	intake->tuples = tuples;
	intake->sum = sum;
	return 0;
}

int raw_receive(struct raw_intake *intake, size_t tuple_size)
{
	RETURN_BY_SIZE(receive, intake, tuple_size);
}
