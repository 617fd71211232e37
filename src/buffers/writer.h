/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of one ring. It opens the next segment when the target has
 * given its slot back, the owner fills it, and publishing makes it visible.
 */
#ifndef DFI_BUFFERS_WRITER_H
#define DFI_BUFFERS_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include "ring.h"

struct remote;

struct writer {
	struct ring_geometry geometry;
	struct remote *remote;
	uint64_t offset;   /* of the ring in the remote region */
	char *segment;     /* payload of the open segment, or NULL */
	uint64_t seq;      /* of the open segment, or the next one */
	uint32_t slot;     /* its slot */
	uint64_t consumed; /* last credit seen */
	uint64_t total;    /* tuples published */
	uint64_t segments, partial_segments; /* published */
	int refused; /* why the last push found no room, or 0; for the owner */
};

/*
 * Start at ring number source of the region. start is the sequence number of
 * the first segment, the same at both ends.
 */
void dfi__writer_init(struct writer *writer, struct remote *remote,
    const struct ring_geometry *geometry, uint32_t source, uint64_t start);

/* Whether another writer has used this ring before. */
bool dfi__writer_ring_used(const struct writer *writer);

/* Whether the target has left. */
bool dfi__writer_closed(const struct writer *writer);

/*
 * Whether the next segment's slot is free: 1, or 0; rereads the credit if need
 * be. -EBADMSG: the target's count is not possible.
 */
int dfi__writer_credit(struct writer *writer);

/* Open the next segment: 1, or 0 without credit, or -EBADMSG. None is open. */
int dfi__writer_open(struct writer *writer);

/* Send the open segment with its first used bytes, whole tuples, not none. */
int dfi__writer_publish(struct writer *writer, uint64_t used);

/* Send the end mark: FOOTER_FLAG_END or FOOTER_FLAG_ABORT. Once. */
int dfi__writer_end(struct writer *writer, uint64_t flag);

/* Where the owner of this writer sleeps for credit. */
_Atomic uint32_t *dfi__writer_wait_word(struct writer *writer);

#endif
