/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's end of one ring. It observes segments, checks them, lends their
 * tuples and gives the slots back.
 */
#ifndef DFI_BUFFERS_READER_H
#define DFI_BUFFERS_READER_H

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/counter.h"
#include "layout/ring.h"

struct region;

/* The state of the ring's source, as the ring tells it. */
enum reader_end {
	READER_OPEN = 0,
	READER_ENDED,   /* closed, and the target has seen every tuple */
	READER_ABORTED, /* gave up */
};

/*
 * The size is a power of two, so that finding one by its number takes one
 * instruction, however many members there are.
 */
#define READER_ALIGN 512

struct reader {
	alignas(READER_ALIGN) struct ring_geometry geometry;
	struct region *region;
	struct ring_layout layout; /* of the region */
	uint32_t ring;             /* the ring's number in the region */
	const char *slots;         /* NULL: the reader does not know them yet */
	/*
	 * Footer of the next segment. While slots is NULL: the ring header's
	 * word that tells where the slots are.
	 */
	struct segment_footer *head;
	const struct segment_footer *mark; /* the end mark */
	uint64_t seq;                      /* of the next segment */
	uint32_t slot;                     /* the slot of segment seq */
	uint64_t returned;                 /* consumed count last published */
	_Atomic uint64_t total; /* tuples lent; any thread reads it */
	/* Tuples for other targets, which were skipped, and for a mark. */
	uint64_t passed;
	uint64_t own_bit; /* the bit of this target in target sets */
	uint64_t stop;    /* the owner's last dfi__reader_arrived() */
	/*
	 * The owner may set it: the reader returns credit after this many
	 * released segments. At first it is credit_batch() of the geometry.
	 */
	uint32_t batch;
	/*
	 * The owner may set it, before a segment with tuples: the source's
	 * numbers are higher by this, and its checksums are of those.
	 */
	uint64_t base;
	uint64_t marked; /* the source's last mark; 0: none */
	bool has_mark;   /* the segment taken last has it; for the owner */
	/* For the owner: the first segment must be a mark, not taken yet. */
	bool awaits_mark;
	uint64_t table; /* the highest in headers; 0: none */
	/* The last input position in headers, not 0, and its table. */
	uint64_t input, settled;
	bool asks; /* the source waits for credit; for the owner */
	/*
	 * The owner may set it: the source may go on in a shared ring of so
	 * many segments, and come back (reader_move.c). ahead: how far seq is
	 * ahead of the number in the ring's credit.
	 */
	uint32_t shared_segments;
	bool away; /* slots is in a shared ring */
	uint64_t ahead;
	struct {
		const char *slots;
		uint64_t seen; /* reader_seen() at the move */
		uint32_t slot; /* the next one */
		uint32_t segment_count, batch;
	} own;                         /* this ring, while the reader is away */
	bool held;                     /* it is paused */
	struct segment_footer nothing; /* its head while it is paused */
	bool lossy; /* segments may be lost; reader_take() tells of it */
	/* The gap that reader_take() told of last: first number and length. */
	uint64_t gap_first;
	uint32_t gap_count;
	uint64_t lost_segments; /* segments in all gaps */
	uint64_t lost_total;    /* tuples in gaps, except the unsure ones */
	uint64_t unsure;        /* lost segments of unknown tuple counts */
	uint32_t cause;         /* the cause in the source's abort mark */
	enum reader_end end;
};

static_assert(sizeof(struct reader) == READER_ALIGN, "reader");

/* n readers, zeroed, which free() frees; NULL: no memory. */
struct reader *dfi__readers_alloc(uint32_t n);

/*
 * Initialise what all rings of a region share. Call it before
 * dfi__reader_init().
 */
void dfi__region_init(struct region *region);

/*
 * Initialise ring number source of the region for its writer. The first segment
 * has number start. The memory may hold anything, such as another flow's rings:
 * this call sets all that the two ends rely on, and nothing else. A ring whose
 * geometry is apart gets its slots later.
 */
void dfi__reader_init(struct reader *reader, struct region *region,
    const struct ring_geometry *geometry, uint32_t n_sources, uint32_t source,
    uint64_t start);

/* Whether the next segment has arrived. */
static inline bool reader_ready(const struct reader *reader)
{
	/*
	 * Pairs with the publish in the transport's write(). It protects the
	 * payload and the footer's total.
	 */
	return footer_seq(atomic_observe(&reader->head->state)) ==
	    (uint32_t)reader->seq;
}

/* Whether the source has written its end mark. */
static inline bool reader_end_marked(const struct reader *reader)
{
	/* Pairs with the same publish: all segments arrive before the mark. */
	return footer_is_end(atomic_observe(&reader->mark->state));
}

/*
 * Find the slots of a ring that is apart, has no slots yet and is ready. From
 * then on reader_ready() is about segments. -EBADMSG: the source has granted no
 * slots.
 */
int dfi__reader_find_slots(struct reader *reader);

/*
 * The step of it that finds what was granted under a key, of that many slots;
 * it leaves the reader's head. The same error.
 */
int dfi__reader_find_granted(
    struct reader *reader, uint64_t key, uint32_t segment_count);

/*
 * The next segment is a move: take it, and go on where it says, to a shared
 * ring or back. -EBADMSG: there is no such ring.
 */
int dfi__reader_move(struct reader *reader);

/* The number after the last segment that has arrived. */
uint64_t dfi__reader_arrived(const struct reader *reader);

/*
 * The position of the next segment in the flow's order. The segment is ready,
 * and the flow's segments have positions. For lost segments it is the position
 * of the first one; the others follow it. -EBADMSG: the footer is not valid.
 */
int dfi__reader_global(const struct reader *reader, uint64_t *global);

/*
 * The position of segment number seq, which has arrived and was not taken yet.
 * Otherwise the same.
 */
int dfi__reader_global_of(
    const struct reader *reader, uint64_t seq, uint64_t *global);

/* Whether the next segment, which has come, is for a set without this target.
 */
bool dfi__reader_passes(const struct reader *reader);

/* Whether the next segment, which is ready, is a mark. */
static inline bool reader_is_at_mark(const struct reader *reader)
{
	return footer_is_mark(atomic_peek(&reader->head->state));
}

/* Tuples of all segments before the next one: lent, skipped and lost. */
static inline uint64_t reader_seen(const struct reader *reader)
{
	return atomic_peek(&reader->total) + reader->passed +
	    reader->lost_total;
}

static inline struct segment_footer *reader_footer(
    const struct reader *reader, uint32_t slot)
{
	return (struct segment_footer *)(void *)(reader->slots +
	    (uint64_t)reader->geometry.slot_size * slot +
	    reader->geometry.footer_offset);
}

/*
 * Advance by one segment. It adds, since a multiplication for each segment
 * would cost time.
 */
static inline void reader_go_on(struct reader *reader)
{
	reader->seq++;
	if (likely(++reader->slot < reader->geometry.segment_count)) {
		reader->head =
		    (struct segment_footer *)(void *)((char *)reader->head +
			reader->geometry.slot_size);
		return;
	}
	reader->slot = 0;
	reader->head = reader_footer(reader, 0);
}

/*
 * The slow path of reader_take(): a partial segment, one with a header, or a
 * gap.
 */
int dfi__reader_take_other(
    struct reader *reader, const char **payload, uint64_t *bytes);

/*
 * Whether the next segment is full and without a header, as its footer's state
 * says, which the caller has loaded. If it has observed it, the segment has
 * arrived as well.
 */
static inline bool reader_is_plain(const struct reader *reader, uint64_t state)
{
	const struct ring_geometry *g = &reader->geometry;

	return likely(state == footer_state(reader->seq, g->segment_bytes, 0) &&
	    !g->parts && !reader->unsure &&
	    atomic_peek(&reader->head->total) ==
		reader_seen(reader) + g->segment_tuples);
}

/* Lend that segment: as reader_take(). */
static inline const char *reader_take_plain(struct reader *reader)
{
	const struct ring_geometry *g = &reader->geometry;
	const char *payload = (const char *)reader->head - g->footer_offset;

	owned_add(&reader->total, g->segment_tuples);
	reader_go_on(reader);
	return payload;
}

/*
 * Lend the next segment, which is ready. *bytes is 0 if the segment is for
 * other targets, or only has a mark or a table. reader_release() gives the
 * segment back.
 * -EBADMSG: the footer is not valid, or the tuples are damaged. -ENODATA, from
 * a lossy reader, once for each gap: reader->gap_count segments from gap_first
 * on were lost. reader_release() also gives lost segments back.
 */
static inline int reader_take(
    struct reader *reader, const char **payload, uint64_t *bytes)
{
	/* The fast path, with one comparison. */
	if (unlikely(
		!reader_is_plain(reader, atomic_peek(&reader->head->state))))
		return dfi__reader_take_other(reader, payload, bytes);
	*payload = reader_take_plain(reader);
	*bytes = reader->geometry.segment_bytes;
	return 0;
}

/*
 * The slow path of reader_release(): give back all taken segments, whatever the
 * batch. 0, or the transport's error.
 */
int dfi__reader_return(struct reader *reader);

/*
 * Before the reader leaves: give back what was consumed, at once. in_work: the
 * segment taken last was not. Errors as above.
 */
int dfi__reader_return_last(struct reader *reader, bool in_work);

/* Give back the segment taken last. Credit is published in batches. */
static inline int reader_release(struct reader *reader)
{
	if (likely(reader->seq - reader->returned < reader->batch))
		return 0;
	return dfi__reader_return(reader);
}

/*
 * A paused reader sees neither segments nor an end, whatever its ring holds.
 * Its slots must be known.
 */
void dfi__reader_pause(struct reader *reader);
void dfi__reader_resume(struct reader *reader);

/*
 * What the end mark says, whatever waits in front of it or is paused. Sets
 * reader->cause of an abort.
 */
enum reader_end dfi__reader_fate(struct reader *reader);

/* Tell the source that the target reads no more, and why. */
void dfi__reader_close(struct reader *reader, enum ring_closed closed);

/*
 * Check the end mark of a ring that has no ready segment, and set reader->end.
 * -EBADMSG: the mark contradicts the received segments.
 */
int dfi__reader_check_end(struct reader *reader);

#endif
