/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stores that consensus_peers measures, if their libraries are installed.
 */
#ifndef BENCH_CONSENSUS_PEERS_H
#define BENCH_CONSENSUS_PEERS_H

#include "../../examples/consensus/load_backend.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct load_backend etcd_backend;
extern const struct load_backend redis_backend;

#ifdef __cplusplus
}
#endif

#endif
