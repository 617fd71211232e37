/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many endpoints of two processes: this one has the sources, and orders another
 * one about, which has the targets (scale_targets.h). A thread each.
 * Functions print an error where they find it, and then return false.
 */
#ifndef DFI_BENCH_SCALE_JOB_H
#define DFI_BENCH_SCALE_JOB_H

#include <dfi/dfi.h>
#include <stdbool.h>
#include <stdint.h>
#include "../common/stats.h"
#include "scale_targets.h"
#include "session.h"

struct scale {
	uint32_t n_flows;
	uint32_t n_sources, n_targets; /* of each flow */
	uint32_t n_attached;           /* sources of each flow */

	struct session *session;   /* creates the flows */
	struct scale_board *board; /* what both processes share */
	struct children *children; /* the other one */
	struct raw_geometry asked;
	struct dfi *dfi;    /* of the sources */
	struct plan *plans; /* of each flow, with its name */
	uint32_t n_created;
	uint64_t open_ns; /* the time to open all endpoints */
	int files;        /* what both processes opened */
	struct dfi_source **sources;
	bool opened, receives;       /* the targets' process */
	bool apart;                  /* flows share no connection */
	uint64_t pushed, pushed_sum; /* tuples, and their words */
	uint64_t timeout_ns;
	int32_t cpu; /* of this thread; -1: any */
};

/* Create the flows, and open all endpoints. scale_close() also after false. */
bool scale_open(struct scale *scale);
bool scale_close(struct scale *scale);

/* The nanoseconds of a poll that finds nothing: the mean of n. */
bool scale_poll(struct scale *scale, uint64_t n, double *ns);

/* From now on the other process polls. */
void scale_start(struct scale *scale);

/* Send n tuples, each when the last one is there; add each one's way, in ns. */
bool scale_send_each(
    struct scale *scale, uint64_t n, struct histogram *histogram);

/* All sources send in turns for some seconds: GB/s, until all is there. */
bool scale_send_all(struct scale *scale, double seconds, double *rate);

/* From now on each tuple is checked. */
void scale_check(struct scale *scale);

/* End that. *verified: the words that arrived are those sent. */
bool scale_stop(struct scale *scale, bool *verified);

#endif
