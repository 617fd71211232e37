/* SPDX-License-Identifier: Apache-2.0 */
/* The limit on how many mappings a process may have (vm.max_map_count). */
#ifndef DFI_BASE_MAPS_H
#define DFI_BASE_MAPS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether mmap() failed because the process has too many mappings, as far as
 * /proc tells. errno was ENOMEM then, as it is without memory. *limit is the
 * limit.
 */
bool dfi__maps_are_full(unsigned long *limit);

/*
 * Set the error for mmap() of size bytes, or madvise() right after it, by
 * errno. -ENOMEM: there is no room; the text has the limit and its value. -EIO:
 * the call is forbidden. The format and its arguments name what needs the
 * memory.
 */
int dfi__fail_map(uint64_t size, const char *who, ...)
    __attribute__((format(printf, 2, 3)));

#endif
