/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two processes must have in common to share memory: the machine, since it
 * was started, and the network namespace, whose sockets pass that memory.
 */
#ifndef DFI_BASE_HOST_H
#define DFI_BASE_HOST_H

#include <stdint.h>

struct host {
	uint64_t id;   /* of both below; 0 if either is unknown */
	uint64_t boot; /* of the machine; 0: /proc does not tell */
	uint64_t net;  /* the network namespace; 0: likewise */
};

/* How far apart two hosts are. */
enum host_distance {
	HOST_SAME,
	HOST_UNKNOWN,       /* /proc did not tell one of them enough */
	HOST_OTHER_NETWORK, /* one machine, another network namespace */
	HOST_OTHER,
};

/* This process's. */
void dfi__host_read(struct host *host);

/* HOST_OTHER and HOST_OTHER_NETWORK leave no way to share memory. */
enum host_distance dfi__host_distance(
    const struct host *a, const struct host *b);

/* What prevents sharing memory over that distance: "it is ...". */
const char *dfi__host_why_apart(enum host_distance distance);

/*
 * For a process that could not be reached at that distance: if it is unknown,
 * puts that behind the text of err. Returns err.
 */
int dfi__host_explain(int err, enum host_distance distance);

#endif
