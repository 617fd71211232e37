/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime errors that this process has met: dfi_error_list(). */
#ifndef DFI_BASE_ERROR_LIST_H
#define DFI_BASE_ERROR_LIST_H

/*
 * Keep an error that a call is about to return; its text was just set. Errors
 * of wrong usage, and those that a program meets regularly, are not kept.
 * Returns err, which may be 0 or a count. Any thread.
 */
int dfi__error_keep(int err);

#endif
