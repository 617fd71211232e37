/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a program passes to the processes it starts. */
#ifndef COMMON_MEMORY_FILE_H
#define COMMON_MEMORY_FILE_H

/*
 * memfd_create(2) of an empty file that is closed on exec, can be sealed and is
 * never executed. The descriptor, or -1 after a complaint; what says what the
 * memory is for.
 */
int memory_file_open(const char *name, const char *what);

/*
 * Complain that an empty file could not get its size, with errno. Returns -1.
 */
int memory_file_complain(const char *what, unsigned long size);

#endif
