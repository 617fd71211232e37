/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of handles. It is wiped in a forked child, so that a handle that the
 * child inherits is seen to be dead (its magic is zero, its lanes are empty),
 * and the child can't write into the parent's rings through it.
 */
#ifndef DFI_FLOWS_HANDLE_H
#define DFI_FLOWS_HANDLE_H

#include <stddef.h>
#include <stdint.h>
#include "../base/compiler.h"
#include "../base/error.h"

#define CONTEXT_MAGIC UINT32_C(0xdf1c0001)
#define SOURCE_MAGIC UINT32_C(0xdf1c0002)
#define TARGET_MAGIC UINT32_C(0xdf1c0003)

/* Zeroed, page-aligned memory; NULL without. */
void *dfi__handle_alloc(size_t size);
void dfi__handle_free(void *handle, size_t size);

/* -EINVAL for NULL, -EOWNERDEAD in a forked child. */
int dfi__handle_check_slow(const void *handle, uint32_t magic);

static inline int handle_check(
    const void *handle, const uint32_t *magic, uint32_t expected)
{
	if (likely(handle && *magic == expected))
		return 0;
	return dfi__handle_check_slow(handle, handle ? *magic : 0);
}

#endif
