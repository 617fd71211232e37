/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams of a multicast over a network (docs/replicate.md): what they look
 * like, and the port that they leave through. Little endian.
 *
 *	DATA    +------+-------+------+------+-- - - - - - --+-----------------+
 *	        | head | total | used | zero | segment_header | tuples |
 *	        +------+-------+------+------+-- - - - - - --+-----------------+
 *	STATE   +------+-------+
 *	        | head | total |
 *	        +------+-------+
 *	PLACE   +------+-------+-------+------+
 *	        | head | place | count | zero |
 *	        +------+-------+-------+------+
 *	REPORT  +------+--------+-----------+---------------+----
 *	        | head | target | n_missing | first, count  | ...
 *	        +------+--------+-----------+---------------+----
 *
 * What follows the 32 bytes of DATA is the slot of the source's ring as it is,
 * from its beginning to the last tuple: a device gathers it, without a copy. So
 * whatever a flow's segments have before their tuples (struct segment_header)
 * travels here, too, and this file need not know of it.
 */
#ifndef DFI_BUFFERS_MULTICAST_DATAGRAM_H
#define DFI_BUFFERS_MULTICAST_DATAGRAM_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "buffers/ring.h"

enum datagram_type {
	DATAGRAM_DATA = 0xd1, /* a source's segment */
	DATAGRAM_STATE,       /* how far a source is */
	DATAGRAM_REPORT,      /* how far a target is */
	/*
	 * Of an ordered flow that notifies: where segments belong that a target
	 * has asked for, instead of the segments.
	 */
	DATAGRAM_PLACE,
};

/* Flags of STATE: how the source ends; number is behind its last segment. */
#define DATAGRAM_END 1
#define DATAGRAM_ABORT 2
/* Flags of REPORT. */
#define DATAGRAM_DONE 4      /* the target has all of the stream */
#define DATAGRAM_CANCELLED 8 /* it wants no more */
#define DATAGRAM_USED 16     /* something of the stream has come */

struct datagram_head {
	uint64_t instance; /* of the flow */
	uint8_t type;
	uint8_t flags;
	uint16_t source; /* whose stream it is about */
	/*
	 * The lowest 32 bits, of DATA of the segment's number, of PLACE of the
	 * first one's, of STATE of the number behind the last segment sent, of
	 * REPORT of that behind the last one given back.
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
	uint32_t used;  /* bytes of its tuples */
	uint32_t zero;
};
static_assert(sizeof(struct datagram_data) == 32, "DATA");
static_assert(offsetof(struct datagram_data, total) == 16, "DATA");
static_assert(offsetof(struct datagram_data, used) == 24, "DATA");

struct datagram_state {
	struct datagram_head head;
	uint64_t total; /* tuples of the stream, up to number */
};
static_assert(sizeof(struct datagram_state) == 24, "STATE");

/* A run: count segments with adjacent numbers, at adjacent places. */
struct datagram_place {
	struct datagram_head head;
	uint64_t place; /* among the segments of all sources, in full */
	uint32_t count;
	uint32_t zero;
};
static_assert(sizeof(struct datagram_place) == 32, "PLACE");
static_assert(offsetof(struct datagram_place, count) == 24, "PLACE");

struct datagram_report {
	struct datagram_head head;
	uint32_t target;
	uint32_t n_missing; /* ranges, which follow */
};
static_assert(sizeof(struct datagram_report) == 24, "REPORT");

/* Segments that a target misses: the lowest 32 bits of the first's number. */
struct datagram_range {
	uint32_t first;
	uint32_t count;
};
static_assert(sizeof(struct datagram_range) == 8, "range");

/* The largest header before a payload, so that REPORT also fits any MTU. */
#define DATAGRAM_HEADER_MAX 256
#define DATAGRAM_MISSING_MAX                                      \
	((DATAGRAM_HEADER_MAX - sizeof(struct datagram_report)) / \
	    sizeof(struct datagram_range))
static_assert(DATAGRAM_MISSING_MAX == 29, "ranges");

/* Facts of the flow that both ends know, so they check them. */
struct datagram_flow {
	uint64_t instance;
	uint32_t n_sources, n_targets;
	struct ring_geometry geometry; /* not apart */
};

/* The largest datagram of a flow: what its MTU must let through. */
static inline uint64_t datagram_size_max(const struct ring_geometry *g)
{
	return max_u64(DATAGRAM_HEADER_MAX,
	    sizeof(struct datagram_data) + g->payload_offset +
		g->segment_bytes);
}

/* A datagram in this machine's words; which members count, its type says. */
struct datagram {
	enum datagram_type type;
	uint8_t flags;
	uint32_t source;
	uint32_t number;
	uint64_t total;
	uint64_t place;
	uint32_t count;
	uint32_t used;
	/* payload_offset + used bytes; where they were received. */
	const char *payload;
	uint32_t target;
	uint32_t n_missing;
	struct datagram_range missing[DATAGRAM_MISSING_MAX];
};

/*
 * Take a received datagram apart: true if it is one of this flow, and all that
 * it says is possible by itself. Else it is dropped. The memory need not be
 * aligned.
 */
bool dfi__datagram_parse(const struct datagram_flow *flow, const void *data,
    size_t size, struct datagram *datagram);

/* The size of the header before the payload. */
size_t dfi__datagram_encode(const struct datagram_flow *flow,
    const struct datagram *datagram, char header[DATAGRAM_HEADER_MAX]);

/* Whom a datagram goes to: this, or the index of one. */
#define DATAGRAM_ALL UINT32_MAX

/*
 * How a stream's end sends. send() gathers a datagram from a header, which it
 * must copy, and a payload (NULL: none), which stays where it is as long as it
 * matters: a datagram that is sent from it later than that, and so has other
 * tuples, is one that its receiver drops. to: of a source, a target or
 * DATAGRAM_ALL; of a target, the source. It never waits and never calls the
 * stream. 0: it is on its way, or may be lost; -EAGAIN: there is no room for it
 * now; other negative errno values: there never will be.
 */
struct datagram_port {
	int (*send)(void *arg, uint32_t to, const void *header,
	    size_t header_size, const void *payload, size_t payload_size);
	void *arg;
};

#endif
