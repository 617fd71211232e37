/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open replicate flows whose segments are datagrams: J3 of docs/open-flows.md.
 * A source has one stream for all its targets. A pair has no ring: its source's
 * end has the credit that the target reports, and its target's end receives the
 * stream into a ring of its own.
 */
#ifndef DFI_FLOWS_KINDS_OPEN_OPEN_MULTICAST_H
#define DFI_FLOWS_KINDS_OPEN_OPEN_MULTICAST_H

#include <stdint.h>
#include "flows/endpoint/kind.h"

struct dfi_source;
struct dfi_target;
struct open_source;
struct pair;
struct remote;

/* Of the ends of pairs (row.c), with its entries: see endpoint/kind.h. */
extern const struct kind dfi__open_multicast_kind;
int dfi__open_multicast_open_end(struct dfi_source *end, int64_t deadline);
struct remote *dfi__open_multicast_ring(
    struct dfi_source *end, uint32_t target);
void dfi__open_multicast_look(struct dfi_source *end);
void dfi__open_multicast_stop(struct dfi_target *end);
void dfi__open_multicast_close(struct dfi_target *end);

/* Reserve the memory of a source's segments, and make its lane. */
int dfi__open_multicast_init(struct dfi_source *source);
/* The seat is taken: join the network. */
int dfi__open_multicast_begin(struct dfi_source *source, int64_t deadline);
void dfi__open_multicast_free(struct open_source *open);

/* Include a new target from the next segment on, unless it is. */
void dfi__open_multicast_greet(
    struct dfi_source *source, struct dfi_source *end);

/*
 * Send the first bytes of the lane's segment to all that are attached: 0, or a
 * sticky error. If nobody is, the segment waits for the first who comes.
 */
int dfi__open_multicast_send(struct dfi_source *source, uint64_t bytes);

/* The same for a mark, whose segment all have room for. */
int dfi__open_multicast_mark(struct dfi_source *source, uint64_t mark);

/* See dfi__open_unreturned(). */
uint64_t dfi__open_multicast_unreturned(struct dfi_source *end);

/* An end is given up: what it has not given back may be overwritten. */
void dfi__open_multicast_drop(struct dfi_source *end);

/*
 * Close an end at the end of the stream. With evict_after_ms a target that does
 * not answer for so long is evicted.
 */
int dfi__open_multicast_end(
    struct dfi_source *source, uint32_t seat, struct pair *pair);

/* The sticky error of a source whose network is gone, or 0. */
int dfi__open_multicast_check(struct dfi_source *source);

/*
 * How much lower the numbers of a target's end are than those of the stream;
 * see struct reader. It has taken the first mark.
 */
uint64_t dfi__open_multicast_base(const struct dfi_target *end);

/* The source's last mark of before; 0: none. It has taken J1's mark. */
uint64_t dfi__open_multicast_mark_before(const struct dfi_target *end);

#endif
