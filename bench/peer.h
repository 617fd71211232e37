/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two invocations of dfi-bench, one with the sources and one with the targets,
 * which run the same rounds. They meet through a registry and talk over two
 * flows: plans go to the targets, and results come back. Functions print an
 * error where they find it, and then return false.
 */
#ifndef DFI_BENCH_PEER_H
#define DFI_BENCH_PEER_H

#include <dfi/dfi.h>
#include <stdbool.h>
#include "board.h"
#include "flow_job.h"

/* The work of the seats of one side, or of both, in a round. */
struct tally {
	uint64_t begin_ns, end_ns; /* by the clock of one host only */
	uint64_t sent, received;   /* tuples */
	uint64_t sum; /* of sent tuples minus that of received ones */
	uint64_t bad;
	uint64_t preempted;
	uint64_t segments;      /* sent */
	uint64_t copied;        /* bytes that sources wrote to send them */
	uint64_t bulk;          /* tuples sent beside an echo */
	uint64_t cpu_ns;        /* processor time of the sources' threads */
	uint64_t target_cpu_ns; /* and of the targets' */
	uint64_t requests;      /* RDMA work requests of all kinds */
	uint64_t completions;
	uint32_t queue_pairs; /* the most of a process */
	uint32_t notify;      /* enum notify, perhaps several bits */
	char device[64];      /* "": no device was needed */
};

/* How targets noticed segments; several bits may be set. */
enum notify {
	NOTIFY_NONE = 0, /* no device */
	NOTIFY_FOOTER = 1,
	NOTIFY_IMM = 2,
	NOTIFY_DATAGRAM = 4, /* the segment came in datagrams */
	NOTIFY_CHECKSUM = 8,
	NOTIFY_DATA = 16, /* by completion data of libfabric */
};

/*
 * The message between invocations of the same build; the flows' tuple is
 * larger.
 */
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

/*
 * Open the flows. The side with the sources leads: it makes the flows and sends
 * the plans.
 */
bool peer_open(
    struct dfi *dfi, bool leads, uint32_t timeout_s, struct peer *peer);
void peer_close(struct peer *peer);

bool peer_send(struct peer *peer, struct peer_message *message);

/* 1; 0 at the end, which is an error for the leading side; or -1. */
int peer_receive(struct peer *peer, struct peer_message *message);

#endif
