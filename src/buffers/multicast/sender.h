/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source's end of a multicast over datagrams: rules S1 to S5 of
 * docs/replicate.md, whose words are used. A state machine without I/O and
 * without a clock.
 *
 * The slots are the source's own, as in shared_ring.h, whose writer fills them:
 * a segment is sent when its footer says that it is there, and sent again from
 * where it lies. What targets report goes into the credit of a ring header
 * each, which that writer looks at; so it builds a segment (S1) only when all
 * have given back what was in its slot, or were left out.
 *
 * All calls on one stream are one thread's at a time; its writer may be used by
 * another one meanwhile. Times are of one monotonic clock, in nanoseconds.
 */
#ifndef DFI_BUFFERS_MULTICAST_SENDER_H
#define DFI_BUFFERS_MULTICAST_SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include "datagram.h"

/* The longest time between two signs of life of a source that waits. */
#define STREAM_PROBE_MAX_NS INT64_C(500000000)

struct multicast_sender_config {
	struct datagram_port port;
	struct datagram_flow flow;
	uint32_t source; /* its index */
	uint32_t gap_us; /* the flow's gap_timeout */
	/* Losses are not sent again; only their positions are. */
	bool notify;
	const void *slots;
	uint64_t start; /* number of the first segment */
};

/* Why a target is no concern of a source any more. */
enum stream_over {
	STREAM_DONE = 1,  /* it has all of the stream */
	STREAM_CANCELLED, /* it wants no more */
	STREAM_GONE,      /* it has left, or is dead */
};

/* A target, as its source sees it. */
struct stream_peer {
	struct ring_credit *credit; /* what the source's writer looks at */
	uint64_t consumed;
	enum stream_over over; /* 0: it is not */
};

/* Counters of a stream's source. */
struct multicast_sender_counts {
	uint64_t segments; /* sent for the first time */
	uint64_t resent;
	uint64_t places; /* said of segments that were lost */
	uint64_t states;
	uint64_t reports;  /* that were used */
	uint64_t outdated; /* that were not */
	uint64_t stuck;    /* times in which the port had no room */
};

struct multicast_sender {
	struct multicast_sender_config config;
	struct stream_peer *peers; /* one for each target */
	uint64_t next;             /* number behind the last segment sent */
	uint32_t slot;             /* its slot */
	uint64_t total;            /* tuples sent */
	uint8_t ends;     /* DATAGRAM_END or _ABORT, as the owner has said */
	bool ended;       /* STATE says so */
	int64_t sent_at;  /* something to all */
	int64_t probe_ns; /* when nothing was sent for so long */
	bool stuck;       /* segments wait for room at the port */
	int error;        /* of the port, which takes no more; or 0 */
	struct multicast_sender_counts counts;
};

/*
 * Begin a stream. The slots are those of a ring that begins with number start,
 * made ready by dfi__reader_init(). -ENOMEM.
 */
int dfi__multicast_sender_init(struct multicast_sender *stream,
    const struct multicast_sender_config *config);
void dfi__multicast_sender_free(struct multicast_sender *stream);

/*
 * Where a target's credit goes: the header of a ring of its own, which begins
 * with the same number. Before anything else of it. credit.closed becomes
 * RING_CANCELLED when it has cancelled.
 */
void dfi__multicast_sender_attach(struct multicast_sender *stream,
    uint32_t target, struct ring_credit *credit);

/*
 * Send segments that are there and have not been sent, as many as the port has
 * room for, and probe if it is time (S3). To be called when the writer has
 * published, when dfi__multicast_sender_due() says, and, if stream->stuck, when
 * the port has room. 0, or a hard error of the port, again and again.
 */
int dfi__multicast_sender_progress(
    struct multicast_sender *stream, int64_t now);

/*
 * Take a REPORT about this stream (S2), and send again what it misses, or, with
 * notify, say where that belongs (O5). Whether it brings credit, or its target
 * is over: the writer's owner may be woken.
 */
bool dfi__multicast_sender_receive(
    struct multicast_sender *stream, const struct datagram *report);

/*
 * The writer publishes nothing more: flag is FOOTER_FLAG_END (S4) or _ABORT.
 * END is sent behind the last segment and in each STATE from then on, until all
 * targets are over. ABORT is sent some times, and that was it. As
 * dfi__multicast_sender_progress().
 */
int dfi__multicast_sender_end(
    struct multicast_sender *stream, uint64_t flag, int64_t now);

/*
 * The registry says of a target that it is over (S5). Before the writer counts
 * without it (writer.cancelled): what it has not given back may then go.
 */
void dfi__multicast_sender_leave(
    struct multicast_sender *stream, uint32_t target, enum stream_over over);

/* Whether all targets are over. */
bool dfi__multicast_sender_is_over(const struct multicast_sender *stream);

/* When to call dfi__multicast_sender_progress() at the latest, if ever. */
int64_t dfi__multicast_sender_due(const struct multicast_sender *stream);

#endif
