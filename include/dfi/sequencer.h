/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequencers: a counter that many threads and processes take numbers from, each
 * number once. For what must be put in one order, or claimed by one of many:
 * log positions, transactions, work items.
 *
 * The counter is in the memory of the process that has created it, and whoever
 * takes numbers adds to it directly: the creator's processor has no part in
 * that, nor has the registry. If the creator's DFI_TRANSPORT is verbs, or auto
 * with a registry that serves other hosts, too, all do it by atomic operations
 * of the creator's RDMA device, also on its own host, because these are atomic
 * among themselves only; else through memory, and all are on one host.
 * examples/small/sequencer.c is a program.
 */
#ifndef DFI_SEQUENCER_H
#define DFI_SEQUENCER_H

#include <stdint.h>
#include <dfi/context.h>
#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dfi_sequencer;

/*
 * Publish a sequencer whose first number is first, and open it. name has 1 to
 * DFI_MAX_FLOW_NAME characters of [A-Za-z0-9._:-]; a flow or a barrier may have
 * the same. The sequencer lives until this handle is closed or the process
 * dies. *sequencer belongs to one thread at a time, and is closed with
 * dfi_sequencer_close(). It takes a page of memory. Any thread.
 *
 * -EINVAL: an argument or the name is not valid. -EEXIST: there is one of this
 * name; the text says whose. -ETIMEDOUT, -ENOTCONN: the registry doesn't
 * answer. -ENOSPC: one of its limits is reached. -ENODEV, -EOPNOTSUPP:
 * DFI_TRANSPORT is verbs, and there is no device, or it has no atomic
 * operations; if it is auto, that is a warning in the log, and only processes
 * of this host can open it. -EOWNERDEAD, -EMFILE, -ENOMEM, -EIO.
 */
DFI_API int dfi_sequencer_create(struct dfi *dfi, const char *name,
    uint64_t first, struct dfi_sequencer **sequencer);

/*
 * Open a sequencer that some process creates, and wait for that at most
 * open_timeout_ms (0: the context's). Each thread that takes numbers opens it
 * for itself: *sequencer belongs to one thread at a time, and is closed with
 * dfi_sequencer_close(). Any thread. To hear of the creator's death, a context
 * keeps a file descriptor open for its process, if that is another one of this
 * host and PID namespace: one for each process, whatever it shares with it,
 * until that ends.
 *
 * -EINVAL: an argument or the name is not valid. -ETIMEDOUT: nobody has created
 * it, or the registry or the creator doesn't answer; the text says which.
 * -EHOSTUNREACH: its creator is on another host and can't be reached over
 * RDMA, or must be and DFI_TRANSPORT is shm here; the text says why. -ENODEV,
 * -EOPNOTSUPP, -ECONNREFUSED: as of RDMA in dfi_source_open(). -ECONNRESET: it
 * went away meanwhile. -EACCES: it belongs to another user. -ENOTCONN: the
 * registry. -EBADMSG, -EPROTO: what the registry holds is damaged, or of
 * another version. -EOWNERDEAD, -EMFILE, -ENOMEM, -EIO.
 */
DFI_API int dfi_sequencer_open(struct dfi *dfi, const char *name,
    uint32_t open_timeout_ms, struct dfi_sequencer **sequencer);

/*
 * Take the next n numbers: *first to *first + n - 1, which nobody else has got
 * or will get, and all numbers before *first were taken by somebody. Numbers
 * are modulo 2^64. Through memory it never waits, and what a thread did before
 * it took a number has happened for whoever takes a higher one; over RDMA it
 * waits for the device's answer, for as long as a connection lasts
 * (docs/rdma.md) and the creator is there. Owner thread only.
 *
 * -EINVAL: n is 0, or an argument is NULL. -ECONNRESET: the creator has closed
 * it or died; the text names it. Over RDMA that it has closed it comes by way
 * of the registry, so numbers may still come for a moment; so they may after a
 * death, which is told within two seconds if it is of a process of this host
 * and PID namespace, also while the registry hangs or is gone; through memory,
 * of another PID namespace's only the registry tells. Final; *first is left as
 * it was, though numbers may have been taken, and nobody uses them.
 * -EBUSY, in debug builds: another thread is inside a call on this handle.
 * -EOWNERDEAD.
 */
DFI_API int dfi_sequencer_next(
    struct dfi_sequencer *sequencer, uint32_t n, uint64_t *first);

/*
 * Close and free the handle. If it is the creator's, the sequencer ends: the
 * others get -ECONNRESET, and its name is free. NULL: nothing is done. Never
 * waits. Owner thread only. -EINVAL, -EBADF (closed before), -EOWNERDEAD:
 * nothing was done.
 */
DFI_API int dfi_sequencer_close(struct dfi_sequencer *sequencer);

#ifdef __cplusplus
}
#endif

#endif
