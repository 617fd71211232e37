/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target of a flow with replay has consumed and acknowledged of each
 * source (R1 and R4 of docs/open-flows.md). The lock of the seats protects what
 * was acknowledged; the rest is the owner's.
 */
#ifndef DFI_FLOWS_KINDS_OPEN_ACKS_H
#define DFI_FLOWS_KINDS_OPEN_ACKS_H

#include "open_target.h"

/*
 * For a target that opens: 0 without replay as well. -EINVAL: it has no events.
 * -ENOMEM. free: NULL is allowed.
 */
int dfi__acks_open(struct dfi_target *target);
void dfi__acks_free(struct acks *acks);

/* Under the lock: what is known of a source's seat. */
struct open_inputs *dfi__acks_of(struct acks *acks, uint32_t source);

/* Whether that was ever asked for. */
bool dfi__acks_is_known(const struct acks *acks, uint32_t source);

/* Under the lock: a pair was taken. */
void dfi__acks_join(struct open_target *open, struct taken *taken);

/* A segment of a pair is lent. */
void dfi__acks_lent(struct open_target *open, struct taken *taken,
    const char *tuples, uint64_t bytes);
/* Its tuples are given back. */
void dfi__acks_gave_back(struct open_target *open, struct taken *taken);
/*
 * A pair has no segment, but maybe had some without tuples: 0, or an error of
 * its transport.
 */
int dfi__acks_passed(struct open_target *open, struct taken *taken);

/* -ENOBUFS, with a text: a whole ring waits for an acknowledgement. */
int dfi__acks_check(struct dfi_target *target);

/* Whether something was given back and is not acknowledged. */
bool dfi__acks_are_due(const struct acks *acks);

#endif
