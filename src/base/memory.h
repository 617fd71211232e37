/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory this process can still get without others being driven out,
 * as far as the kernel tells.
 */
#ifndef DFI_BASE_MEMORY_H
#define DFI_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory_room {
	uint64_t bytes;  /* UINT64_MAX: nothing is known */
	char limit[320]; /* what says so, with its value; "" if nothing does */
};

/*
 * The least of what the machine has (MemAvailable), of what the kernel still
 * promises where it promises no more than there is, and of what the process's
 * control groups leave (of version 1 and 2, up to their root). All files are
 * read below root, which is "" except in tests.
 */
void dfi__memory_room(const char *root, struct memory_room *room);

/*
 * How much address space this process can still map, and the limit of all
 * (RLIMIT_AS). UINT64_MAX in both if there is none.
 */
uint64_t dfi__memory_address_room(uint64_t *limit);

/*
 * The same of private memory that can be written (RLIMIT_DATA): stacks and what
 * malloc() gives, but no shared memory.
 */
uint64_t dfi__memory_data_room(uint64_t *limit);

/*
 * As dfi__memory_room(), of huge pages of 2 MiB: those that the system has
 * reserved and nobody has yet, those that it may still reserve by itself, and
 * what control groups leave of them.
 */
void dfi__memory_huge_room(const char *root, struct memory_room *room);

/*
 * How much memory this process can still have pinned for devices, and the limit
 * of all (RLIMIT_MEMLOCK). UINT64_MAX in both if there is none, as for who may
 * lock any (CAP_IPC_LOCK).
 */
uint64_t dfi__memory_lock_room(uint64_t *limit);

/*
 * Keep memory of rings, which is mapped and whole pages, out of the children
 * that this process forks, and out of core dumps unless dump.
 */
void dfi__memory_keep_out(void *at, size_t size, bool dump);

#endif
