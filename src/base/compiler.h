/* SPDX-License-Identifier: Apache-2.0 */
/* Hints to the compiler. */
#ifndef DFI_BASE_COMPILER_H
#define DFI_BASE_COMPILER_H

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define always_inline inline __attribute__((always_inline))
/* A function that is called rarely: it adds nothing to its callers. */
#define rarely __attribute__((noinline, cold))
#define maybe_unused __attribute__((unused)) /* used only in debug builds */

#endif
