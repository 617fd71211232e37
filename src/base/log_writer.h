/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes log lines to stderr, which may be a full pipe without a reader or a
 * stopped terminal. Only a thread that does nothing else waits for it.
 */
#ifndef DFI_BASE_LOG_WRITER_H
#define DFI_BASE_LOG_WRITER_H

#include <stddef.h>

/*
 * Write a line that ends in a newline and has at most LOG_LINE_SIZE bytes.
 * Threads of the application return once the line is written, so that their own
 * writes come after it. They wait for at most LOG_WAIT_MS, and not again until
 * stderr takes data. Threads of the library do not wait. Lines that stderr does
 * not take are kept while there is room; then they are left out and counted.
 */
#define LOG_LINE_SIZE 600
#define LOG_WAIT_MS 100
void dfi__log_write(const char *line, size_t length);

#endif
