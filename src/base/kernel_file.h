/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the small text files of /proc, /sys and control groups. */
#ifndef DFI_BASE_KERNEL_FILE_H
#define DFI_BASE_KERNEL_FILE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The whole text of a file, NUL-terminated. The caller frees it. NULL: the file
 * can't be read, or there is no memory for its text. Any thread.
 */
char *dfi__kernel_text(const char *path, ...)
    __attribute__((format(printf, 1, 2)));

/* The number at the start of a file. false: there is none, as with "max". */
bool dfi__kernel_number(uint64_t *number, const char *path, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The number in the line that starts with this name and then has a colon or
 * white space, as in meminfo and memory.stat.
 */
bool dfi__kernel_field(const char *text, const char *name, uint64_t *number);

#endif
