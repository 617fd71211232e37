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
#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The one table of error codes: X(errno name, meaning). dfi_strerror() and
 * the documentation are made from it.
 */
#define DFI_ERRORS(X)                                                         \
	X(EINVAL, "an argument or attribute is not valid")                    \
	X(E2BIG, "an attribute struct is newer than this library")            \
	X(EPROTOTYPE, "the object is of another kind or schema")              \
	X(EEXIST, "the name or index is taken")                               \
	X(ENOENT, "there is no such object")                                  \
	X(EBUSY, "the object is in use")                                      \
	X(EAGAIN, "the call would have to wait")                              \
	X(ETIMEDOUT, "the deadline passed")                                   \
	X(ECONNRESET, "a peer died or left before the end of the flow")       \
	X(ECONNREFUSED, "nobody answers at the address")                      \
	X(ENOTCONN, "the connection to the registry is lost")                 \
	X(ECANCELED, "the flow was aborted by a peer")                        \
	X(EBADMSG, "received data contradicts the protocol")                  \
	X(EMSGSIZE, "a message or tuple is larger than its limit")            \
	X(ENOMEM, "out of memory")                                            \
	X(ENOSPC, "a limit on the number of objects is reached")              \
	X(EMFILE, "the limit on open files is reached")                       \
	X(EACCES, "the peer is not allowed to do this")                       \
	X(EPERM, "the address or operation is refused by policy")             \
	X(ERANGE, "a value is outside its range")                             \
	X(EPROTO, "the peer speaks another protocol version")                 \
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

#ifdef __cplusplus
}
#endif

#endif
