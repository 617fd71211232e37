/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets that have cancelled and are closed while sources are still to come:
 * each of them has to find the target's entry, so that it doesn't wait for the
 * target. Their entries go when all sources have attached, or none can any
 * more, because the flow was removed; and with the context.
 */
#ifndef DFI_FLOWS_MEMBERS_TOMBSTONE_H
#define DFI_FLOWS_MEMBERS_TOMBSTONE_H

struct dfi_target;
struct farewells;

/* -ENOMEM. */
int dfi__farewells_new(struct farewells **farewells);

/* Before the registry's client is closed. */
void dfi__farewells_free(struct farewells *farewells);

/*
 * Takes the target, of which only peers, flow, index and context are left, and
 * its flow's sequencer if it has that, and frees it in the end.
 */
void dfi__farewell_begin(struct dfi_target *target);

#endif
