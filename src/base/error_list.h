/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime errors that this process has met: dfi_error_list(). */
#ifndef DFI_BASE_ERROR_LIST_H
#define DFI_BASE_ERROR_LIST_H

/*
 * Keep the error that a call is about to return, whose text was just set, if it
 * is one that happens to a program; not those that say how the program uses the
 * library, or that it meets all the time. Returns err, which may be 0 or a
 * count. Any thread.
 */
int dfi__error_keep(int err);

#endif
