/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failing thread's error text. The function that first knows the error sets
 * it, once. Its callers pass the code on unchanged.
 */
#ifndef DFI_BASE_ERROR_H
#define DFI_BASE_ERROR_H

/* Room for the longest text; longer ones are cut. */
#define ERROR_TEXT_SIZE 512

#include <dfi/error.h>

/*
 * Record a text for dfi_errmsg() and return err, a negative errno value:
 *	return dfi__fail(-EINVAL, "flow '%s': ...", name);
 */
int dfi__fail(int err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), cold));

/*
 * As dfi__fail(), with a constant text and without formatting, for frequent
 * results such as -EAGAIN.
 */
int dfi__fail_text(int err, const char *text);

/* Put "context: " before the text of an error that a callee has set. */
int dfi__fail_within(int err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), cold));

/*
 * For an error code from a peer: err, or -EBADMSG if this library does not
 * return that code.
 */
int dfi__peer_error(int err);

#endif
