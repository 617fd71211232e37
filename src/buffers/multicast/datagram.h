/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The datagrams of a multicast over a network (docs/replicate.md), and the
 * endpoint that sends them. Numbers are little endian.
 *
 *	DATA    +------+-------+------+------+-- - - - - - --+-----------------+
 *	        | head | total | used | zero | segment_header | tuples |
 *	        +------+-------+------+------+-- - - - - - --+-----------------+
 *	STATE   +------+-------+
 *	        | head | total |
 *	        +------+-------+
 *	POSITION +-----+----------+-------+------+
 *	        | head | position | count | zero |
 *	        +------+----------+-------+------+
 *	REPORT  +------+--------+-----------+---------------+----
 *	        | head | target | n_missing | first, count  | ...
 *	        +------+--------+-----------+---------------+----
 *	JOIN    +------+-------+-------+------+--------+------+
 *	        | head | total | first | mark | target | zero |
 *	        +------+-------+-------+------+--------+------+
 *
 * After the 32 bytes of DATA comes the slot of the source's ring, from its
 * beginning to the last tuple, or the end of the mark. A device gathers it
 * without a copy. So the segment_header, if the flow's segments have one, is
 * part of DATA.
 */
#ifndef DFI_BUFFERS_MULTICAST_DATAGRAM_H
#define DFI_BUFFERS_MULTICAST_DATAGRAM_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "buffers/layout/ring.h"

enum datagram_type {
	DATAGRAM_DATA = 0xd1, /* a source's segment */
	DATAGRAM_STATE,       /* a source's progress */
	DATAGRAM_REPORT,      /* a target's progress */
	/*
	 * In an ordered flow with notify: the positions of segments that a
	 * target has asked for, in place of the segments.
	 */
	DATAGRAM_POSITION,
	/* In an open flow: from where on a target counts in a stream (J3). */
	DATAGRAM_JOIN,
};

/*
 * Flags of STATE: how the source ends. number is the one after its last
 * segment.
 */
#define DATAGRAM_END 1
#define DATAGRAM_ABORT 2
/* Flags of REPORT. */
#define DATAGRAM_DONE 4      /* the target has the whole stream */
#define DATAGRAM_CANCELLED 8 /* the target takes no more */
#define DATAGRAM_USED 16 /* the target has received datagrams of the stream */

struct datagram_head {
	/*
	 * Of the flow. In an open flow: of the stream, which is the source's
	 * incarnation; or, in REPORT and JOIN, the id of the pair.
	 */
	uint64_t instance;
	uint8_t type;
	uint8_t flags;
	uint16_t source; /* index of the stream's source */
	/*
	 * The lowest 32 bits of a number. DATA: of the segment. POSITION: of
	 * the first segment. STATE: the one after the last segment sent.
	 * REPORT: the one after the last segment given back. JOIN: of first.
	 */
	uint32_t number;
};
static_assert(sizeof(struct datagram_head) == 16, "head");
static_assert(offsetof(struct datagram_head, type) == 8, "head");
static_assert(offsetof(struct datagram_head, source) == 10, "head");
static_assert(offsetof(struct datagram_head, number) == 12, "head");
static_assert(DFI_MAX_ENDPOINTS <= UINT16_MAX + 1, "indices fit");

struct datagram_data {
	struct datagram_head head;
	uint64_t total; /* tuples of the stream up to the end of the segment */
	uint32_t used;  /* bytes of its tuples, or FOOTER_MARK */
	uint32_t zero;
};
static_assert(sizeof(struct datagram_data) == 32, "DATA");
static_assert(offsetof(struct datagram_data, total) == 16, "DATA");
static_assert(offsetof(struct datagram_data, used) == 24, "DATA");

struct datagram_state {
	struct datagram_head head;
	/*
	 * Tuples of the stream, up to number. Of an ABORT in an open flow: its
	 * cause, as in an end mark.
	 */
	uint64_t total;
};
static_assert(sizeof(struct datagram_state) == 24, "STATE");

/* A run of count segments, with adjacent numbers and adjacent positions. */
struct datagram_position {
	struct datagram_head head;
	uint64_t position; /* position of the first segment, all 64 bits */
	uint32_t count;
	uint32_t zero;
};
static_assert(sizeof(struct datagram_position) == 32, "POSITION");
static_assert(offsetof(struct datagram_position, count) == 24, "POSITION");

struct datagram_join {
	struct datagram_head head;
	uint64_t total;  /* tuples of the stream before first */
	uint64_t first;  /* number from which the target counts, all 64 bits */
	uint64_t mark;   /* the source's last mark before first; 0: none */
	uint32_t target; /* what it calls itself in each REPORT */
	uint32_t zero;
};
static_assert(sizeof(struct datagram_join) == 48, "JOIN");
static_assert(offsetof(struct datagram_join, target) == 40, "JOIN");

struct datagram_report {
	struct datagram_head head;
	uint32_t target;
	uint32_t n_missing; /* number of the ranges that follow */
};
static_assert(sizeof(struct datagram_report) == 24, "REPORT");

/*
 * Segments that a target lacks. first has the lowest 32 bits of the first
 * number.
 */
struct datagram_range {
	uint32_t first;
	uint32_t count;
};
static_assert(sizeof(struct datagram_range) == 8, "range");

/*
 * The largest header before a payload. It also bounds REPORT, so that a REPORT
 * fits any MTU.
 */
#define DATAGRAM_HEADER_MAX 256
#define DATAGRAM_MISSING_MAX                                      \
	((DATAGRAM_HEADER_MAX - sizeof(struct datagram_report)) / \
	    sizeof(struct datagram_range))
static_assert(DATAGRAM_MISSING_MAX == 29, "ranges");

/*
 * Facts of the flow that both ends know and check in each datagram. In an open
 * flow they are those of one stream: it has one source, and numbers its targets
 * by itself.
 */
struct datagram_flow {
	uint64_t instance;
	bool open;
	uint64_t pair; /* of an open flow's target: the id of its pair */
	uint32_t n_sources, n_targets;
	struct ring_geometry geometry; /* not apart */
};

/* The largest datagram of a flow. The network's MTU must be as large. */
static inline uint64_t datagram_size_max(const struct ring_geometry *g)
{
	return max_u64(DATAGRAM_HEADER_MAX,
	    sizeof(struct datagram_data) + g->payload_offset +
		g->segment_bytes);
}

/* A datagram in host byte order. Its type tells which members are valid. */
struct datagram {
	enum datagram_type type;
	uint8_t flags;
	uint32_t source;
	uint32_t number;
	uint64_t pair; /* of REPORT and JOIN in an open flow */
	uint64_t total;
	uint64_t first;
	uint64_t mark;
	uint64_t position;
	uint32_t count;
	uint32_t used;
	/* datagram_payload() bytes, in the receive buffer. */
	const char *payload;
	uint32_t target;
	uint32_t n_missing;
	struct datagram_range missing[DATAGRAM_MISSING_MAX];
};

/* The bytes of a slot that DATA has. */
static inline uint64_t datagram_payload(
    const struct ring_geometry *g, uint32_t used)
{
	return g->payload_offset +
	    (used == FOOTER_MARK ? FOOTER_MARK_BYTES : used);
}

/*
 * Parse a received datagram. true: it belongs to this flow, and each of its
 * values is possible by itself. false: drop it. The memory need not be aligned.
 */
bool dfi__datagram_parse(const struct datagram_flow *flow, const void *data,
    size_t size, struct datagram *datagram);

/* Returns the size of the header before the payload. */
size_t dfi__datagram_encode(const struct datagram_flow *flow,
    const struct datagram *datagram, char header[DATAGRAM_HEADER_MAX]);

/* The destination of a datagram to all; else it is an index. */
#define DATAGRAM_ALL UINT32_MAX

/*
 * How an end of a stream sends. send() gathers a datagram from a header, which
 * it copies, and a payload (NULL: none), which it reads in place and maybe
 * later. If the payload has changed by then, the receiver drops the datagram.
 * to is a target or DATAGRAM_ALL at a source, and the source at a target.
 * send() never waits and never calls the stream. 0: the datagram is on its way,
 * or lost. -EAGAIN: there is no room now. Other negative errno values are
 * permanent.
 */
struct datagram_output {
	int (*send)(void *arg, uint32_t to, const void *header,
	    size_t header_size, const void *payload, size_t payload_size);
	void *arg;
};

#endif
