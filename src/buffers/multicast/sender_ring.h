/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of a multicast over datagrams. Its segments are those of a
 * shared ring (shared_ring.h) which sends them instead of having them read;
 * each target's ring is a header in this process, without slots, whose credit
 * is what the target has reported, and the remotes of these rings are of a
 * transport of this file's own.
 */
#ifndef DFI_BUFFERS_MULTICAST_SENDER_RING_H
#define DFI_BUFFERS_MULTICAST_SENDER_RING_H

#include "transport/transport.h"
#include "buffers/shared_ring.h"
#include "end.h"
#include "sender.h"

struct sender_ring;

/* The ring of one target. */
struct cast_remote {
	struct remote base;
	struct sender_ring *source;
	uint32_t target;
	bool heard; /* it has answered */
};

struct sender_ring {
	struct cast cast; /* first */
	struct transport transport;
	struct multicast_sender stream;
	struct shared_ring *shared_ring;
	struct ring_header *headers;
	struct cast_remote *remotes;
	bool used; /* a target has had this stream before */
};

/*
 * Receives: each target reports some times for each window, and answers. What
 * is lost is said again.
 */
#define CAST_REPORTS 32
#define CAST_REPORTS_MAX 8192
static inline uint32_t cast_source_receives(uint32_t n_targets)
{
	return (uint32_t)min_u64(
	    (uint64_t)CAST_REPORTS * n_targets, CAST_REPORTS_MAX);
}

/*
 * Have a shared ring's segments sent. config: network, group, find, find_arg
 * and flow. -ENOMEM, and what dfi__cast_open() returns.
 */
int dfi__sender_ring_open(struct sender_ring *source,
    const struct cast_config *config, uint32_t index, uint32_t gap_us,
    bool notify, struct shared_ring *shared_ring, uint64_t start,
    int64_t deadline);
/* Nothing is sent any more, and config.find not called; the rings stay. */
void dfi__sender_ring_stop(struct sender_ring *source);
void dfi__sender_ring_close(struct sender_ring *source);

/* The ring of a target, for a writer; it needs no opening or closing. */
struct remote *dfi__sender_ring_ring(
    struct sender_ring *source, uint32_t target);

/*
 * Before the first segment: ask who has not answered yet to do so, and whether
 * the target has. It doesn't wait, and answers may be lost. -EEXIST: a target
 * has had a stream of this index before. -ECONNRESET.
 */
int dfi__sender_ring_greet(struct sender_ring *source);
bool dfi__sender_ring_heard(struct sender_ring *source, uint32_t target);

/* As dfi__multicast_sender_leave(). */
void dfi__sender_ring_leave(
    struct sender_ring *source, uint32_t target, enum stream_over over);

#endif
