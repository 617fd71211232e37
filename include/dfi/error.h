/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors.
 *
 * Every function that can fail returns an int: 0 or a count on success, a
 * negative errno value on failure. The codes below are all that the library
 * returns; each function's comment names those that are special to it.
 *
 * A failing call also leaves a text for its thread: what failed, where, and
 * what to do. dfi_errmsg() returns it. The library never prints it.
 */
#ifndef DFI_ERROR_H
#define DFI_ERROR_H

#include <errno.h>
#include <stdint.h>
#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The one table of error codes: X(errno name, meaning). dfi_strerror() is made
 * from it.
 */
#define DFI_ERRORS(X)                                                         \
	X(EINVAL, "an argument or attribute is not valid")                    \
	X(EBADF, "the handle was closed before")                              \
	X(E2BIG, "an attribute struct is newer than this library")            \
	X(EPROTOTYPE, "the object is of another kind or schema")              \
	X(EEXIST, "the name or index is taken")                               \
	X(ENOENT, "there is no such object")                                  \
	X(EBUSY, "the object is in use")                                      \
	X(EAGAIN, "the call would have to wait")                              \
	X(ETIMEDOUT, "the deadline passed")                                   \
	X(ECONNRESET, "a peer died or left before the end of the flow")       \
	X(EPIPE, "the target has cancelled: it takes no more tuples")         \
	X(ECONNREFUSED, "nobody answers at the address")                      \
	X(ENOTCONN, "the connection to the registry is lost")                 \
	X(ECANCELED, "the flow was aborted or cancelled")                     \
	X(EBADMSG, "received data contradicts the protocol")                  \
	X(EMSGSIZE, "a message or tuple is larger than its limit")            \
	X(ENOMEM, "out of memory")                                            \
	X(ENOSPC, "a limit on the number of objects is reached")              \
	X(EMFILE, "the limit on open files is reached")                       \
	X(EACCES, "the peer is not allowed to do this")                       \
	X(EPERM, "the address or operation is refused by policy")             \
	X(ERANGE, "a value is outside its range")                             \
	X(EOVERFLOW, "a result doesn't fit its type")                         \
	X(EPROTO, "the peer speaks another protocol version")                 \
	X(EHOSTUNREACH, "no transport leads to the peer's host")              \
	X(ENODEV, "this host has no RDMA device that can be used")            \
	X(EINTR, "the wait was interrupted, and may be repeated")             \
	X(ENODATA, "tuples were lost, and the flow goes on")                  \
	X(EOPNOTSUPP, "the RDMA device can't do what this needs")             \
	X(EOWNERDEAD, "the handle belongs to the parent of a forked process") \
	X(EIO, "a system call failed")

/*
 * The meaning of a code returned by this library, for ever valid; "unknown
 * error" for any other. Takes the value as returned (negative). Any thread.
 */
DFI_API const char *dfi_strerror(int err);

/*
 * What the last failing call of this thread said: what, where and what to do,
 * in one line without a newline. "" if no call failed yet. Valid until the next
 * failing call of the same thread.
 */
DFI_API const char *dfi_errmsg(void);

/* Distinct errors of a process that are kept. */
#define DFI_MAX_ERRORS 32

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
 * Call fn for each error that this process has met, the last one last: failures
 * of flows, of their endpoints and barriers, and of what opens and creates
 * them. A flow's failure counts once for each handle, not with each call that
 * repeats it. Of more than DFI_MAX_ERRORS those are forgotten that were not met
 * for longest. Not kept is what tells how the library was called (-EINVAL,
 * -EBADF, -E2BIG, -ERANGE, -EBUSY), -EAGAIN, -EINTR, -EPIPE, -ENODATA; nor
 * -ETIMEDOUT after a time that the program chose, stall_timeout_ms or that of
 * dfi_barrier_wait(), unless it ends a stream. A non-zero return of fn ends the
 * call, which returns it. info is valid during the call of fn only. Any thread.
 * -EINVAL: fn is NULL. -ENOMEM.
 */
DFI_API int dfi_error_list(
    int (*fn)(void *arg, const struct dfi_error_info *info), void *arg);

#ifdef __cplusplus
}
#endif

#endif
