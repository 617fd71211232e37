/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The partitions of a target of an open flow: it knows the marks of its
 * sources, takes what it gains and releases what leaves, and its helper makes
 * tables (H1 to H7 of docs/open-flows.md). The lock of the seats protects it.
 */
#ifndef DFI_FLOWS_KINDS_OPEN_KEYED_TARGET_H
#define DFI_FLOWS_KINDS_OPEN_KEYED_TARGET_H

#include <dfi/event.h>
#include "flows/open/target.h"
#include "pairs.h"

struct dfi_target;
struct partitions;

/* Once the seat is there: -ENOMEM. free: NULL is allowed. */
int dfi__partitions_open(struct dfi_target *target);
void dfi__partitions_free(struct partitions *partitions);

/*
 * The registry or a pair has changed. Under the lock. Without events, take and
 * release what is due.
 */
void dfi__partitions_learn(struct partitions *partitions);

/* The owner has consumed all of a source up to the mark of this table. */
void dfi__partitions_marked(struct partitions *partitions, uint32_t source,
    uint64_t incarnation, uint64_t table);

/* Whether an event is due. For the owner. */
bool dfi__partitions_due(const struct partitions *partitions);

/* Take the next event; false: none is due. What is gained is taken. */
bool dfi__partitions_event(
    struct partitions *partitions, struct dfi_event *event);

/* Release a partition that leaves; false: it does not. */
bool dfi__partitions_release(struct partitions *partitions, uint32_t partition);

/*
 * Under the lock: whether the target has yet to take or release partitions of
 * the newest table.
 */
bool dfi__partitions_move(const struct partitions *partitions);

/* Give all partitions away, and take no more. */
void dfi__partitions_leave(struct partitions *partitions);

/* Under the lock: whether that is done. From then on it takes nothing. */
bool dfi__partitions_left(struct partitions *partitions);

/* Under the lock: whether partitions move, of whatever targets (K4). */
bool dfi__partitions_unsettled(const struct partitions *partitions);

/*
 * With replay. state: under the lock. take: false: the partition was not
 * gained. epoch: false: it is not here.
 */
const struct keyed_target *dfi__partitions_state(
    const struct partitions *partitions);
bool dfi__partitions_take(struct partitions *partitions, uint32_t partition,
    const uint64_t *positions);
bool dfi__partitions_epoch(
    struct partitions *partitions, uint32_t partition, uint64_t *epoch);

/* -ERANGE. */
int dfi__partitions_no_such(
    const struct dfi_target *target, uint32_t partition);

/* The owner has looked at all rings, and there is nothing in them. */
void dfi__partitions_found_nothing(struct partitions *partitions);

/* For struct pairs_ops.tend of targets. */
int64_t dfi__partitions_tend(struct partitions *partitions);

#endif
