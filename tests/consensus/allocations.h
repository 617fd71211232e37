/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the allocations of the cores. The linker redirects the program's calls
 * of malloc(), calloc() and realloc() to this file (--wrap), but not those of
 * shared libraries.
 */
#ifndef TESTS_CONSENSUS_ALLOCATIONS_H
#define TESTS_CONSENSUS_ALLOCATIONS_H

#include <stddef.h>

extern unsigned long allocations;

/* Zeroed memory of the test's network, which does not count. */
void *uncounted(size_t size);

#endif
