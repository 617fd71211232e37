/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ends of a ring that is written over a connection: the owner's
 * exported region, the writer's remote, and a link at each end, whose number
 * the other end puts into immediate data; and the operations of both.
 */
#ifndef DFI_TRANSPORT_VERBS_DATA_RING_H
#define DFI_TRANSPORT_VERBS_DATA_RING_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/compiler.h"
#include "conn.h"
#include "memory.h"
#include "transport/transport.h"
#include "transport/verbs/verbs.h"

enum verbs_owing {
	VERBS_OWES_NOTHING,
	VERBS_OWES_CREDIT,
	VERBS_OWES_CLOSED, /* the ring no longer exists then */
};

/* One end of a ring, by the number that immediate data carries. */
struct verbs_link {
	struct verbs_conn *conn; /* NULL: free */
	uint32_t to_link;        /* the peer's number */
	/* A ring of ours that the peer writes ... */
	struct verbs_export *export; /* NULL: not such a link */
	uint32_t ring;
	uint32_t slot;                 /* of the next segment */
	_Atomic uint64_t *next_footer; /* in that slot */
	uint64_t footer[2]; /* of the last segment, if this end makes footers */
	uint32_t blank_slot; /* behind those that are ready */
	uint64_t credit_address;
	uint32_t credit_rkey;
	uint64_t first_state; /* the first footer's, as it was at the open */
	bool ended;           /* the writer's end mark is here */
	/* Messages to post once the connection has room. */
	enum verbs_owing owing;
	struct ring_credit credit; /* the last credit that was given */
	/* ... or a ring of the peer that we write. */
	struct verbs_remote *remote;
};

struct verbs_export {
	struct export base;
	struct verbs_export *next;
	struct region *region;
	struct ring_layout layout;
	struct ibv_mr *mr;
	struct network_ring *rings;
	uint32_t n_links; /* links of peers that may still write */
	bool closing;     /* no reader any more; freed when n_links is 0 */
};

struct verbs_remote {
	struct remote base;
	struct verbs_conn *conn;
	struct ring_layout layout;
	struct verbs_memory shadow; /* of the ring */
	uint32_t send_buffer_key;   /* local, if it has a send buffer */
	uint32_t link;              /* number of our link */
	uint32_t to_link;
	uint64_t address; /* of the owner's ring */
	uint32_t rkey;
	enum verbs_notify notify;
	int opened;     /* 1, or a negative errno value; 0: no answer yet */
	bool closing;   /* freed when the owner answers CLOSED */
	uint64_t last;  /* number of the last work request */
	bool unsent;    /* a write could not be posted */
	uint32_t waits; /* looks for credit so far */
	/* Prepared for writes: clearing all of it each time is slow. */
	struct ibv_send_wr request;
};

static inline char *verbs_ring_base(
    const struct verbs_export *export, uint32_t ring)
{
	return (char *)export->region->base + export->layout.first_ring +
	    ring * export->layout.ring_size;
}

static inline _Atomic uint64_t *verbs_footer_at(
    const struct verbs_link *link, uint32_t slot)
{
	return (_Atomic uint64_t *)(void *)(verbs_ring_base(
						link->export, link->ring) +
	    layout_footer(&link->export->layout, slot));
}

/*
 * Returns the footer after that of *slot, and advances *slot. Multiplying for
 * each slot would cost time.
 */
static inline _Atomic uint64_t *verbs_footer_behind(
    const struct verbs_link *link, _Atomic uint64_t *footer, uint32_t *slot)
{
	const struct ring_layout *layout = &link->export->layout;

	if (likely(++*slot < layout->n_slots))
		return (_Atomic uint64_t *)(void *)((char *)footer +
		    layout->slot_size);
	*slot = 0;
	return verbs_footer_at(link, 0);
}

/* A gap of this many bytes before the footer is sent, not skipped. */
#define VERBS_MOST_PADDING 128
_Static_assert(VERBS_MOST_PADDING <= TRANSPORT_SEND_BUFFER_PAD,
    "what is read of a send buffer");

/*
 * Where the payload of a segment lies in its slot if its footer travels in the
 * same write. room: bytes before the footer. Not 0 means FOOTER_FLAG_SHIFTED.
 */
static inline uint64_t verbs_payload_at(uint64_t room, uint64_t bytes)
{
	return likely(room - bytes < VERBS_MOST_PADDING)
	    ? 0
	    : footer_shifted_at(room, bytes);
}

/* The second word of a footer. */
static inline uint64_t verbs_footer_state(
    const struct verbs_export *export, uint32_t ring, uint64_t footer)
{
	return atomic_peek(
	    (_Atomic uint64_t *)(void *)(verbs_ring_base(export, ring) +
		footer + 8));
}

/* data/export.c: the transport's operations, and: */

int dfi__verbs_export_room(struct transport *transport, uint64_t size);
int dfi__verbs_export(struct transport *transport, struct region *region,
    const struct ring_layout *layout);
void dfi__verbs_unexport(struct export *base);
enum ring_loss dfi__verbs_ring_lost(
    const struct export *base, uint32_t ring, uint64_t node);
const char *dfi__verbs_ring_why(
    const struct export *base, uint32_t ring, uint64_t node);

/*
 * Detach a peer that can't write any more; both locks are held. Returns whether
 * it has written: if not, the ring is as if it had never been opened.
 */
bool dfi__verbs_leave_export(struct verbs_link *link);
void dfi__verbs_put_export(struct verbs_export *export);

/* Free all exports, when the transport stops. */
void dfi__verbs_free_exports(struct verbs *verbs);

/* data/write.c: the transport's operations. */

int dfi__verbs_write(struct remote *base, const struct transport_write *write);
void dfi__verbs_post_remote(struct remote *base);
int dfi__verbs_slot_is_free(struct remote *base);
int dfi__verbs_drained(struct remote *base);
int dfi__verbs_remote_progress(struct remote *base);
void dfi__verbs_arm_remote(struct remote *base);
const char *dfi__verbs_remote_why(const struct remote *remote);

/* Report -ECONNRESET, with the reason why a remote's connection broke. */
int dfi__verbs_lost(const struct verbs_remote *remote);

/* data/credit.c */

/*
 * Tell the writer of a ring how much of it is free: now, or when the connection
 * has room. Credits are absolute, so only the last one that waits is posted.
 * Returns 1, or 0 if the ring is not written through a connection.
 */
int dfi__verbs_give_credit(struct region *region, struct export *base,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed);

/*
 * Tell the peer, which has left the link's ring, that it gets no more credits;
 * this frees the link. Both locks are held.
 */
void dfi__verbs_say_closed(struct verbs_link *link);

/* Sends have completed: post what waits for room. Both locks are held. */
void dfi__verbs_pay(struct verbs_conn *conn);

/* data/counter.c */

/* 0, or -EOPNOTSUPP: the device can't add. */
int dfi__verbs_check_atomics(const struct verbs *verbs);

int dfi__verbs_add(struct remote *base, uint64_t offset, uint64_t n);
int dfi__verbs_added(struct remote *base, uint64_t offset, uint64_t *before);

#endif
