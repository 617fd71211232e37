/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines, to stderr or to the callback that the application gave; never to
 * stdout. Default: warnings and errors only (DFI_LOG=error|warn|info|debug).
 */
#ifndef DFI_BASE_LOG_H
#define DFI_BASE_LOG_H

#include <dfi/log.h>

void dfi__log(enum dfi_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), cold));

#endif
