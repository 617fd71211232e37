/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of datagrams from sources to targets over a simulated network in
 * virtual time, with everything except sockets and threads. Sources build
 * segments in their own slots, as flows do, and targets consume from ordinary
 * rings.
 *
 * The simulation checks: tuples arrive once and in their source's order. No
 * slot is lent that isn't the reader's. Under notify each segment is delivered,
 * or reported as lost once, and then it had not arrived. In an ordered flow a
 * target has, at each position, the segment that took the position, or a report
 * that this segment is lost. In addition to the faults, some datagrams are
 * gathered from their slots only when they arrive.
 */
#ifndef DFI_TESTS_MULTICAST_NET_H
#define DFI_TESTS_MULTICAST_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "buffers/multicast/datagram.h"
#include "buffers/replica_writer.h"
#include "buffers/multicast/faults.h"
#include "buffers/merge.h"
#include "buffers/reader.h"
#include "buffers/multicast/sender.h"
#include "buffers/multicast/receiver.h"

#define NET_ENDPOINTS 4 /* the most sources, and targets */

struct net_plan {
	uint32_t n_sources, n_targets;
	uint32_t segment_count, segment_tuples;
	uint32_t n_segments; /* of each source */
	uint64_t start;
	bool notify, verified, ordered;
	enum footer_side footer_side;
	uint32_t gap_us;
	const char *faults; /* as in DFI_TEST_FAULTS; NULL: none */
	uint64_t seed;
	/* Mean times of the applications and of the network. */
	uint32_t push_us, consume_us, latency_us;
	uint32_t distance_us; /* of each datagram, added to latency */
	/* 0: none; else the number + 1 of the endpoint that dies or cancels. */
	uint32_t dead_target, dead_source, cancels;
	uint32_t death_us;
	uint32_t registry_us; /* until others learn that an endpoint is gone or
				 has left */
	uint32_t output_room; /* new segments in a row; 0: any number */
};

/* A source's stream as a target's application sees it. */
struct net_view {
	struct reader reader;
	struct multicast_receiver protocol;
	uint8_t *seen;    /* of each segment: */
	uint32_t next;    /* the next that the application expects */
	uint32_t n_lost;  /* segments reported as lost */
	uint32_t n_gaps;  /* how many reports it got */
	bool learns_gone; /* that the source is gone */
	int64_t gone_at;
	int end; /* 0: not yet; 1: complete; else the error that ended it */
};

struct net_target {
	struct net *net;
	uint32_t index;
	struct region region;
	struct faults *faults;
	struct net_view views[NET_ENDPOINTS];
	struct merge merge;
	bool lost; /* a source is gone: deliver what is in order, then end */
	int64_t next_at; /* of the application */
	int64_t left_at; /* the time at which it left */
	bool there, complete, cancelled;
};

struct net_source {
	struct net *net;
	uint32_t index;
	struct replica_writer replica_writer;
	struct writer rings[NET_ENDPOINTS];
	struct remote remotes[NET_ENDPOINTS];
	struct ring_header *headers; /* one for each target */
	struct multicast_sender protocol;
	struct faults *faults;
	uint32_t sent;
	int64_t next_at;
	int64_t left_at;
	uint32_t room; /* segments until the next time */
	bool there, ended, complete;
	bool knows_left[NET_ENDPOINTS];
};

struct net_position {
	uint32_t source, segment;
};

struct net {
	struct net_plan plan;
	struct ring_geometry geometry;
	struct datagram_flow flow;
	struct transport transport;
	int64_t now;
	uint64_t random;
	uint64_t *first_tuple; /* of each segment */
	struct net_source sources[NET_ENDPOINTS];
	struct net_target targets[NET_ENDPOINTS];
	struct net_datagram *sent; /* in the order of arrival */
	/*
	 * For an ordered flow, by position: the source that took it, and the
	 * segment.
	 */
	struct net_position *positions;
	uint32_t n_positions;
	/*
	 * For tests: true loses the datagram on its way to that receiver (a
	 * target, or for REPORT a source).
	 */
	bool (*loses)(struct net *net, const struct datagram *datagram,
	    uint32_t receiver);
	uint64_t n_datagrams;
	uint32_t marks[4]; /* for loses() */
};

void net_start(struct net *net, const struct net_plan *plan);

/*
 * Run until all endpoints are complete, dead or gone; fails after a virtual
 * minute.
 */
void net_run(struct net *net);
void net_stop(struct net *net);

/* A plan from a seed, with any sizes and starts; no endpoint dies. */
struct net_plan net_any_plan(uint64_t seed, const char *faults);

/* The next number of a series. */
uint64_t net_draw(uint64_t *random);

#endif
