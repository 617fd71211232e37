/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory there is. If a program fills more, the kernel kills a
 * process, maybe another one. So programs check before they fill memory.
 */
#ifndef COMMON_MEMORY_H
#define COMMON_MEMORY_H

#include <stdint.h>

struct memory_room {
	uint64_t bytes;  /* UINT64_MAX: unknown */
	char limit[512]; /* the limit's origin, for messages */
};

/*
 * The memory that this machine can give without swapping others out; or, if
 * less, what the process's control groups or strict overcommit leave. All files
 * are read below root, which is "" except in tests.
 */
void memory_room(const char *root, struct memory_room *room);

/*
 * Compare a need with that memory. 0, or -1 after a complaint that ends with
 * the advice.
 */
int memory_check(const char *what, uint64_t need, const char *advice);

/*
 * As memory_check(), for something that grows to an unknown size and has filled
 * this many bytes. Call it at least once a MiB. *checked is 0 at first.
 */
int memory_check_growth(
    uint64_t *checked, uint64_t filled, const char *what, const char *advice);

#endif
