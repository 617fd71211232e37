/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors.
 *
 * A function that can fail returns an int: 0 or a count on success, a negative
 * errno value on failure. A failing call also leaves a text for its thread,
 * which dfi_errmsg() returns. The library never prints it.
 *
 * Errors of all calls. The other headers name only what they add:
 *   -EINVAL      an argument or attribute is not valid, such as NULL for a
 *                handle, a name, a callback or an output, or a struct whose
 *                size is 0
 *   -E2BIG       an attribute struct is newer than the library
 *   -EBADF       the handle was closed before (context.h)
 *   -EOWNERDEAD  the handle belongs to the parent of this forked process
 *   -ENOMEM, -EMFILE, -EIO  see the table below
 * Errors of all calls that ask the registry:
 *   -ENOTCONN    the connection to it is lost
 *   -ETIMEDOUT   it does not answer in time
 *   -ENOSPC      one of its limits is reached
 *   -EPROTO, -EBADMSG  what it holds is of another version, or damaged
 * Errors of all calls that use RDMA; the text says which device, and why:
 *   -ENODEV      no RDMA device here can be used, or the library lacks RDMA
 *   -EOPNOTSUPP  the device has no atomic operations, which sequencers and
 *                ordered flows need
 *   -EHOSTUNREACH, -ECONNREFUSED  the peer's host can't be reached from the
 *                device, or nobody listens there
 *   -ENOMEM      also, more memory than may be locked (ulimit -l)
 *   -EOWNERDEAD  also, a process used RDMA before it forked this one
 */
#ifndef DFI_ERROR_H
#define DFI_ERROR_H

#include <errno.h>
#include <stdint.h>
#include <dfi/export.h>

DFI_BEGIN_DECLS

/* All codes that the library returns: X(errno name, meaning). */
#define DFI_ERRORS(X)                                                          \
	X(EINVAL, "an argument or attribute is not valid")                     \
	X(EBADF, "the handle was closed before")                               \
	X(E2BIG, "an attribute struct is newer than this library")             \
	X(EPROTOTYPE, "the object is of another kind or schema")               \
	X(EEXIST, "the name or index is taken")                                \
	X(ENOENT, "there is no such object")                                   \
	X(EBUSY, "the object is in use")                                       \
	X(EAGAIN, "the call would have to wait")                               \
	X(ETIMEDOUT, "the deadline passed")                                    \
	X(ECONNRESET, "a peer died or left before the end of the flow")        \
	X(EPIPE, "the target has cancelled: it takes no more tuples")          \
	X(ECONNREFUSED, "nobody answers at the address")                       \
	X(ENOTCONN, "the connection to the registry is lost")                  \
	X(ECANCELED, "the flow was aborted or cancelled")                      \
	X(EBADMSG, "received data contradicts the protocol")                   \
	X(EMSGSIZE, "a message or tuple is larger than its limit")             \
	X(ENOMEM, "out of memory")                                             \
	X(ENOSPC, "a limit on the number of objects is reached")               \
	X(EMFILE, "the limit on open files is reached")                        \
	X(EACCES, "the peer is not allowed to do this")                        \
	X(EPERM, "the address or operation is refused by policy")              \
	X(ERANGE, "a value is outside its range")                              \
	X(EOVERFLOW, "a result doesn't fit its type")                          \
	X(EPROTO, "the peer speaks another protocol version")                  \
	X(EHOSTUNREACH, "no transport leads to the peer's host")               \
	X(ENODEV, "this host has no RDMA device that can be used")             \
	X(EINTR, "the wait was interrupted, and may be repeated")              \
	X(ENODATA, "tuples were lost, and the flow goes on")                   \
	X(EOPNOTSUPP, "the device, or this version, can't do what this needs") \
	X(ENOMSG, "an event is next")                                          \
	X(ENXIO, "nobody holds the seat")                                      \
	X(ESTALE, "the seat was taken away")                                   \
	X(ESHUTDOWN, "the flow is finished")                                   \
	X(EOWNERDEAD, "the handle belongs to the parent of a forked process")  \
	X(EIO, "a system call failed")

/* The meaning of a (negative) code, for ever valid, or "unknown error". */
DFI_API const char *dfi_strerror(int err);

/*
 * The text of this thread's last failing call, one line: what failed, where,
 * and what to do. "" before the first failure. Valid until the next one.
 */
DFI_API const char *dfi_errmsg(void);

#define DFI_MAX_ERRORS 32 /* distinct ones that a process keeps */

/* An error that calls of this process have returned. */
struct dfi_error_info {
	int32_t code;      /* negative errno value */
	uint32_t reserved; /* 0 */
	uint64_t count;    /* how often, with this text */
	int64_t first_ns;  /* when, since 1970: the first time */
	int64_t last_ns;   /* and the last one */
	char text[256];    /* what dfi_errmsg() said, cut if longer */
};

/*
 * Call fn for each error of flows, endpoints and barriers that this process has
 * met, also when it opened or created them; the last one comes last. A flow's
 * failure counts once a handle. The library keeps DFI_MAX_ERRORS, and forgets
 * the least recent ones. It keeps no misuse (-EINVAL, -EBADF, -E2BIG, -ERANGE,
 * -EBUSY), no -EAGAIN, -EINTR, -EPIPE or -ENODATA, and no -ETIMEDOUT of
 * stall_timeout_ms or dfi_barrier_wait(), unless it ends a stream. Any thread.
 */
DFI_API int dfi_error_list(
    int (*fn)(void *arg, const struct dfi_error_info *info), void *arg);

DFI_END_DECLS

#endif
