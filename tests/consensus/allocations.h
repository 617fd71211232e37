/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often the cores allocate. The linker sends the program's calls of
 * malloc(), calloc() and realloc() here (--wrap); those of shared libraries go
 * on as they are.
 */
#ifndef TESTS_CONSENSUS_ALLOCATIONS_H
#define TESTS_CONSENSUS_ALLOCATIONS_H

#include <stddef.h>

extern unsigned long allocations;

/* Of the test's own network: zeros, which are not counted. */
void *uncounted(size_t size);

#endif
