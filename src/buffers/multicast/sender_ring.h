/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of a multicast over datagrams. Its segments are those of a
 * shared ring (shared_ring.h) that sends them instead of granting its slots.
 * Each target's ring is a header in this process, without slots; its credit is
 * what the target has reported. The remotes of these rings belong to a
 * transport in sender_ring.c.
 */
#ifndef DFI_BUFFERS_MULTICAST_SENDER_RING_H
#define DFI_BUFFERS_MULTICAST_SENDER_RING_H

#include "transport/transport.h"
#include "end.h"
#include "sender.h"

struct sender_ring;

/* The ring of one target. */
struct sender_remote {
	struct remote base;
	struct sender_ring *source;
	uint32_t target;
	bool heard; /* the target has answered */
	/* In an open flow: */
	bool taken;
	uint64_t pair; /* the id of its pair */
	struct multicast_address address;
};

struct sender_ring {
	struct multicast_end end; /* first */
	struct transport transport;
	struct multicast_sender sender;
	struct ring_header *headers;
	struct sender_remote *remotes;
	bool used; /* a target has had this stream before */
};

/*
 * How many receives: each target reports several times in a window, and
 * answers. Targets repeat a lost report.
 */
#define SENDER_REPORTS 32
#define SENDER_REPORTS_MAX 8192
static inline uint32_t sender_receives(uint32_t n_targets)
{
	return (uint32_t)min_u64(
	    (uint64_t)SENDER_REPORTS * n_targets, SENDER_REPORTS_MAX);
}

/*
 * Send the segments of a shared ring, whose slots are in a region. config has
 * network, group, find, find_arg and flow. -ENOMEM, and the errors of
 * dfi__multicast_end_open().
 */
int dfi__sender_ring_open(struct sender_ring *source,
    const struct multicast_config *config, uint32_t index, uint32_t gap_us,
    bool notify, const struct region *slots, uint64_t start, int64_t deadline);
/*
 * Stop sending. config.find is not called after this returns. The rings stay.
 */
void dfi__sender_ring_stop(struct sender_ring *source);
void dfi__sender_ring_close(struct sender_ring *source);

/* The shared ring's writer has published a segment: send it. */
void dfi__sender_ring_send(struct sender_ring *source);

/* The ring of a target, for a writer. It needs neither opening nor closing. */
struct remote *dfi__sender_ring_ring(
    struct sender_ring *source, uint32_t target);

/*
 * Before the first segment: ask the targets that have not answered yet, and
 * query whether a target has answered. Neither waits, and answers may be lost.
 * -EEXIST: a target has had a stream of this index before. -ECONNRESET.
 */
int dfi__sender_ring_greet(struct sender_ring *source);
bool dfi__sender_ring_heard(struct sender_ring *source, uint32_t target);

/* As dfi__multicast_sender_leave(). */
void dfi__sender_ring_leave(
    struct sender_ring *source, uint32_t target, enum multicast_over over);

/*
 * In an open flow (config->flow.open) config->find is not used. Each target has
 * a ring from take on, until it is closed by its transport; NULL: none is left.
 * Its target's datagrams go to that address. join: see
 * dfi__multicast_sender_join().
 */
struct remote *dfi__sender_ring_take(struct sender_ring *source, uint64_t pair,
    const struct multicast_address *address);
void dfi__sender_ring_join(
    struct remote *ring, uint64_t first, uint64_t before, uint64_t mark);

/* The target of such a ring has closed, and had given back all before that
 * number: it takes no more. */
void dfi__sender_ring_left(struct remote *ring, uint64_t given_back);

/* The source goes on without the target of such a ring. */
void dfi__sender_ring_drop(struct remote *ring, enum multicast_over over);

/* See dfi__multicast_sender_unreturned(). */
uint64_t dfi__sender_ring_unreturned(
    struct remote *ring, uint64_t end, uint64_t sets);

/* Why no target of the source can be reached any more, or NULL. */
const char *dfi__sender_ring_broken(const struct sender_ring *source);

#endif
