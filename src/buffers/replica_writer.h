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

struct fan {
	/*
	 * The open segment and what was sent; it has a ring, and so a remote,
	 * only if that is broadcast.
	 */
	struct writer lane;
	struct writer *rings; /* one for each target */
	uint32_t n_rings;
	uint32_t short_of;          /* the ring that the last call failed at */
	uint64_t targets;           /* whose tuples; 0: there are no groups */
	char *room;                 /* for a segment, if it is copied */
	struct stage *stage;        /* instead, if a device sends from there */
	struct broadcast broadcast; /* else; without region: copied */
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
	struct fan_waiting {
		char *segment; /* NULL: none waits */
		uint64_t used;
		uint64_t targets;
	} waiting;
};

/* Whether a segment waits for its place; see dfi__fan_publish(). */
static inline bool fan_waits(const struct fan *fan)
{
	return fan->waiting.segment;
}

/* Whether the tuples of the open segment are for this ring's target. */
static inline bool fan_addresses(const struct fan *fan, uint32_t ring)
{
	return !fan->targets || fan->targets >> ring & 1;
}

/*
 * What a fan takes beside its rings. broadcast: where the slots are reserved if
 * there is one copy of them, else NULL. It must outlive the fan.
 */
uint64_t dfi__fan_bytes(
    const struct transport *broadcast, const struct ring_geometry *geometry);

/*
 * For rings that are still to be opened; the geometry is not apart. -ENOMEM,
 * and what reserving a region returns.
 */
int dfi__fan_init(struct fan *fan, struct writer *rings, uint32_t n_rings,
    struct transport *broadcast, const struct ring_geometry *geometry,
    uint64_t start);
void dfi__fan_free(struct fan *fan);

/* How large a stage must be. */
uint64_t dfi__fan_stage_size(const struct ring_geometry *geometry);

/*
 * From now on segments lie in a stage, which the fan takes over. Nothing was
 * opened yet, and there is no broadcast.
 */
void dfi__fan_use_stage(struct fan *fan, struct stage *stage);

/*
 * Open the next segment: 1, or 0 while a ring has no credit, or none is there
 * that it is for, or the last one waits. As writer_open().
 */
int dfi__fan_open(struct fan *fan);

/*
 * Send the open segment with its first used bytes to all. An error is one
 * ring's; the others have got it. Or it could not be drawn for (undrawn). If
 * its place is still on its way, it waits (fan_waits()), and none is open.
 */
int dfi__fan_publish(struct fan *fan, uint64_t used);

/* Whether the place of the segment that waits is there: 1, 0 or an error. */
int dfi__fan_drawn(struct fan *fan);

/* Send the one that waits, if there is one: 1, or 0: it still waits. */
int dfi__fan_go_on(struct fan *fan);

/* How the source ends, to one: once, and if it has a ring. */
int dfi__fan_end(struct fan *fan, uint32_t ring, uint64_t flag);

/*
 * As dfi__writer_publish_part(): to all, or, with 0, to none: also while the
 * place is on its way.
 */
int dfi__fan_publish_part(struct fan *fan, uint64_t used);

#endif
