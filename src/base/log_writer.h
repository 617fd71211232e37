/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes log lines to stderr, which may be a full pipe that nobody reads or a
 * stopped terminal: no thread waits for it but one that does nothing else.
 */
#ifndef DFI_BASE_LOG_WRITER_H
#define DFI_BASE_LOG_WRITER_H

#include <stddef.h>

/*
 * Write a line that ends in a newline and has at most LOG_LINE_SIZE bytes. The
 * application's threads return once it is written, so that their own writes
 * come after it, but wait for that no longer than LOG_WAIT_MS, once until
 * stderr goes on. Threads of the library do not wait. What stderr does not take
 * is kept as far as there is room; then lines are left out, and counted.
 */
#define LOG_LINE_SIZE 600
#define LOG_WAIT_MS 100
void dfi__log_write(const char *line, size_t length);

#endif
