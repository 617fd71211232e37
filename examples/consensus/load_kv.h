/* SPDX-License-Identifier: Apache-2.0 */
/* The replicated store of this folder under load, through its client library.
 */
#ifndef KV_LOAD_KV_H
#define KV_LOAD_KV_H

#include "load_backend.h"

/* Reads go through the log, or one round of the leader serves many. */
extern const struct load_backend load_kv;
extern const struct load_backend load_kv_index;

#endif
