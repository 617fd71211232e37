/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target from inside. target.c opens and closes it, consume.c moves tuples.
 */
#ifndef DFI_FLOWS_TARGET_H
#define DFI_FLOWS_TARGET_H

#include <stdbool.h>
#include <dfi/target.h>
#include "../base/wait.h"
#include "../buffers/reader.h"
#include "context.h"
#include "descriptor.h"
#include "peers.h"

struct dfi_target {
	struct dfi_target_head head; /* first: see dfi/target.h */
	uint32_t magic;
	int status;         /* the first hard error */
	bool finished;      /* the end of the flow was reached */
	bool lends_segment; /* of readers[current] */
	bool lends_batch;
	bool prefetches; /* a segment's payload and footer are two lines */
	uint32_t n_readers;
	uint32_t n_open;       /* readers that have not ended */
	uint32_t current;      /* the ring in work */
	uint32_t in_a_row;     /* segments taken from it without a break */
	uint32_t seen_changes; /* of sources.changes */
	uint32_t flags;
	uint32_t stall_timeout_ms;
	int64_t attach_deadline; /* for the sources */
	struct wait_policy wait;
	struct reader *readers;
	struct region *region;
	struct dfi *dfi;
	struct flow flow;
	uint32_t index;
	struct peers sources;
	uint64_t segments, stalls, stall_ns;
};

static inline int target_check(const struct dfi_target *target)
{
	return handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);
}

#endif
