/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stalls: an endpoint that waits for the same peer for a second or longer logs
 * that once, and counts it.
 */
#ifndef DFI_FLOWS_ENDPOINT_STALL_H
#define DFI_FLOWS_ENDPOINT_STALL_H

#include <stdbool.h>
#include <stdint.h>

struct dfi_source;
struct dfi_target;

struct stall {
	uint64_t progress; /* of the peer, when the wait began */
	int64_t since;     /* 0: the endpoint doesn't wait */
	int64_t next_look;
	uint32_t next_peer;  /* the next to check */
	bool logged;         /* this stall was logged */
	bool logged_stopped; /* it was logged that a process is stopped */
};

/* The target that a source waits for; first member of what ready() gets. */
struct target_wait {
	struct dfi_source *source;
	uint32_t target;
};

/* Callbacks of struct wait_time. arg: a struct target_wait, or the target. */
void dfi__source_tick(void *arg);
void dfi__target_tick(void *arg);

/* The same for waits outside of the library: a call has found nothing. */
void dfi__source_found_no_room(struct dfi_source *source, uint32_t target);
void dfi__target_found_nothing(struct dfi_target *target);

/* The wait is over: end the stall, if there was progress. */
void dfi__source_goes_on(struct dfi_source *source, uint32_t target);
void dfi__target_goes_on(struct dfi_target *target);

#endif
