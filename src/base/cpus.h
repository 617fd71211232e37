/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of processors, and lists of them as users write them: 0-3,8. */
#ifndef DFI_BASE_CPUS_H
#define DFI_BASE_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* The most that Linux can be built for. */
#define CPUS_MAX 8192

struct cpus {
	cpu_set_t sets[CPUS_MAX / CPU_SETSIZE];
};

/*
 * 0, or -EINVAL without a text: it is no list, or has a number beyond CPUS_MAX.
 */
int dfi__cpus_parse(const char *list, struct cpus *cpus);

/* Write a set as a list. A list that does not fit ends in "...". */
void dfi__cpus_format(const struct cpus *cpus, char *list, size_t size);

/*
 * Read the processors of a setting. -EINVAL: it is no list, or names a
 * processor that is not online; the text lists those that are.
 */
int dfi__cpus_read(const char *variable, const char *list, struct cpus *cpus);

/* The processors of a thread (0: the caller). false: unknown. */
bool dfi__cpus_of_thread(int tid, struct cpus *cpus);

#endif
