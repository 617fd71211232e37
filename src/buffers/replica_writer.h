/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of the rings of a replicate flow: one open segment in memory
 * of the source. All targets read it where it is (shared_ring.h); or, when it
 * is sent, it is copied into each target's ring, by the processor where that is
 * mapped, and by the device from a stage, which has slots like the rings'. The
 * rings go in step, so that all have the same segments under the same numbers;
 * one is left out when its target has cancelled (writer.cancelled).
 *
 * With groups, a segment is for a set of targets: where it is copied, the
 * others get one without tuples.
 */
#ifndef DFI_BUFFERS_REPLICA_WRITER_H
#define DFI_BUFFERS_REPLICA_WRITER_H

#include <stdint.h>
#include "shared_ring.h"
#include "writer.h"

struct replica_writer {
	/*
	 * The open segment and what was sent; it has a ring, and so a remote,
	 * only if that is a shared ring.
	 */
	struct writer lane;
	struct writer *rings; /* one for each target */
	uint32_t n_rings;
	uint32_t short_of;   /* the ring that the last call failed at */
	uint64_t targets;    /* whose tuples; 0: there are no groups */
	char *room;          /* for a segment, if it is copied */
	struct stage *stage; /* instead, if a device sends from there */
	struct shared_ring shared_ring; /* else; without region: copied */
	/*
	 * Of segments that have a place among those of all sources: draws it,
	 * when a segment is as good as sent, so that nobody waits for one that
	 * waits for credit. 1, or 0: it is on its way, and the same call tells
	 * when it is there. It may fail, with a text.
	 */
	int (*draw)(void *arg, uint64_t *global);
	void *draw_arg;
	bool asked;   /* for the next segment's place, which all had room for */
	bool drawn;   /* it is there: lane.global */
	bool undrawn; /* it has failed: nothing was sent */
	/* A segment that waits for its place, in which none other is open. */
	struct replica_waiting {
		char *segment; /* NULL: none waits */
		uint64_t used;
		uint64_t targets;
	} waiting;
};

/* Whether a segment waits for its place; see dfi__replica_publish(). */
static inline bool fan_waits(const struct replica_writer *replica_writer)
{
	return replica_writer->waiting.segment;
}

/* Whether the tuples of the open segment are for this ring's target. */
static inline bool fan_addresses(
    const struct replica_writer *replica_writer, uint32_t ring)
{
	return !replica_writer->targets || replica_writer->targets >> ring & 1;
}

/*
 * What a replica writer takes beside its rings. shared_ring: where the slots
 * are reserved if there is one copy of them, else NULL. It must outlive the
 * replica writer.
 */
uint64_t dfi__replica_bytes(
    const struct transport *shared_ring, const struct ring_geometry *geometry);

/*
 * For rings that are still to be opened; the geometry is not apart. -ENOMEM,
 * and what reserving a region returns.
 */
int dfi__replica_init(struct replica_writer *replica_writer,
    struct writer *rings, uint32_t n_rings, struct transport *shared_ring,
    const struct ring_geometry *geometry, uint64_t start);
void dfi__replica_free(struct replica_writer *replica_writer);

/* How large a stage must be. */
uint64_t dfi__replica_stage_size(const struct ring_geometry *geometry);

/*
 * From now on segments lie in a stage, which the replica writer takes over.
 * Nothing was opened yet, and there is no shared ring.
 */
void dfi__replica_use_stage(
    struct replica_writer *replica_writer, struct stage *stage);

/*
 * Open the next segment: 1, or 0 while a ring has no credit, or none is there
 * that it is for, or the last one waits. As writer_open().
 */
int dfi__replica_open(struct replica_writer *replica_writer);

/*
 * Send the open segment with its first used bytes to all. An error is one
 * ring's; the others have got it. Or it could not be drawn for (undrawn). If
 * its place is still on its way, it waits (fan_waits()), and none is open.
 */
int dfi__replica_publish(struct replica_writer *replica_writer, uint64_t used);

/* Whether the place of the segment that waits is there: 1, 0 or an error. */
int dfi__replica_drawn(struct replica_writer *replica_writer);

/* Send the one that waits, if there is one: 1, or 0: it still waits. */
int dfi__replica_go_on(struct replica_writer *replica_writer);

/* How the source ends, to one: once, and if it has a ring. */
int dfi__replica_end(
    struct replica_writer *replica_writer, uint32_t ring, uint64_t flag);

/*
 * As dfi__writer_publish_part(): to all, or, with 0, to none: also while the
 * place is on its way.
 */
int dfi__replica_publish_part(
    struct replica_writer *replica_writer, uint64_t used);

#endif
