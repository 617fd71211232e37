/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory this process can still get without swapping others out, as
 * far as the kernel tells.
 */
#ifndef DFI_BASE_MEMORY_H
#define DFI_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory_room {
	uint64_t bytes;  /* UINT64_MAX: unknown */
	char limit[320]; /* the limit that sets bytes, with its value; or "" */
};

/*
 * The smallest of: what the machine has (MemAvailable), what strict overcommit
 * leaves, and what the process's control groups leave (versions 1 and 2, up to
 * their root). All files are read below root, which is "" except in tests.
 */
void dfi__memory_room(const char *root, struct memory_room *room);

/*
 * How much address space this process can still map, and its limit (RLIMIT_AS).
 * Both are UINT64_MAX if there is none.
 */
uint64_t dfi__memory_address_room(uint64_t *limit);

/*
 * Likewise for private writable memory (RLIMIT_DATA): stacks and malloc(), but
 * no shared memory.
 */
uint64_t dfi__memory_data_room(uint64_t *limit);

/*
 * As dfi__memory_room(), for huge pages of 2 MiB: those that are reserved and
 * free, those that the system may still reserve by itself, and what control
 * groups leave of them.
 */
void dfi__memory_huge_room(const char *root, struct memory_room *room);

/*
 * How much memory this process can still pin for devices, and its limit
 * (RLIMIT_MEMLOCK). Both are UINT64_MAX if there is none, as with CAP_IPC_LOCK.
 */
uint64_t dfi__memory_lock_room(uint64_t *limit);

/*
 * Keep ring memory out of forked children, and, unless dump, out of core dumps.
 * The memory is mapped, in whole pages.
 */
void dfi__memory_keep_out(void *at, size_t size, bool dump);

#endif
