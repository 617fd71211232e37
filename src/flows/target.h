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
	bool lends_segment; /* of readers[head.source] */
	bool lends_batch;
	bool cursor_open;
	bool prefetches; /* a segment's payload and footer are two lines */
	uint32_t n_readers;
	uint32_t n_open;       /* readers that have not ended */
	uint32_t current;      /* the ring in work */
	uint32_t in_a_row;     /* segments taken from it without a break */
	bool dead_undrained;   /* a source is gone, but its ring isn't empty */
	uint32_t seen_changes; /* of sources.changes */
	uint32_t flags;
	uint32_t empty_polls; /* of a nonblocking handle */
	uint32_t open_timeout_ms;
	char status_text[256];
	struct wait_policy wait;
	struct wait_time wait_time; /* deadline: for the sources to attach */
	struct reader *readers;
	struct region *region;
	struct dfi *dfi;
	struct flow flow;
	uint32_t index;
	struct peers sources;
	uint64_t segments, stalls;
};

int dfi__target_check_slow(const struct dfi_target *target);

/* The sticky error, with its text, or what is wrong with the handle. */
static inline int target_check(const struct dfi_target *target)
{
	if (likely(target && target->magic == TARGET_MAGIC && !target->status))
		return 0;
	return dfi__target_check_slow(target);
}

#endif
