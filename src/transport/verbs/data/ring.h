/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ends of a ring that is written over a connection: the owner's region
 * that is exported, the writer's remote, and a link at each end, whose number
 * the other one puts into immediate data. And what both do with a ring.
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
	VERBS_OWES_CLOSED, /* then there is no ring any more */
};

/* The other end of a ring, by the number that immediate data carries. */
struct verbs_link {
	struct verbs_conn *conn; /* NULL: free */
	uint32_t to_link;        /* the peer's number */
	/* A ring of ours, that the peer writes ... */
	struct verbs_export *export; /* NULL: not such a link */
	uint32_t ring;
	uint32_t slot;                 /* of the next segment */
	_Atomic uint64_t *next_footer; /* in that slot */
	uint64_t footer[2];            /* of the last one, if it is made here */
	uint32_t blank_slot;           /* behind those that are ready */
	uint64_t credit_address;
	uint32_t credit_rkey;
	uint64_t first_state; /* of the first footer when it was opened */
	bool ended;           /* the writer's end mark is here */
	/* Messages for the peer, once the connection has room. */
	enum verbs_owing owing;
	struct ring_credit credit; /* the last one that was given */
	/* ... or a ring of the peer's, that we write. */
	struct verbs_remote *remote;
};

struct verbs_export {
	struct export base;
	struct verbs_export *next;
	struct region *region;
	struct ring_layout layout;
	struct ibv_mr *mr;
	struct verbs_ring *rings;
	uint32_t n_links; /* peers that may write */
	bool closing;     /* nobody reads; freed when n_links is 0 */
};

/* The state of a ring of ours. */
struct verbs_ring {
	_Atomic bool used;     /* a writer opened it, now or before */
	_Atomic uint32_t lost; /* enum ring_loss: the connection broke */
	uint32_t link;         /* while it is written, else NO_LINK */
	enum verbs_notify notify;
	char why[VERBS_WHY_SIZE]; /* it was lost; "": the peer has gone */
	uint64_t writer;          /* it was lost: its node's id */
};
#define NO_LINK UINT32_MAX

struct verbs_remote {
	struct remote base;
	struct verbs_conn *conn;
	struct ring_layout layout;
	struct verbs_memory image; /* of the ring */
	uint32_t stage_key;        /* the stage's local key, if it has one */
	uint32_t link;             /* ours */
	uint32_t to_link;
	uint64_t address; /* of the owner's ring */
	uint32_t rkey;
	enum verbs_notify notify;
	int opened;     /* 1, or a negative errno value; 0: not answered yet */
	bool closing;   /* freed when the owner says CLOSED */
	uint64_t last;  /* work request that wrote last */
	bool unsent;    /* a write could not be posted */
	uint32_t waits; /* looks for credit */
	/* For writes: to clear all of one each time would take longer than to
	 * fill it in. */
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
	const struct ring_layout *layout = &link->export->layout;

	return (_Atomic uint64_t *)(void *)(verbs_ring_base(
						link->export, link->ring) +
	    layout->first_slot + (uint64_t)slot * layout->slot_size +
	    layout->shape.footer_offset);
}

/* The footer behind that of a slot, which becomes that one's; for each, a
 * product would cost. */
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

/* So many bytes between payload and footer are not worth a part of their own.
 */
#define VERBS_MOST_PADDING 128
_Static_assert(
    VERBS_MOST_PADDING <= TRANSPORT_STAGE_PAD, "what is read of a stage");

/*
 * Where in its slot the payload of a segment lies whose footer travels with it,
 * in one write, with so much room before the footer; not 0 means
 * FOOTER_FLAG_SHIFTED.
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
void dfi__verbs_unexport(struct region *region);
enum ring_loss dfi__verbs_ring_lost(
    const struct export *base, uint32_t ring, uint64_t node);
const char *dfi__verbs_ring_why(
    const struct export *base, uint32_t ring, uint64_t node);

/*
 * A peer can't write any more; both locks are held. Whether it has written: if
 * not, the ring is as if it had never been opened.
 */
bool dfi__verbs_leave_export(struct verbs_link *link);
void dfi__verbs_put_export(struct verbs_export *export);

/* Free all, when the transport stops. */
void dfi__verbs_free_exports(struct verbs *verbs);

/* data/write.c: the transport's operations. */

int dfi__verbs_write(struct remote *base, const struct transport_write *write);
void dfi__verbs_post_remote(struct remote *base);
int dfi__verbs_slot_is_free(struct remote *base);
int dfi__verbs_drained(struct remote *base);
int dfi__verbs_remote_progress(struct remote *base);
void dfi__verbs_arm_remote(struct remote *base);
const char *dfi__verbs_remote_why(const struct remote *remote);

/* -ECONNRESET: why the connection of a remote broke. */
int dfi__verbs_lost(const struct verbs_remote *remote);

/* data/credit.c */

/*
 * Tell the writer of a ring how much of it is free: now, or when the connection
 * has room again. Credits are absolute, so of those that wait the last is
 * enough. 1, or 0 if the ring isn't written through a connection.
 */
int dfi__verbs_give_credit(struct region *region,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed);

/* Tell the peer that its link, whose ring it has left, gets no more credits;
 * the link is free then. Both locks are held. */
void dfi__verbs_say_closed(struct verbs_link *link);

/* Sends have completed: post what waits for room. Both locks are held. */
void dfi__verbs_pay(struct verbs_conn *conn);

/* data/counter.c */

/* 0, or -EOPNOTSUPP: the device can't add. */
int dfi__verbs_check_atomics(const struct verbs *verbs);

int dfi__verbs_add(struct remote *base, uint64_t offset, uint64_t n);
int dfi__verbs_added(struct remote *base, uint64_t offset, uint64_t *before);

#endif
