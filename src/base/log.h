/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines, to stderr or to the callback that the application gave; never to
 * stdout. Default: warnings and errors only (DFI_LOG=error|warn|info|debug).
 */
#ifndef DFI_BASE_LOG_H
#define DFI_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <dfi/log.h>

void dfi__log(enum dfi_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), cold));

/* Of one reason for lines; zeroed at first, and one thread's. */
struct log_throttle {
	int64_t quiet_until;
	uint64_t n_unsaid;
};

/*
 * For lines that somebody else can provoke as often as he likes: one a minute,
 * which says how many were left out. Those are lines of level debug.
 */
void dfi__log_seldom(struct log_throttle *throttle, enum dfi_log_level level,
    const char *fmt, ...) __attribute__((format(printf, 3, 4), cold));

/*
 * Whether dfi__log_seldom() would say a line now; else it is counted. For what
 * strangers provoke so often that making the line counts.
 */
bool dfi__log_is_due(struct log_throttle *throttle);

#endif
