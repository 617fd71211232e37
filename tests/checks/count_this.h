/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that instructions.sh runs under callgrind, which counts the
 * instructions of count_this(), writes their number when count_ends() returns,
 * and begins again. It finds the two by their names. Each way to move tuples
 * runs three times: to warm up, some rounds, and twice as many. The difference
 * of the last two is without what happens only once.
 */
#ifndef DFI_TESTS_CHECKS_COUNT_THIS_H
#define DFI_TESTS_CHECKS_COUNT_THIS_H

#include <gnu/libc-version.h>
#include <stdint.h>
#include <stdio.h>

__attribute__((noinline)) void count_this(void (*work)(uint32_t n), uint32_t n);
__attribute__((noinline)) void count_ends(void);

__attribute__((noinline)) void count_this(void (*work)(uint32_t n), uint32_t n)
{
	work(n);
	__asm__ volatile("" : : : "memory"); /* not a jump */
}

__attribute__((noinline)) void count_ends(void)
{
	__asm__ volatile("" : : : "memory");
}

/* What the figures depend on, besides the code. */
static inline void count_begins(void)
{
	printf("%s, glibc %s%s\n", BUILT_BY, gnu_get_libc_version(),
	    __builtin_cpu_supports("avx2") ? ", AVX2" : "");
}

#endif
