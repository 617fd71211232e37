/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXAMPLES_CSV_TABLE_H
#define EXAMPLES_CSV_TABLE_H

#include <stddef.h>

/*
 * Make an array large enough for n members, at least twice as large as it was.
 * NULL: no memory; then the array is unchanged.
 */
void *csv_grow(void *array, size_t *capacity, size_t n, size_t size);

#endif
