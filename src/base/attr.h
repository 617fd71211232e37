/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size-versioned attribute structs: the caller's struct starts with its size as
 * its compiler knew it, which may be less or more than ours.
 */
#ifndef DFI_BASE_ATTR_H
#define DFI_BASE_ATTR_H

#include <stddef.h>

/*
 * Copy the caller's struct src into dst of size bytes; members that it doesn't
 * have become zero, as does all of dst if src is NULL. what names the struct in
 * error texts. -EINVAL: the size member is zero. -E2BIG: a member that we don't
 * know is not zero.
 */
int dfi__attr_load(void *dst, size_t size, const void *src, const char *what);

#endif
