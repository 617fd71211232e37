/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of datagrams from sources to targets over a network that is made up,
 * in virtual time: whole, but for sockets and threads. Sources build segments
 * in their own slots, as flows do, and targets consume from ordinary rings.
 *
 * Checked on the way: tuples come once and in order of their source; no slot is
 * lent that is not the reader's; under notify each segment is delivered, or
 * told as lost once, and then it had not arrived. In an ordered flow also: at
 * each place a target has the segment that drew it, or is told that this one is
 * lost. Beside what faults do, some datagrams are gathered from their slots
 * only when they arrive.
 */
#ifndef DFI_TESTS_STREAM_NET_H
#define DFI_TESTS_STREAM_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "buffers/multicast/datagram.h"
#include "buffers/replica_writer.h"
#include "buffers/multicast/faults.h"
#include "buffers/merge.h"
#include "buffers/reader.h"
#include "buffers/multicast/sender.h"
#include "buffers/multicast/receiver.h"

#define NET_ENDPOINTS 4 /* most sources, and targets */

struct net_plan {
	uint32_t n_sources, n_targets;
	uint32_t segment_count, segment_tuples;
	uint32_t n_segments; /* of each source */
	uint64_t start;
	bool notify, verified, ordered;
	uint32_t gap_us;
	const char *faults; /* as in DFI_TEST_FAULTS; NULL: none */
	uint64_t seed;
	/* Mean times of the applications, and of the network. */
	uint32_t push_us, consume_us, latency_us;
	uint32_t distance_us; /* that each datagram takes, beside latency */
	/* 0: they don't; else number + 1 of who dies, and when. */
	uint32_t dead_target, dead_source, cancels;
	uint32_t death_us;
	uint32_t registry_us; /* until others learn of who is gone, or left */
	uint32_t port_room;   /* new segments in a row; 0: any number */
};

/* A source's stream, as a target's application has seen it. */
struct net_view {
	struct reader reader;
	struct multicast_receiver stream;
	uint8_t *seen;    /* of each segment: */
	uint32_t next;    /* that the application expects */
	uint32_t n_lost;  /* segments told as lost */
	uint32_t n_gaps;  /* times that it was told */
	bool learns_gone; /* that the source is */
	int64_t gone_at;
	int end; /* 0: not yet; 1: all; else what ended it */
};

struct net_target {
	struct net *net;
	uint32_t index;
	struct region region;
	struct faults *faults;
	struct net_view views[NET_ENDPOINTS];
	struct merge merge;
	bool lost;       /* a source is gone: what is in order, and no more */
	int64_t next_at; /* of the application */
	int64_t left_at; /* it is not there any more */
	bool there, complete, cancelled;
};

struct net_source {
	struct net *net;
	uint32_t index;
	struct replica_writer replica_writer;
	struct writer rings[NET_ENDPOINTS];
	struct remote remotes[NET_ENDPOINTS];
	struct ring_header *headers; /* one for each target */
	struct multicast_sender stream;
	struct faults *faults;
	uint32_t sent;
	int64_t next_at;
	int64_t left_at;
	uint32_t room; /* for segments until the next time */
	bool there, ended, complete;
	bool knows_left[NET_ENDPOINTS];
};

struct net_place {
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
	struct net_datagram *sent; /* in order of arrival */
	/* Of an ordered flow, by place: who drew it, and for which segment. */
	struct net_place *places;
	uint32_t n_places;
	/*
	 * For tests: true: lose this one on the way to that receiver (a target,
	 * of REPORT a source).
	 */
	bool (*loses)(struct net *net, const struct datagram *datagram,
	    uint32_t receiver);
	uint64_t n_datagrams;
	uint32_t marks[4]; /* for loses() */
};

void net_start(struct net *net, const struct net_plan *plan);

/* Until all are complete, dead or gone; fails after a virtual minute. */
void net_run(struct net *net);
void net_stop(struct net *net);

/* A plan that the seed makes up: of all sizes and starts, nobody dies. */
struct net_plan net_any_plan(uint64_t seed, const char *faults);

/* The next number of a series. */
uint64_t net_draw(uint64_t *random);

#endif
