/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's end of a ring. Another process wrote everything in the ring, so
 * this file checks everything before use. It never waits; the target above it
 * does. Its error texts have no names of endpoints; the target adds them.
 */
#include "reader.h"

#include <stdlib.h>
#include <string.h>
#include "base/counter.h"
#include "base/error.h"
#include "transport/transport.h"
#include "layout/checksum.h"

static struct ring_header *header(const struct reader *reader)
{
	return (struct ring_header *)(void *)((char *)reader->region->base +
	    reader->layout.first_ring +
	    reader->layout.ring_size * reader->ring);
}

struct reader *dfi__readers_alloc(uint32_t n)
{
	size_t size = (size_t)n * sizeof(struct reader);
	struct reader *readers = aligned_alloc(READER_ALIGN, size);

	return readers ? memset(readers, 0, size) : NULL;
}

void dfi__region_init(struct region *region)
{
	struct region_header *header = region->base;

	atomic_set(&header->reader_waits, 0);
	atomic_set(&header->reader_name, 0);
}

void dfi__reader_init(struct reader *reader, struct region *region,
    const struct ring_geometry *geometry, uint32_t n_sources, uint32_t source,
    uint64_t start)
{
	uint64_t last_lap = start - geometry->segment_count;
	uint32_t slot;

	*reader = (struct reader){
		.geometry = *geometry,
		.region = region,
		.layout = ring_layout(geometry, n_sources),
		.ring = source,
		.seq = start,
		.returned = start,
		.batch = credit_batch(geometry),
	};
	ring_header_init(header(reader), start);
	reader->mark = &header(reader)->end;
	reader->head = &header(reader)->slots;
	if (geometry->apart)
		return;
	reader->slots = (char *)header(reader) + geometry->first_slot;
	for (slot = 0; slot < geometry->segment_count; slot++) {
		atomic_set(&reader_footer(reader, slot)->total, 0);
		atomic_set(&reader_footer(reader, slot)->state,
		    footer_state(last_lap + slot, 0, 0));
	}
	reader->head = reader_footer(reader, 0);
}

int dfi__reader_find_granted(
    struct reader *reader, uint64_t key, uint32_t segment_count)
{
	struct ring_geometry whole = reader->geometry;
	uint64_t size = 0;
	const char *granted = reader->region->transport->ops->region.granted(
	    reader->region, reader->ring, key, &size);

	whole.ring_size = sizeof(struct ring_header) +
	    (uint64_t)whole.slot_size * segment_count;
	if (!granted || size < region_size(&whole, 1))
		return dfi__fail(-EBADMSG,
		    "its segments are not where it says: %lu bytes under key "
		    "%#lx, but a ring takes %lu",
		    (unsigned long)size, (unsigned long)key,
		    (unsigned long)region_size(&whole, 1));
	reader->slots = granted + ring_offset(&whole, 0) + whole.first_slot;
	return 0;
}

int dfi__reader_find_slots(struct reader *reader)
{
	int ret = dfi__reader_find_granted(reader,
	    atomic_peek(&reader->head->total), reader->geometry.segment_count);

	if (!ret)
		reader->head = reader_footer(reader, 0);
	return ret;
}

/*
 * How many lost segments a footer stands for; 0: it is the footer of a segment.
 */
static uint32_t lost_count(const struct reader *reader, uint64_t state)
{
	uint64_t n = footer_used(state);

	return reader->lossy && (state & FOOTER_FLAGS) == FOOTER_FLAG_LOST &&
		n <= reader->geometry.segment_count
	    ? (uint32_t)n
	    : 0;
}

/* The slot n after another one; n is at most the length of the ring. */
static uint32_t slot_behind(
    const struct reader *reader, uint32_t slot, uint32_t n)
{
	slot += n;
	return slot < reader->geometry.segment_count
	    ? slot
	    : slot - reader->geometry.segment_count;
}

uint64_t dfi__reader_arrived(const struct reader *reader)
{
	uint32_t n, slot = reader->slot;
	uint64_t state, seq = reader->seq;

	if (!reader->slots)
		return seq;
	while (seq - reader->seq < reader->geometry.segment_count) {
		/* Pairs as in reader_ready(). */
		state = atomic_observe(&reader_footer(reader, slot)->state);
		if (footer_seq(state) != (uint32_t)seq)
			break;
		n = lost_count(reader, state);
		slot = slot_behind(reader, slot, n ? n : 1);
		seq += n ? n : 1;
	}
	return seq;
}

/* Compare the payload's checksum with the one that the source has sent. */
static int check_sum(
    const struct reader *reader, const char *payload, uint64_t state)
{
	const struct ring_geometry *g = &reader->geometry;
	uint64_t was = segment_header(g, payload)->checksum;
	uint64_t sent = footer_state(
	    reader->seq + reader->base, footer_used(state), 0);
	uint64_t is = dfi__segment_checksum(g, payload, sent);

	if (likely(is == was))
		return 0;
	return dfi__fail(-EBADMSG,
	    "segment %lu: its checksum is %#lx, the source has sent %#lx: its "
	    "%lu bytes are damaged",
	    (unsigned long)reader->seq, (unsigned long)is, (unsigned long)was,
	    (unsigned long)footer_payload(state));
}

/* The footer belongs neither to a segment nor to a gap. */
static int no_segment(const struct reader *reader, uint64_t state)
{
	const struct ring_geometry *g = &reader->geometry;

	return dfi__fail(-EBADMSG,
	    "segment %lu: its footer is damaged (%#lx): it says %lu bytes, but "
	    "segments have 1 to %u tuples of %u bytes",
	    (unsigned long)reader->seq, (unsigned long)state,
	    (unsigned long)footer_used(state), g->segment_tuples,
	    g->tuple_size);
}

/* The tuples of the next segment; NULL: its footer is not that of a segment. */
static inline const char *find_tuples(
    const struct reader *reader, uint64_t state)
{
	const struct ring_geometry *g = &reader->geometry;
	uint64_t used = footer_payload(state);
	bool mark = footer_is_mark(state);
	const char *tuples;

	if ((!used &&
		!(g->parts &
		    (SEGMENT_TARGETS | SEGMENT_MARK | SEGMENT_TABLES))) ||
	    (mark ? g->parts & SEGMENT_MARK : used > g->segment_bytes) ||
	    state & FOOTER_FLAGS & ~FOOTER_FLAG_SHIFTED)
		return NULL;
	tuples = (const char *)reader->head - g->footer_offset +
	    g->payload_offset;
	if (likely(!(state & FOOTER_FLAG_SHIFTED)))
		return tuples;
	if (g->footer_offset < 0)
		return NULL;
	return tuples +
	    footer_shifted_at(
		(uint64_t)g->footer_offset, g->payload_offset + used);
}

int dfi__reader_global(const struct reader *reader, uint64_t *global)
{
	const struct ring_geometry *g = &reader->geometry;
	uint64_t state = atomic_peek(&reader->head->state);
	const char *tuples = find_tuples(reader, state);

	if (unlikely(!tuples && lost_count(reader, state)))
		tuples = (const char *)reader->head - g->footer_offset +
		    g->payload_offset;
	if (unlikely(!tuples))
		return no_segment(reader, state);
	*global = segment_header(g, tuples)->global;
	return 0;
}

bool dfi__reader_passes(const struct reader *reader)
{
	const struct ring_geometry *g = &reader->geometry;
	uint64_t state = atomic_peek(&reader->head->state);
	const char *tuples = g->parts & SEGMENT_TARGETS
	    ? find_tuples(reader, state)
	    : NULL;

	return tuples && !footer_is_mark(state) &&
	    !(segment_header(g, tuples)->targets & reader->own_bit);
}

int dfi__reader_global_of(
    const struct reader *reader, uint64_t seq, uint64_t *global)
{
	struct reader at = *reader;

	at.seq = seq;
	at.slot = slot_behind(
	    reader, reader->slot, (uint32_t)(seq - reader->seq));
	at.head = reader_footer(reader, at.slot);
	return dfi__reader_global(&at, global);
}

/* The footer is not that of a segment; it may be that of a gap. */
static int take_gap(struct reader *reader, uint64_t state)
{
	uint32_t n = lost_count(reader, state);

	if (!n)
		return no_segment(reader, state);
	reader->gap_first = reader->seq;
	reader->gap_count = n;
	reader->lost_segments += n;
	reader->unsure += n;
	reader->seq += n;
	reader->slot = slot_behind(reader, reader->slot, n);
	reader->head = reader_footer(reader, reader->slot);
	return dfi__fail(-ENODATA,
	    "segments %lu to %lu were lost on the network, and will not come",
	    (unsigned long)reader->gap_first,
	    (unsigned long)(reader->gap_first + n - 1));
}

/*
 * Whether lost segments, some of which may be marks, explain the tuples that
 * the source counts and the target lacks. If they do, count those tuples as
 * lost.
 */
static bool explain_lack(struct reader *reader, uint64_t lack)
{
	if (lack > reader->unsure * reader->geometry.segment_tuples)
		return false;
	reader->lost_total += lack;
	reader->unsure = 0;
	return true;
}

/* A segment has a mark, tuples, or both. */
static int read_mark(struct reader *reader, uint64_t mark, uint64_t used)
{
	if (mark ? mark <= reader->marked : !used)
		return dfi__fail(-EBADMSG,
		    "segment %lu of %lu bytes has mark %lu, but the last one "
		    "was %lu, and marks rise",
		    (unsigned long)reader->seq, (unsigned long)used,
		    (unsigned long)mark, (unsigned long)reader->marked);
	reader->has_mark = mark != 0;
	if (mark)
		reader->marked = mark;
	return 0;
}

/* See struct segment_header. */
static int read_inputs(
    struct reader *reader, const struct segment_header *header, uint64_t used)
{
	if (header->records != used)
		return dfi__fail(-EBADMSG,
		    "segment %lu of %lu bytes says that it has %lu",
		    (unsigned long)reader->seq, (unsigned long)used,
		    (unsigned long)header->records);
	if (header->input && header->input < reader->input)
		return dfi__fail(-EBADMSG,
		    "segment %lu says input position %lu, behind %lu",
		    (unsigned long)reader->seq, (unsigned long)header->input,
		    (unsigned long)reader->input);
	if (header->input) {
		reader->input = header->input;
		reader->settled = header->settled & ~SEGMENT_ASKS;
	}
	if (header->settled & SEGMENT_ASKS)
		reader->asks = true;
	return 0;
}

/* A segment ends a table, has tuples, or both. */
static int read_table(
    struct reader *reader, const struct segment_header *header, uint64_t used)
{
	bool asks = reader->geometry.parts & SEGMENT_INPUTS &&
	    header->settled & SEGMENT_ASKS;

	if (header->table ? header->table <= reader->table : !used && !asks)
		return dfi__fail(-EBADMSG,
		    "segment %lu of %lu bytes says table %lu, behind table %lu",
		    (unsigned long)reader->seq, (unsigned long)used,
		    (unsigned long)header->table, (unsigned long)reader->table);
	if (header->table)
		reader->table = header->table;
	return 0;
}

/* Check the segment's header. *passes: the tuples are for other targets. */
static int read_header(
    struct reader *reader, const char *tuples, uint64_t state, bool *passes)
{
	const struct ring_geometry *g = &reader->geometry;
	const struct segment_header *header = segment_header(g, tuples);
	int ret;

	if (g->parts & SEGMENT_TARGETS && !footer_is_mark(state)) {
		*passes = !(header->targets & reader->own_bit);
		if (!footer_used(state) && !*passes)
			return dfi__fail(-EBADMSG,
			    "segment %lu: it is for this target, but has no "
			    "tuples",
			    (unsigned long)reader->seq);
	}
	if (g->parts & SEGMENT_CHECKSUM) {
		ret = check_sum(reader, tuples, footer_unshifted(state));
		if (ret < 0)
			return ret;
	}
	if (g->parts & SEGMENT_INPUTS) {
		ret = read_inputs(reader, header, footer_tuple_bytes(state));
		if (ret < 0)
			return ret;
	}
	if (g->parts & SEGMENT_TABLES && !footer_is_mark(state))
		return read_table(reader, header, footer_used(state));
	return g->parts & SEGMENT_MARK
	    ? read_mark(reader, header->mark, footer_used(state))
	    : 0;
}

int dfi__reader_take_other(
    struct reader *reader, const char **payload, uint64_t *bytes)
{
	const struct ring_geometry *g = &reader->geometry;
	uint64_t state = atomic_peek(&reader->head->state);
	uint64_t total = atomic_peek(&reader->head->total);
	uint64_t used = footer_tuple_bytes(state), mark;
	uint64_t tuples = used == g->segment_bytes ? g->segment_tuples
						   : used / g->tuple_size;
	uint64_t counted = reader_seen(reader) + tuples;
	const char *tuples_at;
	bool passes = false;
	int ret;

	if (unlikely(reader->shared_segments && footer_is_move(state) &&
		!(state & FOOTER_FLAGS))) {
		*payload = NULL;
		*bytes = 0;
		return dfi__reader_move(reader);
	}
	tuples_at = find_tuples(reader, state);
	if (!tuples_at || tuples * g->tuple_size != used)
		return take_gap(reader, state);
	if (unlikely(total != counted || reader->unsure) &&
	    !explain_lack(reader, total - counted))
		return dfi__fail(-EBADMSG,
		    "segment %lu: the source counts %lu tuples up to here, "
		    "the target %lu",
		    (unsigned long)reader->seq, (unsigned long)total,
		    (unsigned long)counted);
	if (unlikely(g->parts)) {
		ret = read_header(reader, tuples_at, state, &passes);
		if (ret < 0)
			return ret;
	}
	if (unlikely(footer_is_mark(state))) {
		memcpy(&mark, tuples_at, sizeof(mark));
		ret = read_mark(reader, mark, 0);
		if (ret < 0)
			return ret;
	}
	*payload = tuples_at;
	*bytes = passes ? 0 : used;
	if (unlikely(passes))
		reader->passed += tuples;
	else
		owned_add(&reader->total, tuples);
	reader_go_on(reader);
	return 0;
}

static int give_credit(struct reader *reader, enum ring_closed closed)
{
	struct region *region = reader->region;
	struct export *export = region->exports;
	uint64_t returned = reader->returned - reader->ahead;
	int ret = 0;

	for (; unlikely(export != NULL) && ret >= 0; export = export->next)
		ret = export->transport->ops->ring.give_credit(region, export,
		    &reader->layout, reader->ring, returned, closed);
	/*
	 * Give the credit through memory as well: after the ring was opened
	 * over the network, the attached source may be one that reads the
	 * region itself.
	 */
	if (likely(ret >= 0))
		ret = region->transport->ops->ring.give_credit(region, NULL,
		    &reader->layout, reader->ring, returned, closed);
	return ret < 0 ? ret : 0;
}

int dfi__reader_return(struct reader *reader)
{
	reader->returned = reader->seq;
	return give_credit(reader, RING_OPEN);
}

int dfi__reader_return_last(struct reader *reader, bool in_work)
{
	reader->returned = reader->seq - in_work;
	return give_credit(reader, RING_OPEN);
}

void dfi__reader_pause(struct reader *reader)
{
	/*
	 * The footer of a segment that was consumed already, and no end mark.
	 */
	atomic_set(&reader->nothing.state, footer_state(reader->seq - 1, 0, 0));
	reader->head = &reader->nothing;
	reader->mark = &reader->nothing;
	reader->held = true;
}

void dfi__reader_resume(struct reader *reader)
{
	reader->head = reader_footer(reader, reader->slot);
	reader->mark = &header(reader)->end;
	reader->held = false;
}

enum reader_end dfi__reader_fate(struct reader *reader)
{
	/* Pairs as in reader_end_marked(). */
	uint64_t state = atomic_observe(&header(reader)->end.state);

	if (!footer_is_end(state))
		return READER_OPEN;
	if (!(state & FOOTER_FLAG_ABORT))
		return READER_ENDED;
	reader->cause = (uint32_t)footer_used(state);
	return READER_ABORTED;
}

void dfi__reader_close(struct reader *reader, enum ring_closed closed)
{
	give_credit(reader, closed);
}

int dfi__reader_check_end(struct reader *reader)
{
	const struct segment_footer *end = &header(reader)->end;
	uint64_t state, total, counted;

	if (reader->end || !reader_end_marked(reader))
		return 0;
	/* A segment and the mark may have arrived since the caller looked. */
	if (reader_ready(reader))
		return 0;
	state = atomic_peek(&end->state);
	total = atomic_peek(&end->total);
	if (state & FOOTER_FLAG_ABORT) {
		reader->end = READER_ABORTED;
		reader->cause = (uint32_t)footer_used(state);
		return 0;
	}
	counted = reader_seen(reader);
	if (footer_seq(state) != (uint32_t)reader->seq ||
	    !(state & FOOTER_FLAG_END) ||
	    ((total != counted || reader->unsure) &&
		!explain_lack(reader, total - counted)))
		return dfi__fail(-EBADMSG,
		    "the source ended after %lu tuples and segment %u, the "
		    "target received %lu tuples and segment %u",
		    (unsigned long)total, footer_seq(state),
		    (unsigned long)counted, (uint32_t)reader->seq);
	reader->end = READER_ENDED;
	return 0;
}
