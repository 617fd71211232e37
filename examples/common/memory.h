/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory there is: memory is written before the join, so one that does
 * not fit would end with a process killed by the kernel, maybe another one.
 */
#ifndef RADIX_JOIN_MEMORY_H
#define RADIX_JOIN_MEMORY_H

#include <stdint.h>

struct memory_room {
	uint64_t bytes;  /* UINT64_MAX: nobody tells */
	char limit[512]; /* who sets the limit, for messages */
};

/*
 * What this machine can give without driving others out, or, if that is less,
 * what the limits of this process's control groups leave.
 */
void memory_room(struct memory_room *room);

/*
 * Compare what something needs with that. 0, or -1 after a complaint, which
 * ends with the advice.
 */
int memory_check(const char *what, uint64_t need, const char *advice);

#endif
