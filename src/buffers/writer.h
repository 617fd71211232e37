/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of one ring. It opens the next segment when the target has
 * given its slot back, the owner fills it, and publishing makes it visible.
 */
#ifndef DFI_BUFFERS_WRITER_H
#define DFI_BUFFERS_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/compiler.h"
#include "transport/transport.h"
#include "ring.h"

/*
 * What a source sends one after another while this is open may be held, so that
 * a device gets several segments with one call. The source posts it before it
 * waits for anything, and before it returns, unless its caller has promised
 * more.
 */
struct write_batch {
	bool open;
	struct remote *held; /* the last one written to; NULL: none */
};

struct writer {
	struct ring_geometry geometry;
	struct remote *remote;
	struct write_batch *batch; /* NULL: each segment is sent at once */
	char *segment;     /* what is to be sent next; NULL: none is open */
	char *end;         /* of the open segment */
	uint64_t seq;      /* of the open segment, or the next one */
	uint32_t slot;     /* its slot */
	uint64_t consumed; /* last credit seen */
	uint64_t global;   /* of what is sent next, if segments have that */
	uint64_t targets;  /* the same */
	uint64_t windows;  /* the same: see struct segment_header */
	uint64_t records;  /* the same */
	/* Published, for any thread to read: */
	_Atomic uint64_t total; /* tuples */
	_Atomic uint64_t segments, partial_segments;
	_Atomic uint64_t moved; /* bytes that were built elsewhere */
	/* For the owner: */
	int refused;    /* why the last push found no room, or 0 */
	bool cancelled; /* the target wants no more; remote may be NULL */
	bool wanted;    /* somebody was refused and has not tried again */
	int64_t due;    /* when to send what is there, if not 0; see linger.h */
};

/* start: the sequence number of the first segment, the same at both ends. */
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

/* Whether the target can't be reached any more. */
static inline bool writer_lost(const struct writer *writer)
{
	return atomic_peek(&writer->remote->lost);
}

/*
 * Whether the slots of so many segments from the next one on are free: 1, or 0;
 * rereads the credit if need be. -EBADMSG: the target's count is not possible.
 * -ECONNRESET.
 */
int dfi__writer_room(struct writer *writer, uint32_t segments);

/*
 * Whether the image's next slot may be filled: 1, 0 or -ECONNRESET. In place
 * there is no image.
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

/* Where the tuples of the next segment lie in the ring; its slot is free. */
static inline char *writer_payload(const struct writer *writer)
{
	return writer->remote->ring +
	    slot_offset(&writer->geometry, writer->slot) +
	    writer->geometry.payload_offset;
}

/*
 * Open the next segment, none being open: 1, or 0 without credit. -EBADMSG,
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
 * Send the open segment with its first used bytes, whole tuples; none only to a
 * target that it is not for, by its header, or if a window ends with it. One
 * that does not lie in its slot is copied there.
 */
int dfi__writer_publish(struct writer *writer, uint64_t used);

/*
 * What that does in parts, for a segment that goes to several rings, from a
 * stage that their remotes have been opened with: fill in the header before its
 * tuples, if segments have one; send it from where that begins; and count it,
 * where nothing is sent.
 */
void dfi__writer_fill_header(
    const struct writer *writer, const char *tuples, uint64_t used);
int dfi__writer_publish_from(
    struct writer *writer, const char *staged, uint64_t used);
void dfi__writer_count(struct writer *writer, uint64_t used);

/*
 * As publishing, but the segment stays open behind these bytes: what is added
 * will be a segment of its own, and is copied to its slot when it is sent. 1,
 * or 0: the ring has no room for that one. -EBADMSG, -ECONNRESET.
 */
int dfi__writer_publish_part(struct writer *writer, uint64_t used);

/*
 * Send the end mark: FOOTER_FLAG_END, or FOOTER_FLAG_ABORT and maybe a cause in
 * the bits of "used". Once.
 */
int dfi__writer_end(struct writer *writer, uint64_t flag);

/* Post what is held. If that fails, who writes there next finds out. */
void dfi__write_batch_post(struct write_batch *batch);

/* Whether all that was sent has arrived: 1, 0 or -ECONNRESET. */
int dfi__writer_drained(struct writer *writer);

/* Where the owner of this writer sleeps for credit. */
_Atomic uint32_t *dfi__writer_wait_word(struct writer *writer);

#endif
