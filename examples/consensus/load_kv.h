/* SPDX-License-Identifier: Apache-2.0 */
/* The replicated store of this folder under load, through its client library.
 */
#ifndef KV_LOAD_KV_H
#define KV_LOAD_KV_H

#include "load_backend.h"

/* Reads go through the log, or by a round of the leader's for many of them. */
extern const struct load_backend load_kv;
extern const struct load_backend load_kv_index;

#endif
