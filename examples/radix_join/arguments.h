/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of command line options. A wrong one ends the process.
 */
#ifndef RADIX_JOIN_ARGUMENTS_H
#define RADIX_JOIN_ARGUMENTS_H

#include <argp.h>
#include <stdint.h>
#include "options.h"

/* A number from min to max; the suffixes K, M and G are powers of 1024. */
uint64_t argument_number(struct argp_state *state, const char *option,
    const char *text, uint64_t min, uint64_t max);

/* A number from 0 to max. */
double argument_real(
    struct argp_state *state, const char *option, const char *text, double max);

/*
 * Up to max characters of [A-Za-z0-9._:-], which the names of flows are made
 * of.
 */
const char *argument_name(
    struct argp_state *state, const char *option, const char *text, size_t max);

/* "inner:name" or "outer:name"; the name is the caller's to free. */
struct column_name argument_column(
    struct argp_state *state, const char *option, const char *text);

/* Append a list of such columns, separated by commas, to the options'. */
void argument_columns(
    struct argp_state *state, struct options *options, const char *text);

#endif
