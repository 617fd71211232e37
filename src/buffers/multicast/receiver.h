/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's end of a multicast over datagrams, for the stream of one source:
 * rules T1 to T7 of docs/replicate.md, in the words of that document. It is a
 * state machine without I/O and without a clock.
 *
 * The receiver copies a segment from its datagram to the segment's slot in that
 * source's ring, an ordinary ring. It publishes the footer when all earlier
 * segments are published. So the ring's reader works as on any ring, and gives
 * segments back through the ring's credit. The end mark follows the last
 * segment. With notify, the reader gets FOOTER_FLAG_LOST for each gap, and must
 * be lossy (reader.h). In an ordered flow the slot's header then has the gap's
 * position, for which the receiver asks the source first (O5).
 *
 * In an open flow (J3 in docs/open-flows.md) the receiver takes nothing before
 * a JOIN of its pair. Then the ring begins with a mark, as J1 has it, and
 * segments have lower numbers in the ring than in the stream, by base, and
 * lower totals.
 *
 * One thread at a time calls a receiver. Another thread may use the
 * reader meanwhile. All times are of one monotonic clock, in nanoseconds. Where
 * a call returns true, the ring has something new: wake its reader.
 */
#ifndef DFI_BUFFERS_MULTICAST_RECEIVER_H
#define DFI_BUFFERS_MULTICAST_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>
#include "datagram.h"

/*
 * The receiver asks for a gap when RECEIVER_OVERTAKEN later segments have
 * arrived, or after gap_timeout; few networks reorder that much. It asks again
 * after twice the time, up to RECEIVER_ASK_MAX_NS.
 */
#define RECEIVER_OVERTAKEN 5
#define RECEIVER_ASK_MAX_NS INT64_C(500000000)

struct multicast_receiver_config {
	struct datagram_output output;
	struct datagram_flow flow;
	uint32_t source, target; /* their indices */
	uint32_t gap_us;         /* the flow's gap_timeout */
	/* Losses are told to the reader, and not sent again. */
	bool notify;
	struct ring_header *ring; /* followed by its slots */
	uint64_t start;           /* number of the first segment */
};

enum receiver_state {
	RECEIVER_OPEN = 0,
	RECEIVER_WHOLE,   /* the ring has all segments and the end mark */
	RECEIVER_ABORTED, /* the source has aborted, as has the end mark */
	RECEIVER_CUT,     /* the source is gone before the stream was whole */
};

struct multicast_receiver_counts {
	uint64_t segments; /* segments that went into the ring */
	uint64_t repeated; /* segments that had arrived already, or too old */
	uint64_t early;    /* segments that waited for earlier ones */
	uint64_t states;
	uint64_t outdated; /* STATEs that were too old or impossible */
	uint64_t reports;  /* REPORTs sent */
	uint64_t asked;    /* times that a segment or position was asked for */
	uint64_t gaps;     /* gaps that the reader was told of */
	uint64_t lost;     /* segments in them */
};

/* The state of the number that a slot stands for; see receiver.c. */
struct receiver_slot {
	int64_t due; /* of a gap: when to tell the reader or ask the source */
	int64_t lost_at;  /* earliest time to tell the reader of a gap */
	uint32_t used;    /* of a held segment, as in DATA; 0: not held */
	uint32_t n_asked; /* how often a gap was asked for */
	/* A gap of an ordered flow: its position is in the slot's header. */
	bool has_position;
};

struct multicast_receiver {
	struct multicast_receiver_config config;
	char *slots;
	struct receiver_slot *held; /* one for each slot */
	uint64_t consumed;          /* the reader's last consumed count */
	uint64_t reported;          /* the consumed count reported last */
	uint64_t expected;          /* number of the next segment to publish */
	uint32_t slot;              /* the slot of segment expected */
	uint64_t known;     /* number after the last segment known to be sent */
	uint64_t n_gaps;    /* missing numbers below known */
	uint64_t overtaken; /* gaps below this number were overtaken already */
	int64_t due;        /* the earliest due of all gaps */
	bool ended;         /* the end is known; then: */
	uint64_t end;       /* number after the last segment */
	uint64_t end_total; /* tuples */
	enum receiver_state state;
	/* In an open flow: */
	bool begun;      /* a JOIN has come */
	uint64_t base;   /* added to a number of the ring: that of the stream */
	uint64_t before; /* tuples of the stream before the ring's */
	uint64_t mark;   /* its last mark before the ring; 0: none */
	bool cancelled;  /* the reader takes no more */
	bool closed;     /* the reader has closed */
	bool says_cancelled; /* a REPORT has the cancellation */
	bool says_done;
	int64_t cut_at; /* after the source is gone: when the stream is cut */
	struct multicast_receiver_counts counts;
};

/*
 * Begin a stream. dfi__reader_init() has initialised its ring with number
 * start. -ENOMEM.
 */
int dfi__multicast_receiver_init(struct multicast_receiver *receiver,
    const struct multicast_receiver_config *config);
void dfi__multicast_receiver_free(struct multicast_receiver *receiver);

/* Take DATA, STATE, POSITION or JOIN of this stream (T1 to T3, O5, J3). */
bool dfi__multicast_receiver_receive(struct multicast_receiver *receiver,
    const struct datagram *datagram, int64_t now);

/*
 * Report the reader's credit, and handle gaps that are due. Call it when the
 * reader has given back, closed or cancelled, and when
 * dfi__multicast_receiver_due() says. Before that, take all datagrams that have
 * arrived: they may fill the gaps.
 */
bool dfi__multicast_receiver_progress(
    struct multicast_receiver *receiver, int64_t now);

/*
 * The registry says that the source is gone, so it sends nothing more. If the
 * stream is not whole after gap_timeout, it becomes RECEIVER_CUT.
 */
void dfi__multicast_receiver_source_gone(
    struct multicast_receiver *receiver, int64_t now);

/*
 * The latest time for the next dfi__multicast_receiver_progress(), or
 * DEADLINE_NEVER.
 */
int64_t dfi__multicast_receiver_due(const struct multicast_receiver *receiver);

#endif
