/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error messages of programs: one line on stderr, in one write, so that lines
 * of several processes do not mix. Data in a message never drives the terminal.
 */
#ifndef COMMON_COMPLAIN_H
#define COMMON_COMPLAIN_H

#include <stddef.h>

/*
 * Print "PROGRAM: ..." and a newline on stderr. Control bytes and bytes that
 * are not UTF-8 appear as \n, \t, \xNN. A text above 4095 bytes ends in "...".
 * Returns -1.
 */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Copy text with such bytes escaped, for other output that shows data. Text
 * that does not fit into size bytes (at least 4) is cut and ends in "...".
 * Returns to.
 */
char *escape_text(char *to, size_t size, const char *text);

/* Write all bytes to a file, which may be non-blocking. 0, or -1 and errno. */
int write_all(int fd, const void *data, size_t size);

#endif
