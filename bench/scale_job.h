/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many endpoints of which one thread has the sources and one the targets, in a
 * context each. So regions are passed and mapped as between two processes.
 * Functions print an error where they find it, and then return false.
 */
#ifndef DFI_BENCH_SCALE_JOB_H
#define DFI_BENCH_SCALE_JOB_H

#include <dfi/dfi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "../common/stats.h"
#include "session.h"

#define SCALE_TUPLE 64 /* bytes */

struct scale {
	uint32_t n_flows;
	uint32_t n_sources, n_targets; /* of each flow */
	uint32_t n_attached;           /* sources of each flow */

	struct session *session; /* its context has the targets */
	struct dfi *from;        /* that of the sources */
	struct plan *plans;      /* of each flow, with its name */
	uint32_t n_created;
	uint64_t open_ns; /* the time to open all endpoints */
	struct dfi_source **sources;
	struct dfi_target **targets;
	struct dfi_target_group *group; /* NULL: there is one target */
	pthread_t receiver;
	bool receives;
	bool apart;                  /* flows share no connection */
	uint64_t pushed, pushed_sum; /* tuples, and their words */
	uint64_t sum;                /* of the words that arrived */
	uint64_t timeout_ns;

	_Alignas(128) _Atomic uint64_t heard; /* tuples */
	_Atomic bool stop;
	_Atomic int failed;
};

/* Create the flows, and open all endpoints. scale_close() also after false. */
bool scale_open(struct scale *scale);
void scale_close(struct scale *scale);

/* The nanoseconds of a poll that finds nothing: the mean of n. */
bool scale_poll(struct scale *scale, uint64_t n, double *ns);

/* From now on a thread polls. */
bool scale_start(struct scale *scale);

/* Send n tuples, each when the last one is there; add each one's way, in ns. */
bool scale_send_each(
    struct scale *scale, uint64_t n, struct histogram *histogram);

/* All sources send in turns for some seconds: GB/s, until all is there. */
bool scale_send_all(struct scale *scale, double seconds, double *rate);

/* End that thread. *verified: the words that arrived are those sent. */
bool scale_stop(struct scale *scale, bool *verified);

#endif
