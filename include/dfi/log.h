/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the library's log lines go. Default: stderr, warnings and errors only;
 * the environment variable DFI_LOG=error|warn|info|debug sets the level.
 * Nothing is ever written to stdout. examples/small/log.c takes the lines.
 *
 * A stderr that takes nothing (a full pipe, a stopped terminal) holds no call
 * and no control thread up. A thread named "dfi-log" writes the lines, and ends
 * when there was none for a second. A call waits for its own line, so that what
 * the application writes to stderr comes after it, but 100 ms at most, once
 * until stderr goes on. Up to 64 KiB of lines wait; the others are left out,
 * and their number is logged at their place. When the process ends, the last
 * lines have 100 ms.
 *
 * At level info, each endpoint that is opened has a line with its transports,
 * geometry and way of waiting, and so has one that waits for the same peer for
 * a second: once for each such stall, with flow, endpoint and process of the
 * peer, and if the call blocks, when it goes on. If that process is known to be
 * stopped (by SIGSTOP or a debugger, on the same host), this is a warning. Of a
 * process on another host nobody here can tell: its device goes on answering.
 * So the line remains one of level info; the stall is counted as any other
 * (long_stalls in source.h and target.h), and nothing is lost when the process
 * goes on, unless a lease has ended (context.h). What is seen are waits of
 * blocking calls and of groups, and those for a descriptor of a source, target
 * or group, as long as it is used as it is meant.
 */
#ifndef DFI_LOG_H
#define DFI_LOG_H

#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dfi_log_level {
	DFI_LOG_ERROR = 1,
	DFI_LOG_WARN,
	DFI_LOG_INFO,
	DFI_LOG_DEBUG,
};

/*
 * Send lines up to level to fn instead of stderr; fn NULL means stderr again.
 * The line has no newline and is valid during the call only. fn is called from
 * any thread, control threads among them, one at a time. It must not call this
 * library, and must not wait: what it holds up are calls, registries and
 * leases. Affects the whole process. Any thread.
 */
DFI_API void dfi_log_set(enum dfi_log_level level,
    void (*fn)(void *arg, enum dfi_log_level level, const char *line),
    void *arg);

#ifdef __cplusplus
}
#endif

#endif
