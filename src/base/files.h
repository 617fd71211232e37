/* SPDX-License-Identifier: Apache-2.0 */
/* What to say when the system gives no file descriptor. */
#ifndef DFI_BASE_FILES_H
#define DFI_BASE_FILES_H

/*
 * Record what errno value err of a call means for who needs n descriptors in
 * all, and return it: -EMFILE, with need, limit and remedy, for the process's
 * limit and for the system's; -ENOMEM; else -EIO.
 */
int dfi__fail_files(int err, unsigned n, const char *call, const char *who, ...)
    __attribute__((format(printf, 4, 5), cold));

#endif
