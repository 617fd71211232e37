/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as texts: digits with a sign, a decimal point and an exponent, no
 * spaces, no names, no other base. Integers stay integers to 64 bits.
 */
#ifndef AGGREGATE_NUMBER_H
#define AGGREGATE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "../common/csv_input.h"

enum number_kind {
	NUMBER_NONE = 0, /* no number */
	NUMBER_SIGNED,   /* an integer, in int64 */
	NUMBER_UNSIGNED, /* an integer above that, in uint64 */
	NUMBER_LONG,     /* an integer of more than 64 bits: its real */
	NUMBER_REAL,     /* with a point or an exponent */
};

/* How a text fits a real, a double. */
enum real_fit {
	REAL_FITS = 0, /* rounded as reals are */
	REAL_COARSE,   /* a whole number, which a real can't hold exactly */
	REAL_TOO_LARGE,
	REAL_TOO_SMALL, /* not zero, and rounded to zero */
	REAL_NO_MEMORY,
};

/* The kind of a text. *word: the value of NUMBER_SIGNED and NUMBER_UNSIGNED. */
enum number_kind number_kind(struct text text, uint64_t *word);

/* The real that a number of any kind is nearest to. */
enum real_fit number_real(struct text text, double *real);

/*
 * The shortest text that reads as this real again, and has a point or an
 * exponent.
 */
#define REAL_SIZE 32
void real_text(double real, char text[REAL_SIZE]);

/*
 * With 15 digits, as SQL shells print it: for values that are rounded anyway.
 */
void real_text_short(double real, char text[REAL_SIZE]);

#endif
