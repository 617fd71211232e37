/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines. They go to stderr or to the application's callback, never to
 * stdout. The default level is warn (DFI_LOG=error|warn|info|debug).
 */
#ifndef DFI_BASE_LOG_H
#define DFI_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <dfi/log.h>

/* Room for the longest line; longer ones are cut. */
#define LOG_TEXT_SIZE 512

void dfi__log(enum dfi_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), cold));

/* The state for one kind of line. One thread uses it. Zero it at first. */
struct log_throttle {
	int64_t quiet_until;
	uint64_t n_unsaid;
};

/*
 * For lines that a peer can provoke at any rate: logs one a minute, with the
 * number of lines left out. Those become lines of level debug.
 */
void dfi__log_seldom(struct log_throttle *throttle, enum dfi_log_level level,
    const char *fmt, ...) __attribute__((format(printf, 3, 4), cold));

/*
 * Whether dfi__log_seldom() would log a line now. If not, the line is counted.
 * Use it when making the line would cost too much.
 */
bool dfi__log_is_due(struct log_throttle *throttle);

#endif
