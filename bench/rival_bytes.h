/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rivals that move bytes by write(2) and read(2), one call for each message.
 * What is read may end within a tuple; the rest of it comes next.
 */
#ifndef DFI_BENCH_RIVAL_BYTES_H
#define DFI_BENCH_RIVAL_BYTES_H

#include "rival_messages.h"

/* Of a write of a batch, and of what a read takes at most. */
#define BYTES_BATCH ((size_t)64 << 10)
#define BYTES_READ ((size_t)256 << 10)

struct rival_bytes {
	int in, out;     /* -1: not open */
	char *message;   /* is built here */
	char *arrived;   /* is read to here */
	size_t have;     /* of that, */
	size_t consumed; /* and the bytes of it that were lent */
};

/* Allocate the worker's state. 0, or a negative errno value. */
int rival_bytes_prepare(struct worker *worker);

int rival_bytes_run(struct worker *worker);
void rival_bytes_finish(struct worker *worker);

#endif
