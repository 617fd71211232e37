/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A history: the requests of clients to a store of registers, with their times
 * and answers. A file has one operation a line, with eight words:
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
 * INVOKED and RETURNED are times of one clock. Operations whose times touch are
 * concurrent. put and cas write VALUE. cas compares with EXPECTED (-: no
 * value). get, and a cas that failed, return SEEN (?: nothing). RESULT is ok,
 * absent (there is no such key), different (cas) or ?, for an unknown outcome:
 * the operation may take effect at any time after INVOKED, or never. A # begins
 * a comment.
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
	LIN_UNKNOWN, /* may be done, now or later, or never */
	LIN_DONE,
	LIN_FAILED, /* get, delete: no such key; cas: another value, or none */
};

/* Values are numbers. */
#define LIN_ABSENT UINT64_C(0) /* no value */
#define LIN_ANY UINT64_MAX     /* seen: unknown to the client */

struct lin_op {
	uint64_t key;
	uint64_t invoked, returned; /* returned: if the outcome is known */
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
	struct lin_texts *texts; /* of the keys and values read */
};

/* -ENOMEM. */
int lin_add(struct lin_history *history, const struct lin_op *op);

/*
 * Read a file to its end. -EINVAL: a line is wrong; stderr gets the file's
 * name, the line and the reason. -EIO, -ENOMEM.
 */
int lin_read(struct lin_history *history, FILE *file, const char *name);

/*
 * The text of a key or value that was read, or its number. Valid for some
 * calls.
 */
const char *lin_text(const struct lin_history *history, uint64_t value);

/* Print one operation as a line, without the newline. */
void lin_print(
    const struct lin_history *history, const struct lin_op *op, FILE *file);

/* Free its contents, which leaves it empty. */
void lin_free(struct lin_history *history);

#endif
