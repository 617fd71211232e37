/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of a multicast over datagrams: rules S1 to S5 of
 * docs/replicate.md, in the words of that document. It is a state machine
 * without I/O and without a clock.
 *
 * The slots belong to the source, as in shared_ring.h, whose writer fills them.
 * The sender sends a segment when its footer is published, and sends it again
 * from the same slot. Each target has a ring header, and its reports go into
 * the credit of that header, which the writer reads. So the writer builds a
 * segment (S1) only when every target has given back the slot's previous
 * segment or has left.
 *
 * In an open flow (J3 in docs/open-flows.md) no target counts at first. Each
 * one is told from where on it counts until it answers, and goes without being
 * an error. Its number here is free for another one then.
 *
 * One thread at a time calls a sender. Another thread may use the
 * writer meanwhile. All times are of one monotonic clock, in nanoseconds.
 */
#ifndef DFI_BUFFERS_MULTICAST_SENDER_H
#define DFI_BUFFERS_MULTICAST_SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include "datagram.h"

/* The longest time between two signs of life of a source that waits. */
#define SENDER_PROBE_MAX_NS INT64_C(500000000)

struct multicast_sender_config {
	struct datagram_output output;
	struct datagram_flow flow;
	uint32_t source; /* index of the source */
	uint32_t gap_us; /* the flow's gap_timeout */
	/* Lost segments are not sent again; only their positions are. */
	bool notify;
	const void *slots;
	uint64_t start; /* number of the first segment */
};

/* Why a source expects nothing more of a target. */
enum multicast_over {
	MULTICAST_DONE = 1,  /* the target has the whole stream */
	MULTICAST_CANCELLED, /* the target takes no more */
	MULTICAST_GONE,      /* the target has left or died */
};

/* A target as its source sees it. */
struct sender_peer {
	struct ring_credit *credit; /* the source's writer reads it */
	uint64_t consumed;
	enum multicast_over over; /* 0: the target still receives */
	/* In an open flow: */
	uint64_t pair;   /* the id of its pair; 0: it has not joined */
	uint64_t first;  /* the number from which it counts */
	uint64_t before; /* tuples before that */
	uint64_t mark;   /* the last one before that; 0: none */
	bool joins;      /* it has not answered yet */
};

struct multicast_sender_counts {
	uint64_t segments; /* sent for the first time */
	uint64_t resent;
	uint64_t positions; /* positions sent for lost segments */
	uint64_t states;
	uint64_t reports;  /* reports that were used */
	uint64_t outdated; /* reports that were not */
	uint64_t stuck;    /* times that the endpoint had no room */
	uint64_t joins;    /* JOINs sent */
};

struct multicast_sender {
	struct multicast_sender_config config;
	struct sender_peer *peers; /* one for each target */
	uint64_t next;             /* number after the last segment sent */
	uint32_t slot;             /* the slot of segment next */
	uint64_t total;            /* tuples sent */
	uint8_t ends;       /* flag of the end, once the owner has set it */
	bool ended;         /* a STATE with the end was sent */
	int64_t sent_at;    /* the last datagram to all targets */
	int64_t probe_ns;   /* send STATE after this time without a datagram */
	uint32_t n_joining; /* targets that have not answered JOIN yet */
	int64_t joined_at;  /* the last JOIN */
	int64_t join_ns;    /* send it again after this time */
	bool stuck;         /* segments wait for room at the endpoint */
	int error;          /* the endpoint's permanent error, or 0 */
	struct multicast_sender_counts counts;
};

/*
 * Begin a stream. The slots are those of a ring whose first segment has number
 * start; dfi__reader_init() has initialised them. -ENOMEM.
 */
int dfi__multicast_sender_init(struct multicast_sender *sender,
    const struct multicast_sender_config *config);
void dfi__multicast_sender_free(struct multicast_sender *sender);

/*
 * Write a target's credit into this ring header, whose ring begins with the
 * same number. Call it before all other calls about the target. credit.closed
 * becomes RING_CANCELLED when the target cancels.
 */
void dfi__multicast_sender_attach(struct multicast_sender *sender,
    uint32_t target, struct ring_credit *credit);

/*
 * Send new segments, as many as the endpoint has room for, and probe when it is
 * time (S3). Call it when the writer has published, when
 * dfi__multicast_sender_due() says, and, if sender->stuck, when the endpoint
 * has room. 0, or the endpoint's permanent error, on every call.
 */
int dfi__multicast_sender_progress(
    struct multicast_sender *sender, int64_t now);

/*
 * Take a REPORT about this stream (S2). Send again the segments that the target
 * lacks, or, with notify, their positions (O5). true: the report brings credit
 * or ends the target, so the caller may wake the writer's owner.
 */
bool dfi__multicast_sender_receive(
    struct multicast_sender *sender, const struct datagram *report);

/*
 * The writer publishes nothing more. flag is FOOTER_FLAG_END (S4) or
 * FOOTER_FLAG_ABORT. END is sent after the last segment and in each STATE from
 * then on, until all targets are over. ABORT is sent a few times. Returns as
 * dfi__multicast_sender_progress().
 */
int dfi__multicast_sender_end(
    struct multicast_sender *sender, uint64_t flag, int64_t now);

/*
 * The registry says that a target is over (S5). Call it before the writer
 * ignores the target (writer.cancelled): from then on slots may be overwritten
 * that the target has not given back.
 */
void dfi__multicast_sender_leave(
    struct multicast_sender *sender, uint32_t target, enum multicast_over over);

/*
 * For an open flow (sender_join.c). join: a target counts from the segment with
 * number first on, which was not sent yet; "before" tuples come before it, and
 * mark (0: none). All that it is told, and says, is of this pair. For it, J1's
 * mark has number first - 1, so its credit begins there.
 */
void dfi__multicast_sender_join(struct multicast_sender *sender,
    uint32_t target, uint64_t pair, uint64_t first, uint64_t before,
    uint64_t mark, int64_t now);

/*
 * The registry says that a target has closed, and had given back all segments
 * before that number.
 */
void dfi__multicast_sender_left(
    struct multicast_sender *sender, uint32_t target, uint64_t given_back);

/*
 * Tell this target alone, if it has joined, that nothing more comes. cause: as
 * of dfi__writer_end().
 */
void dfi__multicast_sender_abort(
    struct multicast_sender *sender, uint32_t target, uint32_t cause);

/* The pair is unmade: the number is free. */
void dfi__multicast_sender_forget(
    struct multicast_sender *sender, uint32_t target);

/*
 * Tuples that were published before number end and not given back. sets: only
 * those of a set that has one of these bits; 0: the flow has no sets.
 */
uint64_t dfi__multicast_sender_unreturned(const struct multicast_sender *sender,
    uint32_t target, uint64_t end, uint64_t sets);

/* Whether all targets are over. */
bool dfi__multicast_sender_is_over(const struct multicast_sender *sender);

/*
 * The latest time for the next dfi__multicast_sender_progress(), or
 * DEADLINE_NEVER.
 */
int64_t dfi__multicast_sender_due(const struct multicast_sender *sender);

#endif
