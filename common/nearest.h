/* SPDX-License-Identifier: Apache-2.0 */
/* Misspelt names: which one was meant. */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <argp.h>
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

/*
 * Before argp_parse(), which only says that there is no such option: complain
 * of the first long option of a command line that the parser and its children
 * do not have, and name the nearest. Abbreviations are fine. 0, or -1 after a
 * complaint.
 */
int options_check(const struct argp *argp, char *const *argv);

#endif
