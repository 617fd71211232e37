/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size-versioned attribute structs: the caller's struct starts with its size at
 * the caller's compile time, which may differ from ours.
 */
#ifndef DFI_BASE_ATTR_H
#define DFI_BASE_ATTR_H

#include <stddef.h>

/*
 * Copy the caller's struct src into dst of size bytes. Members that src lacks
 * become zero; if src is NULL, all of dst does. what names the struct in error
 * texts. -EINVAL: the size member is zero. -E2BIG: a member unknown to this
 * library is not zero.
 */
int dfi__attr_load(void *dst, size_t size, const void *src, const char *what);

#endif
