/* SPDX-License-Identifier: Apache-2.0 */
/* The limit on how many mappings a process may have (vm.max_map_count). */
#ifndef DFI_BASE_MAPS_H
#define DFI_BASE_MAPS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether mmap() found no room for one more, as far as /proc tells; errno said
 * ENOMEM then, as it does without memory. *limit is how many there may be.
 */
bool dfi__maps_are_full(unsigned long *limit);

/*
 * Fail for mmap() of size bytes, or madvise() right after it, by errno.
 * -ENOMEM: there is no room; the text names the limit that was met, and its
 * value. -EIO: the call is forbidden. The rest says who wanted them.
 */
int dfi__fail_map(uint64_t size, const char *who, ...)
    __attribute__((format(printf, 2, 3)));

#endif
