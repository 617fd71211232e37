/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers: numbered members, in any threads, processes and hosts of one
 * registry, wait for each other, as often as they like. For the phases of a
 * job, not for its data: a round takes some messages with the registry.
 * examples/small/barrier.c is a program.
 */
#ifndef DFI_BARRIER_H
#define DFI_BARRIER_H

#include <stdint.h>
#include <dfi/context.h>
#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DFI_MAX_MEMBERS 1024 /* of a barrier */

struct dfi_barrier;

/*
 * Become member index (from 0) of the n_members of the barrier of this name,
 * which has 1 to DFI_MAX_FLOW_NAME characters of [A-Za-z0-9._:-]; a flow may
 * have the same. Doesn't wait for the others. *barrier belongs to one thread at
 * a time, and is closed with dfi_barrier_close(). Any thread. To hear of deaths
 * of members, a context keeps a file descriptor open for each other process of
 * this host and PID namespace that has some: one for each process, whatever it
 * shares with it, until that ends.
 *
 * A name can be used again once its members have closed it, or one of them was
 * lost, also while some of them are still about to close it: as soon as they
 * have heard of the loss, whatever they do; who opens it before may have to do
 * so again after -ECONNRESET.
 *
 * -EINVAL: the name, n_members or an argument is not valid. -ERANGE: index is
 * not below n_members. -EEXIST: this member is open already; the text says
 * where. -EPROTOTYPE: another member has opened it for another number of
 * members. -ETIMEDOUT, -ENOTCONN: the registry doesn't answer. -ENOSPC: one of
 * its limits is reached. -EOWNERDEAD, -ENOMEM, -EIO.
 */
DFI_API int dfi_barrier_open(struct dfi *dfi, const char *name,
    uint32_t n_members, uint32_t index, struct dfi_barrier **barrier);

/*
 * Arrive, and wait until all members have: round 1 with the first call, round
 * 2 with the second, and so on. What a member did before it arrived has
 * happened when the others return. timeout_ms 0: the context's open_timeout_ms
 * for all members to open it; then as long as they live.
 *
 * -ETIMEDOUT: somebody is missing; the text names who, with node, host and pid
 * where it has opened the barrier. The next call goes on waiting for the same
 * round. -EINTR: dfi_barrier_interrupt() was called; likewise. -ENOTCONN: the
 * connection to the registry is lost, and with it the
 * others; once it is back, calls go on. The other errors are final, the handle
 * can only be closed: -ECONNRESET: a member died or closed before it, or
 * another, had arrived; the text names it. All members that were waiting, or
 * come to this round, get this, as long as the registry lives and answers: who
 * dies while it doesn't may have been seen to arrive by some, who end a round
 * later. It comes within two seconds of the end of a process of this host and
 * PID namespace, also while the registry hangs or is gone; of another's, only
 * the registry tells. -EPROTOTYPE: another member has opened the barrier for
 * another number of members. -EINVAL: NULL. -EOWNERDEAD, -ENOMEM.
 */
DFI_API int dfi_barrier_wait(struct dfi_barrier *barrier, uint32_t timeout_ms);

/*
 * Have the call in which the owner waits for members, or else the next one that
 * would, return -EINTR, once. Async-signal-safe; any thread, also while the
 * barrier is closed, and, as far as closed handles are known (context.h), after
 * it.
 */
DFI_API void dfi_barrier_interrupt(struct dfi_barrier *barrier);

/*
 * Leave and free it. Never waits for members: those that are in a later round
 * than the last that was complete get -ECONNRESET. NULL: nothing is done.
 * -EINVAL, -EBADF (closed before), -EOWNERDEAD: nothing was done.
 */
DFI_API int dfi_barrier_close(struct dfi_barrier *barrier);

#ifdef __cplusplus
}
#endif

#endif
