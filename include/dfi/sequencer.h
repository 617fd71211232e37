/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequencers: a counter that many threads and processes take numbers from, each
 * number once: log positions, transactions, work items. The program is
 * examples/small/sequencer.c.
 *
 * The counter is in memory of the process that created it, which the others add
 * to without its processor or the registry. If the creator's DFI_TRANSPORT is
 * verbs, or auto with a registry that serves other hosts, all of them, also on
 * its own host, add by its RDMA device (docs/design.md); else all are on one
 * host. A handle belongs to one thread at a time. Names are as those of flows,
 * and may be the same. Creating and opening return errors of the registry and
 * of RDMA (error.h).
 */
#ifndef DFI_SEQUENCER_H
#define DFI_SEQUENCER_H

#include <stdint.h>
#include <dfi/context.h>

DFI_BEGIN_DECLS

struct dfi_sequencer;

/*
 * Publish a sequencer whose first number is first, and open it. It lives until
 * *sequencer is closed with dfi_sequencer_close(), or the process dies. It
 * takes a page of memory. Any thread.
 *
 * -EEXIST: there is one of this name; the text says whose. -ENODEV,
 * -EOPNOTSUPP: DFI_TRANSPORT is verbs, and there is no device, or it has no
 * atomic operations. With auto that is a warning in the log, and only processes
 * of this host can open it.
 */
DFI_API int dfi_sequencer_create(struct dfi *dfi, const char *name,
    uint64_t first, struct dfi_sequencer **sequencer);

/*
 * Open a sequencer for one thread, and wait for its creation at most
 * open_timeout_ms (0: the context's). The caller closes *sequencer with
 * dfi_sequencer_close(). Any thread.
 *
 * -ETIMEDOUT: nobody has created it, or the registry or the creator doesn't
 * answer; the text says which. -EHOSTUNREACH: also, RDMA must be used and
 * DFI_TRANSPORT is shm here. -ECONNRESET: it went away meanwhile. -EACCES: it
 * belongs to another user.
 */
DFI_API int dfi_sequencer_open(struct dfi *dfi, const char *name,
    uint32_t open_timeout_ms, struct dfi_sequencer **sequencer);

/*
 * Take the next n numbers, *first to *first + n - 1, modulo 2^64. Nobody else
 * gets them, and somebody took each number before. Through memory it never
 * waits, and what a thread did before it took a number has happened for all who
 * take a higher one; over RDMA it waits for the device's answer, as long as the
 * connection (docs/rdma.md) and the creator last. Owner thread only.
 *
 * -EINVAL: also, n is 0. -ECONNRESET: the creator has closed it or died, which
 * is final; the text names it. *first is as before; numbers that were taken
 * stay unused. Until the death is known, numbers may come (docs/design.md,
 * "Sequencers"). -EBUSY, in debug builds: another thread is inside a call.
 */
DFI_API int dfi_sequencer_next(
    struct dfi_sequencer *sequencer, uint32_t n, uint64_t *first);

/*
 * Close and free the handle; NULL is allowed. If it is the creator's, the
 * sequencer ends: others get -ECONNRESET, and its name is free. Never waits.
 * Owner thread only.
 */
DFI_API int dfi_sequencer_close(struct dfi_sequencer *sequencer);

DFI_END_DECLS

#endif
