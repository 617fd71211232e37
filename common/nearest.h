/* SPDX-License-Identifier: Apache-2.0 */
/* Misspelt names: which one was meant. */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <stddef.h>

/*
 * How many characters differ between two names: inserted, left out, replaced,
 * or changed places with their neighbour. Small and capital letters are the
 * same. Only the first 63 bytes count.
 */
unsigned name_distance(
    const char *a, size_t a_size, const char *b, size_t b_size);

/* The nearest of a list of names, which ends with NULL and has one at least. */
const char *nearest_name(const char *name, const char *const *names);

#endif
