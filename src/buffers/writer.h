/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of one ring. It opens the next segment when the target has
 * given its slot back. The owner fills the segment, and publishing makes it
 * visible to the target.
 */
#ifndef DFI_BUFFERS_WRITER_H
#define DFI_BUFFERS_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/counter.h"
#include "transport/transport.h"
#include "layout/ring.h"

/*
 * While a batch is open, a transport may hold back segments, so that a device
 * gets several with one call. The source posts the batch before it waits, and
 * before it returns to a caller that has not announced more.
 */
struct write_batch {
	bool open;
	struct remote *held; /* the last one written to; NULL: none */
};

/*
 * Looks after segments that the target has given back before their slots are
 * used again. Returns up to which number that may happen; it is called again
 * when the writer needs more.
 */
struct writer;
struct writer_keeper {
	uint64_t (*keep)(struct writer_keeper *keeper, struct writer *writer,
	    uint64_t returned);
};

struct writer {
	struct ring_geometry geometry;
	struct remote *remote;
	struct write_batch *batch;    /* NULL: each segment is sent at once */
	char *segment;                /* the open segment; NULL: none is open */
	char *end;                    /* of the open segment */
	uint64_t seq;                 /* of the open segment, or the next one */
	uint32_t slot;                /* the slot of segment seq */
	uint64_t consumed;            /* last credit seen */
	struct writer_keeper *keeper; /* or NULL */
	uint64_t global;              /* for the header of the next segment */
	uint64_t targets;             /* the same */
	uint64_t mark;                /* likewise: see struct segment_header */
	uint64_t records;             /* the same */
	uint64_t table;               /* the same */
	uint64_t input, settled;      /* the same */
	/* As many segments may be there beyond this ring's: shared_segments. */
	uint32_t elsewhere;
	/* Published, for any thread to read: */
	_Atomic uint64_t total; /* tuples */
	_Atomic uint64_t segments, partial_segments;
	_Atomic uint64_t moved; /* bytes that were copied into their slot */
	/* For the owner: */
	int refused;    /* why the last push found no room, or 0 */
	bool cancelled; /* the target takes no more; remote may be NULL */
	bool wanted;    /* a caller was refused and has not tried again */
	int64_t due;    /* when to send a partial one, or 0; see linger.h */
};

/* start is the sequence number of the first segment; both ends use the same. */
void dfi__writer_init(struct writer *writer, struct remote *remote,
    const struct ring_geometry *geometry, uint64_t start);

/* Whether another writer has used this ring before. */
bool dfi__writer_ring_used(const struct writer *writer);

static inline struct ring_header *writer_header(const struct writer *writer)
{
	return (struct ring_header *)(void *)writer->remote->ring;
}

/* Whether the target has left, and why: enum ring_closed. */
static inline uint32_t writer_closed(const struct writer *writer)
{
	/* Pairs with the publish in dfi__reader_close(); protects nothing. */
	return atomic_observe(&writer_header(writer)->credit.closed);
}

/* Whether the connection to the target is lost. */
static inline bool writer_lost(const struct writer *writer)
{
	return atomic_peek(&writer->remote->lost);
}

/*
 * Whether this many slots from the next one on are free: 1 or 0. Rereads the
 * credit if necessary. -EBADMSG: the target's count is impossible. -ECONNRESET.
 */
int dfi__writer_room(struct writer *writer, uint32_t segments);

/*
 * Whether the next slot of the shadow ring may be filled: 1, 0 or -ECONNRESET.
 * A ring that is written in place has no shadow ring.
 */
static inline int writer_slot_is_free(struct writer *writer)
{
	struct remote *remote = writer->remote;

	if (likely(remote->in_place))
		return 1;
	return remote->transport->ops->ring.slot_is_free(remote);
}

/* dfi__writer_room() for the next segment. */
static always_inline int writer_credit(struct writer *writer)
{
	if (unlikely(writer->seq - writer->consumed >=
		writer->geometry.segment_count))
		return dfi__writer_room(writer, 1);
	return writer_slot_is_free(writer);
}

/* The payload of the next segment in the ring. Its slot is free. */
static inline char *writer_payload(const struct writer *writer)
{
	return writer->remote->ring +
	    slot_offset(&writer->geometry, writer->slot) +
	    writer->geometry.payload_offset;
}

/*
 * Open the next segment while none is open: 1, or 0 without credit. -EBADMSG,
 * -ECONNRESET.
 */
static always_inline int writer_open(struct writer *writer)
{
	int ret = writer_credit(writer);

	if (likely(ret > 0)) {
		writer->segment = writer_payload(writer);
		writer->end = writer->segment + writer->geometry.segment_bytes;
	}
	return ret;
}

/*
 * Send the first used bytes of the open segment. They are whole tuples. used
 * may be 0 only if the header excludes the target, or has a mark or a table. A
 * segment outside of its slot is copied there.
 */
int dfi__writer_publish(struct writer *writer, uint64_t used);

/*
 * The steps of dfi__writer_publish(), for a segment that goes to several rings
 * from a send buffer: fill in the header before the tuples, if segments have
 * one (used as in a footer); send the segment from the beginning of that
 * header; and count it without sending. The rings' remotes were opened with the
 * send buffer.
 */
void dfi__writer_fill_header(
    const struct writer *writer, const char *tuples, uint64_t used);
int dfi__writer_publish_from(
    struct writer *writer, const char *buffered, uint64_t used);
void dfi__writer_count(struct writer *writer, uint64_t used);

/*
 * Send a mark in the next segment, whose slot is free. An open segment is
 * empty, and is closed.
 */
int dfi__writer_publish_mark(struct writer *writer, uint64_t mark);

/*
 * The steps of it for a segment that goes to several rings: see
 * dfi__writer_fill_header().
 */
void dfi__writer_fill_mark(
    const struct writer *writer, char *payload, uint64_t mark);
int dfi__writer_publish_mark_from(struct writer *writer, const char *buffered);

/*
 * Tell the readers, in the next segment, whose slot is free, that the next ones
 * lie in the shared ring that was granted under this key, from its first slot
 * on; 0: in the ring that each reader has to itself. Only in rings of memory.
 */
int dfi__writer_publish_move(struct writer *writer, uint64_t key);

/*
 * n segments that are counted in this ring were sent in a shared ring, with
 * that many tuples.
 */
static inline void writer_sent_elsewhere(
    struct writer *writer, uint64_t n, uint64_t tuples)
{
	writer->seq += n;
	owned_add(&writer->total, tuples);
}

/*
 * Segments were sent elsewhere, and the next one is sent here. The reader has
 * not given back the last n that were sent here before: make sure that no other
 * slot looks like a segment that is due, however old what it has is.
 */
void dfi__writer_return_to(struct writer *writer, uint64_t n);

/*
 * As dfi__writer_publish(), but the segment stays open behind these bytes.
 * Tuples added from now on form a segment of their own, which is copied to its
 * slot when it is sent. 1, or 0: the ring has no room for that segment.
 * -EBADMSG, -ECONNRESET.
 */
int dfi__writer_publish_part(struct writer *writer, uint64_t used);

/*
 * Send the end mark, once: FOOTER_FLAG_END, or FOOTER_FLAG_ABORT with an
 * optional cause in the bits of "used".
 */
int dfi__writer_end(struct writer *writer, uint64_t flag);

/*
 * Post the held segments. If that fails, the next write to the connection
 * returns the error.
 */
void dfi__write_batch_post(struct write_batch *batch);

/* Whether all sent segments have arrived: 1, 0 or -ECONNRESET. */
int dfi__writer_drained(struct writer *writer);

/*
 * Tuples that were sent and that the target has not given back. It gives back
 * segments in batches, and all that it has taken when it closes. In a shadow
 * ring it is an upper bound.
 */
uint64_t dfi__writer_unreturned(const struct writer *writer);

/*
 * The tuples of the last n segments of a ring of memory, or those that were
 * sent elsewhere meanwhile. n is not above segment_count.
 */
uint64_t dfi__writer_last(const struct writer *writer, uint64_t n);

/*
 * Of the last n segments: the tuples of sets without that target. The ring is
 * in memory of this process, and its segments have sets.
 */
uint64_t dfi__writer_skipped(
    const struct writer *writer, uint64_t n, uint32_t target);

/* The word in which this writer's owner sleeps for credit. */
_Atomic uint32_t *dfi__writer_wait_word(struct writer *writer);

#endif
