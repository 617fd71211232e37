/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's end of a multicast over datagrams: rules T1 to T7 of
 * docs/replicate.md, whose words are used, for the stream of one source. A
 * state machine without I/O and without a clock.
 *
 * A segment is copied from its datagram to its slot in that source's ring, an
 * ordinary one, and its footer is published when all before it are. So the
 * ring's reader finds there what it finds in any ring; what it gives back is in
 * the ring's credit, as everywhere. When the stream is whole, the ring has its
 * end mark. If losses are to be told, the reader gets FOOTER_FLAG_LOST for each
 * gap, and must be lossy (reader.h). In an ordered flow the slot then has the
 * place in its header: the source is asked for it first (O5).
 *
 * All calls on one stream are one thread's at a time; the reader may be used by
 * another one meanwhile. Times are of one monotonic clock, in nanoseconds.
 * Where a call returns true, there is something new in the ring: wake its
 * reader.
 */
#ifndef DFI_BUFFERS_MULTICAST_RECEIVER_H
#define DFI_BUFFERS_MULTICAST_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>
#include "datagram.h"

/*
 * A gap is asked for when so many segments behind it have come, or it is older
 * than gap_timeout: few networks reorder that much. And again after twice the
 * time, until that is so long.
 */
#define STREAM_OVERTAKEN 5
#define STREAM_ASK_MAX_NS INT64_C(500000000)

struct multicast_receiver_config {
	struct datagram_port port;
	struct datagram_flow flow;
	uint32_t source, target; /* their indices */
	uint32_t gap_us;         /* the flow's gap_timeout */
	/* Losses are reported, not sent again. */
	bool notify;
	struct ring_header *ring; /* with its slots behind it */
	uint64_t start;           /* number of the first segment */
};

enum stream_state {
	STREAM_OPEN = 0,
	STREAM_WHOLE,   /* all is in the ring, and the end mark */
	STREAM_ABORTED, /* the source said so, and so does the end mark */
	STREAM_CUT,     /* the source is gone, and the rest never comes */
};

/* Counters of a stream's target. */
struct multicast_receiver_counts {
	uint64_t segments; /* that went into the ring */
	uint64_t repeated; /* that were there already, or too old */
	uint64_t early;    /* that had to wait for others */
	uint64_t states;
	uint64_t outdated; /* that were too old, or can't be */
	uint64_t reports;  /* sent */
	uint64_t asked;    /* for segments, or their places, again and again */
	uint64_t gaps;     /* told to the reader */
	uint64_t lost;     /* segments in them */
};

/* The state of the number that a slot is for; see receiver.c. */
struct stream_slot {
	int64_t due;      /* of a gap: when it is reported, or asked for */
	int64_t lost_at;  /* of a gap that is reported: not before */
	uint32_t used;    /* bytes of a held segment; 0: not held */
	uint32_t n_asked; /* of a gap */
	/* Of a gap of an ordered flow: the slot's header has its place. */
	bool placed;
};

struct multicast_receiver {
	struct multicast_receiver_config config;
	char *slots;
	struct stream_slot *held; /* one for each slot */
	uint64_t consumed;        /* as the reader has said last */
	uint64_t reported;        /* the same, as the source was told */
	uint64_t expected;        /* number of the next one to be published */
	uint32_t slot;            /* its slot */
	uint64_t known;           /* behind the last one known to be sent */
	uint64_t n_gaps;          /* numbers below that are not there */
	uint64_t overtaken;       /* those below were seen to be, once */
	int64_t due;              /* of the first of them */
	bool ended;               /* the end is known: */
	uint64_t end;             /* number behind the last segment */
	uint64_t end_total;       /* tuples */
	enum stream_state state;
	bool cancelled;      /* the reader wants no more */
	bool closed;         /* or reads no more */
	bool says_cancelled; /* was said */
	bool says_done;
	int64_t cut_at; /* the source is gone: how long we wait */
	struct multicast_receiver_counts counts;
};

/*
 * Begin a stream whose ring dfi__reader_init() has made ready for that number.
 * -ENOMEM.
 */
int dfi__multicast_receiver_init(struct multicast_receiver *stream,
    const struct multicast_receiver_config *config);
void dfi__multicast_receiver_free(struct multicast_receiver *stream);

/* Take DATA, STATE or PLACE of this stream (T1 to T3, O5). */
bool dfi__multicast_receiver_receive(struct multicast_receiver *stream,
    const struct datagram *datagram, int64_t now);

/*
 * Report what the reader has given back, and see to gaps that are old enough.
 * To be called when the reader has given back, closed or cancelled, and when
 * dfi__multicast_receiver_due() says; but receive first what has arrived by
 * now: it may be what is missing.
 */
bool dfi__multicast_receiver_progress(
    struct multicast_receiver *stream, int64_t now);

/*
 * The registry says that the source is gone: it sends nothing more. If the
 * stream is not whole gap_timeout later, it is STREAM_CUT.
 */
void dfi__multicast_receiver_source_gone(
    struct multicast_receiver *stream, int64_t now);

/* When to call dfi__multicast_receiver_progress() at the latest, if ever. */
int64_t dfi__multicast_receiver_due(const struct multicast_receiver *stream);

#endif
