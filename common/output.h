/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard output that loses nothing in silence. Programs print with printf()
 * and the like and need no checks of their own: if not all can be written, the
 * program says why on stderr and exits with status 1 at once. If the reader of
 * a pipe has left, it ends as by SIGPIPE, without a text. A non-blocking
 * standard output is waited for.
 */
#ifndef COMMON_OUTPUT_H
#define COMMON_OUTPUT_H

/*
 * Check standard output from here on, up to and at exit(). The first call of
 * main(): options that print (--help) count as well. Descriptors 0, 1 and 2
 * are taken if they are closed, so that no file of the program gets them.
 */
void output_open(void);

/* Write out what was printed: before a long wait, and before a fork. */
void output_flush(void);

/* End as by SIGPIPE, also where that was ignored when the program began. */
void output_end_quietly(void);

#endif
