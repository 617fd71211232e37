/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A history: what clients asked of a store of registers, when, and what they
 * were told. As a file, it is one operation a line, of eight words:
 *
 *     OP KEY INVOKED RETURNED RESULT VALUE EXPECTED SEEN
 *
 *     put    k1 100 150 ok        a - -
 *     get    k1 160 170 ok        - - a
 *     cas    k1 180 190 ok        b a -
 *     cas    k1 200 210 different c a b
 *     delete k1 220 ?   ?         - - -
 *     get    k1 230 240 absent    - - -
 *
 * INVOKED and RETURNED are times of one clock; operations whose times touch are
 * concurrent. VALUE is what put and cas write, EXPECTED what cas compares with
 * (-: that there is no value), SEEN what get, or a cas that failed, was told
 * (?: nothing). RESULT is ok, absent (there is no such key), different (cas),
 * or
 * ?, where the outcome is unknown: then the operation may take effect at any
 * time after INVOKED, or never. What follows a # is a comment.
 */
#ifndef LINEARIZABILITY_HISTORY_H
#define LINEARIZABILITY_HISTORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum lin_kind {
	LIN_GET,
	LIN_PUT,
	LIN_DELETE,
	LIN_CAS
};

enum lin_result {
	LIN_UNKNOWN, /* may have been done, may yet be, or never */
	LIN_DONE,
	LIN_FAILED, /* get, delete: no such key; cas: another value, or none */
};

/* Values are numbers. */
#define LIN_ABSENT UINT64_C(0) /* no value */
#define LIN_ANY UINT64_MAX     /* seen: the client was not told */

struct lin_op {
	uint64_t key;
	uint64_t invoked, returned; /* returned: not of unknown outcomes */
	uint64_t value;             /* put, cas: what it writes */
	uint64_t expected;          /* cas */
	uint64_t seen;              /* get; a cas that failed */
	uint8_t kind;               /* enum lin_kind */
	uint8_t result;             /* enum lin_result */
};

struct lin_texts;

struct lin_history {
	struct lin_op *ops;
	size_t n, capacity;
	struct lin_texts *texts; /* of keys and values that were read */
};

/* -ENOMEM. */
int lin_add(struct lin_history *history, const struct lin_op *op);

/*
 * Read a file to its end. -EINVAL: a line is wrong; what and where goes to
 * stderr, with the file's name. -EIO, -ENOMEM.
 */
int lin_read(struct lin_history *history, FILE *file, const char *name);

/* The text of a key or value that was read, or its number: valid for a while.
 */
const char *lin_text(const struct lin_history *history, uint64_t value);

/* One operation as a line, without its end. */
void lin_print(
    const struct lin_history *history, const struct lin_op *op, FILE *file);

/* Free what it holds: it is then empty. */
void lin_free(struct lin_history *history);

#endif
