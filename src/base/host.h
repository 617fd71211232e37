/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two processes must share to share memory: the machine since its last
 * start, and the network namespace, as sockets of that namespace pass the
 * memory.
 */
#ifndef DFI_BASE_HOST_H
#define DFI_BASE_HOST_H

#include <stdint.h>

struct host {
	uint64_t id;   /* a hash of both below; 0 if either is unknown */
	uint64_t boot; /* the start of the machine; 0: /proc does not tell */
	uint64_t net;  /* the network namespace; 0: likewise */
};

/* How far apart two hosts are. */
enum host_distance {
	HOST_SAME,
	HOST_UNKNOWN,       /* one of them could not read /proc */
	HOST_OTHER_NETWORK, /* one machine, another network namespace */
	HOST_OTHER,
};

/* Read the host of this process. */
void dfi__host_read(struct host *host);

/* With HOST_OTHER and HOST_OTHER_NETWORK, processes can't share memory. */
enum host_distance dfi__host_distance(
    const struct host *a, const struct host *b);

/* Why processes at that distance can't share memory: "it is ...". */
const char *dfi__host_why_apart(enum host_distance distance);

/*
 * For a process at that distance that could not be reached: if the distance is
 * unknown, append that to the text of err. Returns err.
 */
int dfi__host_explain(int err, enum host_distance distance);

#endif
