/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's end of one ring: observes segments, checks them, lends their
 * tuples and gives the slots back.
 */
#ifndef DFI_BUFFERS_READER_H
#define DFI_BUFFERS_READER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/counter.h"
#include "ring.h"

struct region;

/* The state of the ring's source, as far as the ring says. */
enum reader_end {
	READER_OPEN = 0,
	READER_ENDED,   /* closed, and every tuple was seen */
	READER_ABORTED, /* gave up */
};

struct reader {
	struct ring_geometry geometry;
	struct region *region;
	struct ring_layout layout; /* of the region */
	uint32_t ring;             /* its number in the region */
	const char *slots;         /* NULL: of which nothing is known yet */
	/* Footer of the next segment; without slots, what says where they are.
	 */
	struct segment_footer *head;
	const struct segment_footer *mark; /* how the source ended */
	uint64_t seq;                      /* of the next segment */
	uint32_t slot;                     /* its slot */
	uint64_t returned;                 /* consumed count last published */
	_Atomic uint64_t total; /* tuples lent; any thread reads it */
	uint64_t passed;        /* tuples for others, which were passed over */
	uint64_t own_bit;       /* of its target, in the sets of segments */
	uint64_t stop; /* for the owner: as dfi__reader_arrived() has said */
	/*
	 * For the owner to set: after how many segments that were released
	 * the source is told; credit_batch() of the geometry at first.
	 */
	uint32_t batch;
	uint64_t windows;  /* of its source that have ended */
	bool ended_window; /* the last one with the segment taken last */
	bool held;
	struct segment_footer nothing; /* what is seen while it is held */
	bool lossy; /* segments may be lost, which reader_take() tells */
	/* Of the gap that it told last, the first number and how many. */
	uint64_t gap_first;
	uint32_t gap_count;
	uint64_t lost_segments; /* in all gaps */
	uint64_t lost_total;    /* and tuples, except those of the next: */
	uint64_t unsure;        /* segments whose tuples nobody has counted */
	uint32_t cause;         /* that the source gave with its abort mark */
	enum reader_end end;
};

/* Of a ring that begins with that number. */
void dfi__ring_header_init(struct ring_header *header, uint64_t start);

/* Make what all rings of a region share ready, before its readers. */
void dfi__region_init(struct region *region);

/*
 * Make ring number source of the region ready for its writer, whose first
 * segment is number start. The memory may hold anything, such as another flow's
 * rings: all that the two ends rely on is set here, and nothing else. A ring
 * that is apart gets its slots later.
 */
void dfi__reader_init(struct reader *reader, struct region *region,
    const struct ring_geometry *geometry, uint32_t n_sources, uint32_t source,
    uint64_t start);

/* Whether the next segment is there. */
static inline bool reader_ready(const struct reader *reader)
{
	/*
	 * Pairs with the publish in the transport's write(): the payload and
	 * the footer's total.
	 */
	return footer_seq(atomic_observe(&reader->head->state)) ==
	    (uint32_t)reader->seq;
}

/* Whether the source has written its end mark. */
static inline bool reader_end_marked(const struct reader *reader)
{
	/* Pairs with the same publish: all segments came before the mark. */
	return footer_is_end(atomic_observe(&reader->mark->state));
}

/*
 * A ring that is apart, without slots yet, and ready: take them. What is ready
 * then is a segment. -EBADMSG: the source has shown none.
 */
int dfi__reader_find_slots(struct reader *reader);

/* The number behind the last segment that is there. */
uint64_t dfi__reader_arrived(const struct reader *reader);

/*
 * The next segment, which is ready, has this place among those of all sources;
 * segments must have that. Of segments that were lost, it is the first one's,
 * and the others' are the next. -EBADMSG: the footer isn't valid.
 */
int dfi__reader_global(const struct reader *reader, uint64_t *global);

/* Tuples of the segments before the next one, whatever became of them. */
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

/* The next segment, or gap, is the one behind; for each, a product would cost.
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

/* Of reader_take(): a segment that is not full, or has a header; or a gap. */
int dfi__reader_take_other(
    struct reader *reader, const char **payload, uint64_t *bytes);

/*
 * Lend the next segment, which is ready: *payload and *bytes, which are 0 if it
 * is for others, or there to end a window. The next call of
 * reader_release() gives it back. -EBADMSG: the footer isn't valid, or the
 * tuples are damaged. -ENODATA, of a reader that is lossy: reader->gap_count
 * segments from gap_first on were lost; once, and reader_release() gives
 * them back, too.
 */
static inline int reader_take(
    struct reader *reader, const char **payload, uint64_t *bytes)
{
	const struct ring_geometry *g = &reader->geometry;
	const struct segment_footer *head = reader->head;

	/* A full one, and nothing else to be said of it: one comparison. */
	if (unlikely(g->parts || reader->unsure ||
		atomic_peek(&head->state) !=
		    footer_state(reader->seq, g->segment_bytes, 0) ||
		atomic_peek(&head->total) !=
		    reader_seen(reader) + g->segment_tuples))
		return dfi__reader_take_other(reader, payload, bytes);
	*payload = (const char *)head - g->footer_offset;
	*bytes = g->segment_bytes;
	owned_add(&reader->total, g->segment_tuples);
	reader_go_on(reader);
	return 0;
}

/*
 * Of reader_release(): give back all that were taken, whatever the batch. 0, or
 * what the transport says.
 */
int dfi__reader_return(struct reader *reader);

/* Give back the segment that was taken last; publishes credits in batches. */
static inline int reader_release(struct reader *reader)
{
	if (likely(reader->seq - reader->returned < reader->batch))
		return 0;
	return dfi__reader_return(reader);
}

/*
 * Until it is let go, a reader sees nothing of what is or comes into its ring:
 * neither segments nor an end. Its slots must be known.
 */
void dfi__reader_pause(struct reader *reader);
void dfi__reader_resume(struct reader *reader);

/* Tell the source that nobody reads any more, and why. */
void dfi__reader_close(struct reader *reader, enum ring_closed closed);

/*
 * Look at the end mark of a ring without a ready segment, and set reader->end.
 * -EBADMSG: the mark contradicts what was received.
 */
int dfi__reader_check_end(struct reader *reader);

#endif
