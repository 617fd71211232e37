/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the library's log lines go. By default warnings and errors go to
 * stderr; DFI_LOG=error|warn|info|debug sets the level. The library writes
 * nothing to stdout. examples/small/log.c takes the lines.
 *
 * A stderr that takes nothing (a full pipe, a stopped terminal) blocks no call.
 * A thread named "dfi-log" writes the lines, and ends after a second without
 * one. A call waits 100 ms at most for its own line, once until stderr goes on;
 * so does the end of the process. 64 KiB of lines wait; others are counted.
 *
 * Level info has a line for each endpoint that is opened (transports, geometry,
 * way of waiting), and for each long stall: one wait of a second for the same
 * peer. docs/design.md ("Counters") says which waits count.
 */
#ifndef DFI_LOG_H
#define DFI_LOG_H

#include <dfi/export.h>

DFI_BEGIN_DECLS

enum dfi_log_level {
	DFI_LOG_ERROR = 1,
	DFI_LOG_WARN,
	DFI_LOG_INFO,
	DFI_LOG_DEBUG,
};

/*
 * Send lines up to level to fn instead of stderr, for the whole process; fn
 * NULL means stderr again. A line has no newline and is valid during the call
 * only. Any thread calls fn, control threads among them, one at a time. fn must
 * not call this library and must not wait: it would delay calls, registries and
 * leases. Any thread.
 */
DFI_API void dfi_log_set(enum dfi_log_level level,
    void (*fn)(void *arg, enum dfi_log_level level, const char *line),
    void *arg);

DFI_END_DECLS

#endif
