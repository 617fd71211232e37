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
	char limit[192]; /* what says so, for texts; "" if nothing does */
};

/*
 * The least of what the machine has (MemAvailable) and of what the process's
 * control groups leave (of version 1 and 2, up to their root). Files are looked
 * for under root, which is "" but in tests.
 */
void dfi__memory_room(const char *root, struct memory_room *room);

/*
 * How much address space this process can still map, and the limit of all
 * (RLIMIT_AS). UINT64_MAX in both if there is none.
 */
uint64_t dfi__memory_address_room(uint64_t *limit);

/*
 * How much of the memory that the system has reserved for huge pages of 2 MiB
 * nobody has yet, with what it may still reserve by itself. UINT64_MAX: that is
 * not known. root: as above.
 */
uint64_t dfi__memory_huge_room(const char *root);

/*
 * How much memory this process can still have pinned for devices, and the limit
 * of all (RLIMIT_MEMLOCK). UINT64_MAX in both if there is none, as for who may
 * lock any (CAP_IPC_LOCK).
 */
uint64_t dfi__memory_lock_room(uint64_t *limit);

/*
 * The number in the line of a text that starts with this name, then a colon or
 * white space. For files such as meminfo and memory.stat.
 */
bool dfi__memory_field(const char *text, const char *name, uint64_t *number);

/*
 * The path of a process's control group, without a slash at the end, from the
 * text of /proc/self/cgroup; controller is "memory", or "" for version 2.
 */
bool dfi__memory_group(
    const char *text, const char *controller, char *path, size_t size);

#endif
