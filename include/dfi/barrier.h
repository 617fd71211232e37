/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers: numbered participants, in any threads, processes and hosts of one
 * registry, wait for each other, as often as they like. For the phases of a
 * job, not for its data: a round takes some messages with the registry.
 * examples/small/barrier.c is a program; docs/design.md says how it works.
 * Opening also returns errors of the registry (error.h). A handle belongs to
 * one thread at a time.
 */
#ifndef DFI_BARRIER_H
#define DFI_BARRIER_H

#include <stdint.h>
#include <dfi/context.h>

DFI_BEGIN_DECLS

#define DFI_MAX_PARTICIPANTS 1024 /* of a barrier */

struct dfi_barrier;

/*
 * Become participant index (from 0) of n_participants of the barrier of this
 * name: 1 to DFI_MAX_FLOW_NAME characters of [A-Za-z0-9._:-]; a flow may have
 * the same. Doesn't wait for the others. The caller closes *barrier with
 * dfi_barrier_close(). Any thread. The name is free again once all participants
 * have closed the barrier, or have heard that one was lost; one that opens it
 * earlier may get -ECONNRESET and has to open it again.
 *
 * -ERANGE: index is not below n_participants. -EEXIST: this participant is open
 * already; the text says where. -EPROTOTYPE: another participant has opened it
 * for another number of them.
 */
DFI_API int dfi_barrier_open(struct dfi *dfi, const char *name,
    uint32_t n_participants, uint32_t index, struct dfi_barrier **barrier);

/*
 * Arrive, and wait until all have: each call is a round. What a participant did
 * before it arrived has happened when the others return. timeout_ms 0: the
 * context's open_timeout_ms for all to open it, then as long as they live.
 *
 * -ETIMEDOUT: somebody is missing; the text names them. -EINTR:
 * dfi_barrier_interrupt() was called. -ENOTCONN: the registry is lost. After
 * these three the next call goes on with the same round. Other errors are
 * final. -ECONNRESET: a participant died, or closed, before all had arrived;
 * the text names it, and all get this (docs/design.md, "Barriers").
 * -EPROTOTYPE: as in dfi_barrier_open().
 */
DFI_API int dfi_barrier_wait(struct dfi_barrier *barrier, uint32_t timeout_ms);

/* End the owner's wait with -EINTR (context.h, "Signals"). Any thread. */
DFI_API void dfi_barrier_interrupt(struct dfi_barrier *barrier);

/*
 * Leave and free it; NULL is allowed. Never waits for participants: those in a
 * round later than the last complete one get -ECONNRESET.
 */
DFI_API int dfi_barrier_close(struct dfi_barrier *barrier);

DFI_END_DECLS

#endif
