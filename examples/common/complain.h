/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXAMPLES_COMPLAIN_H
#define EXAMPLES_COMPLAIN_H

/* Print "PROGRAM: ..." with a newline on stderr. Returns -1. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
