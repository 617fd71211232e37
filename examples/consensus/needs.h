/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory the processes of a store take. It is asked before they fill
 * it: the kernel ends a process that does not find it.
 */
#ifndef KV_NEEDS_H
#define KV_NEEDS_H

#include "replica.h"

/* Of a process by itself, with the library and some to spare. */
#define NEEDS_PROCESS (UINT64_C(6) << 20)

/*
 * Of a replica without data: its process, rings and tables, and its log, which
 * options->log_bytes decides. 0, or an error of dfi_flow_estimate().
 */
int needs_replica(struct dfi *dfi, const struct replica_options *options,
    uint64_t *others, uint64_t *log);

/* Of so many pairs at a replica, in its store and its snapshots. */
uint64_t needs_data(const struct replica_options *options, uint64_t n,
    size_t key_size, size_t value_size);

/* Of a client of n replicas: its process and its rings. */
int needs_client(struct dfi *dfi, unsigned n_replicas, uint64_t *bytes);

#endif
