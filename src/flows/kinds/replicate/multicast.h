/* SPDX-License-Identifier: Apache-2.0 */
/* Flows whose segments are datagrams to a group: a multicast over RDMA. */
#ifndef DFI_FLOWS_KINDS_REPLICATE_MULTICAST_H
#define DFI_FLOWS_KINDS_REPLICATE_MULTICAST_H

#include <stdbool.h>
#include <stdint.h>

struct dfi_source;
struct dfi_target;

/* ---- A source ---------------------------------------------------------- */

/* Take room for its port, before anything is reserved. -ENOMEM, and of the
 * network. */
int dfi__source_cast_room(struct dfi_source *source);

/* Open its port, when its replica writer is there. What dfi__sender_ring_open()
 * returns, and of the network. */
int dfi__source_cast_open(struct dfi_source *source, int64_t deadline);

/*
 * When both sides are published: wait until each target has answered, as proof
 * that datagrams arrive, and that they are of the first source of this index.
 * -EEXIST, -ETIMEDOUT, -ECONNRESET.
 */
int dfi__source_cast_greet(struct dfi_source *source, int64_t deadline);

/* Tell the protocol what the registry says of the targets. */
void dfi__source_cast_look(struct dfi_source *source);

/* Nothing is sent any more: before its targets are forgotten. */
void dfi__source_cast_stop(struct dfi_source *source);
/* When its rings aren't used any more, and before its replica writer goes. */
void dfi__source_cast_close(struct dfi_source *source);

/* ---- A target ---------------------------------------------------------- */

/* Take room, and join the group when its rings are ready. As above. */
int dfi__target_cast_room(struct dfi_target *target);
int dfi__target_cast_open(struct dfi_target *target, int64_t deadline);

#endif
