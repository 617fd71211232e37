/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard output that loses nothing silently. Programs print with printf() and
 * the like and need no checks: if a write fails, the program says why on stderr
 * and exits with status 1 at once. If the reader of a pipe has left, the
 * program ends as by SIGPIPE, without a text. Writes to a non-blocking standard
 * output wait.
 */
#ifndef COMMON_OUTPUT_H
#define COMMON_OUTPUT_H

/*
 * Check standard output from here on, including exit(). main() calls it first,
 * as options that print (--help) also count. It opens descriptors 0, 1 and 2 if
 * they are closed, so that no file of the program gets them.
 */
void output_open(void);

/* Write buffered output: call it before a long wait, and before a fork. */
void output_flush(void);

/* End as by SIGPIPE, even if the signal was ignored at the start. */
void output_end_quietly(void);

#endif
