/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong command lines of programs that use argp. Typed text never controls the
 * terminal.
 */
#ifndef COMMON_USAGE_H
#define COMMON_USAGE_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Like argp_error(), which ends the process, but escapes control bytes and
 * bytes that are not UTF-8 as complain() does.
 */
void usage_error(const struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Call before argp_parse(): complain about the first option of a command line
 * that the parser and its children do not have. argp neither suggests the
 * nearest option nor escapes typed text. Unambiguous abbreviations are
 * accepted. Returns 0, or -1 after a complaint.
 */
int options_check(const struct argp *argp, char *const *argv);

/*
 * Read a number from min to max from the whole text: decimal digits, without
 * blanks and signs. false, and *value unchanged: the text is not such a number.
 */
bool number_read(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/*
 * Returns the value of an option as such a number; other texts end the process.
 */
uint64_t option_number(const struct argp_state *state, const char *option,
    const char *text, uint64_t min, uint64_t max);

/* The same for numbers with a fraction or exponent; min is 0 or more. */
double option_real(const struct argp_state *state, const char *option,
    const char *text, double min, double max);

#endif
