/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory there is: what does not fit ends with a process killed by the
 * kernel, maybe another one. So programs look before they fill it.
 */
#ifndef COMMON_MEMORY_H
#define COMMON_MEMORY_H

#include <stdint.h>

struct memory_room {
	uint64_t bytes;  /* UINT64_MAX: nobody tells */
	char limit[512]; /* who sets the limit, for messages */
};

/*
 * What this machine can give without driving others out, or, if that is less,
 * what the limits of this process's control groups or strict overcommit leave.
 * All files are read below root, which is "" except in tests.
 */
void memory_room(const char *root, struct memory_room *room);

/*
 * Compare what something needs with that. 0, or -1 after a complaint, which
 * ends with the advice.
 */
int memory_check(const char *what, uint64_t need, const char *advice);

/*
 * The same for something that grows step by step to a size that nobody knows
 * before, and has filled so many bytes. Call it at least once a MiB.
 * *checked is 0 at first.
 */
int memory_check_growth(
    uint64_t *checked, uint64_t filled, const char *what, const char *advice);

#endif
