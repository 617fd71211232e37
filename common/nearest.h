/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions for misspelt names. */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <stddef.h>

/*
 * Counts the differences between two names: characters that were inserted, left
 * out, replaced, or swapped with a neighbour. Case does not matter. Only the
 * first 63 bytes count.
 */
unsigned name_distance(
    const char *a, size_t a_size, const char *b, size_t b_size);

/*
 * Returns the nearest of a list of names, which ends with NULL and is not
 * empty.
 */
const char *nearest_name(const char *name, const char *const *names);

#endif
