/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stalls: an endpoint that waits for the same peer for a second and longer says
 * so in the log, once, and counts it.
 */
#ifndef DFI_FLOWS_ENDPOINT_STALL_H
#define DFI_FLOWS_ENDPOINT_STALL_H

#include <stdbool.h>
#include <stdint.h>

struct dfi_source;
struct dfi_target;

struct stall {
	uint64_t progress; /* of what is waited for, when the wait began */
	int64_t since;     /* 0: nothing is waited for */
	int64_t next_look;
	uint32_t next_peer; /* to look at */
	bool told;          /* of this stall */
	bool told_stopped;  /* and that a process is stopped */
};

/* What a wait of a source is for; the first member of what ready() gets. */
struct target_wait {
	struct dfi_source *source;
	uint32_t target;
};

/* For struct wait_time: arg is a struct target_wait, or the target. */
void dfi__source_tick(void *arg);
void dfi__target_tick(void *arg);

/* The same for waits outside of this library: it was looked in vain. */
void dfi__source_found_no_room(struct dfi_source *source, uint32_t target);
void dfi__target_found_nothing(struct dfi_target *target);

/* The wait is over: ends a stall, if there has been progress. */
void dfi__source_goes_on(struct dfi_source *source, uint32_t target);
void dfi__target_goes_on(struct dfi_target *target);

#endif
