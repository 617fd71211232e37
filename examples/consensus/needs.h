/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the processes of a store take. Callers check it before they
 * fill it: the kernel kills a process that runs out of memory.
 */
#ifndef KV_NEEDS_H
#define KV_NEEDS_H

#include "replica.h"

/* A process by itself, with the library and a reserve. */
#define NEEDS_PROCESS (UINT64_C(6) << 20)

/*
 * A replica without data: its process, rings, tables and log, whose size is
 * options->log_bytes. 0, or an error of dfi_flow_estimate().
 */
int needs_replica(struct dfi *dfi, const struct replica_options *options,
    uint64_t *others, uint64_t *log);

/* This many pairs at a replica, in its store and its snapshots. */
uint64_t needs_data(const struct replica_options *options, uint64_t n,
    size_t key_size, size_t value_size);

/* A client of n replicas: its process and its rings. */
int needs_client(struct dfi *dfi, unsigned n_replicas, uint64_t *bytes);

#endif
