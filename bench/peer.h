/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two invocations of dfi-bench, one with the sources and one with the targets,
 * that run the same rounds. They meet through a registry and talk over two
 * flows: plans go to the targets, and what came of them comes back. Errors are
 * complained about where they are found; the functions return false then.
 */
#ifndef DFI_BENCH_PEER_H
#define DFI_BENCH_PEER_H

#include <dfi/dfi.h>
#include <stdbool.h>
#include "board.h"
#include "flow_job.h"

/* What the seats of one side, or of both, have done in a round. */
struct tally {
	uint64_t begin_ns, end_ns; /* only of the same host's clock */
	uint64_t sent, received;   /* tuples */
	uint64_t sum; /* of what was sent, less what was received */
	uint64_t bad;
	uint64_t preempted;
	uint64_t segments; /* sent */
	uint64_t copied;   /* bytes that sources wrote to send them */
	uint64_t cpu_ns;   /* processor time of the sources' threads */
	uint64_t requests; /* RDMA work requests of all kinds */
	uint64_t completions;
	uint32_t queue_pairs; /* the most that a process has */
	uint32_t notify;      /* enum notify, or several of these */
	char device[64];      /* "": none was needed */
};

/* How targets learnt of segments: none, one or, together, several. */
enum notify {
	NOTIFY_NONE = 0, /* no device */
	NOTIFY_FOOTER = 1,
	NOTIFY_IMM = 2,
	NOTIFY_DATAGRAM = 4, /* they are in it */
	NOTIFY_CHECKSUM = 8,
};

/* Between invocations of the same build; larger is the flows' tuple. */
struct peer_message {
	uint64_t magic;
	int32_t status; /* 0, or 1 with an error */
	uint32_t reserved;
	char error[SEAT_ERROR_SIZE];
	struct plan plan;
	struct tally tally;
};
_Static_assert(sizeof(struct peer_message) % 8 == 0, "a tuple");

struct peer {
	struct tuple_schema schema;
	struct dfi_source *out;
	struct dfi_target *in;
};

/* The side with the sources leads: it makes the flows and sends the plans. */
bool peer_open(
    struct dfi *dfi, bool leads, uint32_t timeout_s, struct peer *peer);
void peer_close(struct peer *peer);

bool peer_send(struct peer *peer, struct peer_message *message);

/* 1, 0 at the end, which is an error to who leads, or -1. */
int peer_receive(struct peer *peer, struct peer_message *message);

#endif
