/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a program passes to the processes it starts. */
#ifndef COMMON_MEMORY_FILE_H
#define COMMON_MEMORY_FILE_H

/*
 * Make an empty file with memfd_create(2) that is closed on exec, can be sealed
 * and is never executed. Returns the descriptor, or -1 after a complaint; what
 * names the purpose of the memory.
 */
int memory_file_open(const char *name, const char *what);

/* Complain that an empty file could not be enlarged, with errno. Returns -1. */
int memory_file_complain(const char *what, unsigned long size);

#endif
