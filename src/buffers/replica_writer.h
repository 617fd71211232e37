/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of the rings of a replicate flow. It has one open segment,
 * in memory of the source. Either all targets read it there (shared_ring.h), or
 * sending copies it into each target's ring: the processor copies into a mapped
 * ring, and a device copies from a send buffer, which has slots as the rings
 * have. All rings have the same segments under the same numbers, except the
 * rings of targets that have cancelled (writer.cancelled).
 *
 * With target sets, a segment is for some of the targets. Where segments are
 * copied, the other targets get one without tuples.
 */
#ifndef DFI_BUFFERS_REPLICA_WRITER_H
#define DFI_BUFFERS_REPLICA_WRITER_H

#include <stdint.h>
#include "shared_ring.h"
#include "writer.h"

struct replica_writer {
	/*
	 * The open segment and the counters. It has a ring, and a remote, only
	 * if that is a shared ring.
	 */
	struct writer lane;
	struct writer *rings; /* one for each target */
	uint32_t n_rings;
	uint32_t short_of; /* the ring at which the last call failed */
	uint64_t targets;  /* target set of the segment; 0: no sets */
	uint64_t mark;     /* of a segment that is one (FOOTER_MARK) */
	char *room; /* memory of the segment, if the processor copies it */
	struct send_buffer *send_buffer; /* if a device copies */
	struct shared_ring shared_ring;  /* if it has a region */
	/*
	 * In an ordered flow: draws the position of a segment. It is called
	 * only when all rings have credit, so that no other source waits for a
	 * segment that waits for credit. 1, or 0: the position is on its way,
	 * and a later call tells when it has arrived. On failure it sets the
	 * error text.
	 */
	int (*draw)(void *arg, uint64_t *global);
	void *draw_arg;
	bool asked;   /* the next segment has asked for its position */
	bool drawn;   /* the position has arrived: lane.global */
	bool undrawn; /* drawing has failed: nothing was sent */
	/*
	 * A segment that waits for its position. No other one is open
	 * meanwhile.
	 */
	struct replica_waiting {
		char *segment; /* NULL: none waits */
		uint64_t used;
		uint64_t targets;
	} waiting;
};

/* Whether a segment waits for its position; see dfi__replica_publish(). */
static inline bool replica_waits(const struct replica_writer *replica_writer)
{
	return replica_writer->waiting.segment;
}

/* Whether the tuples of the open segment are for this ring's target. */
static inline bool replica_addresses(
    const struct replica_writer *replica_writer, uint32_t ring)
{
	return !replica_writer->targets || replica_writer->targets >> ring & 1;
}

/*
 * The memory that a replica writer takes beside its rings. shared_ring is the
 * transport that holds the slots of a shared ring, or NULL. It must outlive the
 * replica writer.
 */
uint64_t dfi__replica_bytes(
    const struct transport *shared_ring, const struct ring_geometry *geometry);

/*
 * The caller opens the rings later. The geometry is not apart. -ENOMEM, and the
 * errors of reserving a region.
 */
int dfi__replica_init(struct replica_writer *replica_writer,
    struct writer *rings, uint32_t n_rings, struct transport *shared_ring,
    const struct ring_geometry *geometry, uint64_t start);
void dfi__replica_free(struct replica_writer *replica_writer);

/* The size of a send buffer. */
uint64_t dfi__replica_send_buffer_size(const struct ring_geometry *geometry);

/*
 * Build segments in a send buffer from now on. The replica writer takes it
 * over. No segment was opened yet, and there is no shared ring.
 */
void dfi__replica_use_send_buffer(
    struct replica_writer *replica_writer, struct send_buffer *send_buffer);

/*
 * Open the next segment: 1, or 0 while a ring has no credit, no target is left
 * for it, or the last segment waits for its position. Errors as of
 * writer_open().
 */
int dfi__replica_open(struct replica_writer *replica_writer);

/*
 * Send the first used bytes of the open segment to all rings. If one ring
 * fails, the others have got the segment. If drawing a position fails
 * (undrawn), none has got it. While the position is on its way, the segment
 * waits (replica_waits()), and none is open. used may be FOOTER_MARK: it sends
 * replica_writer->mark to all targets, whatever the target set.
 */
int dfi__replica_publish(struct replica_writer *replica_writer, uint64_t used);

/* Whether the position of the waiting segment has arrived: 1, 0 or an error. */
int dfi__replica_drawn(struct replica_writer *replica_writer);

/* Send the waiting segment, if there is one. 1, or 0: it still waits. */
int dfi__replica_go_on(struct replica_writer *replica_writer);

/* Send the end mark to one ring, once. */
int dfi__replica_end(
    struct replica_writer *replica_writer, uint32_t ring, uint64_t flag);

/*
 * As dfi__writer_publish_part(), to all rings. 0: no ring got the part, since
 * one lacks room or the position is on its way.
 */
int dfi__replica_publish_part(
    struct replica_writer *replica_writer, uint64_t used);

#endif
