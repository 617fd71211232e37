/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the stress programs: checks that end the program with 1, random
 * numbers, and threads. Plain C without a test framework, for ThreadSanitizer.
 */
#ifndef DFI_TESTS_STRESS_HELP_H
#define DFI_TESTS_STRESS_HELP_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/dfi.h>

/* Only a hanging program reaches this limit. */
#define LONG_MS 60000u

__attribute__((format(printf, 3, 4), noreturn)) static inline void check_failed(
    const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (last error: %s)\n", dfi_errmsg());
	/* Other threads still run, so run no destructors. */
	_Exit(EXIT_FAILURE);
}

#define check(condition, ...)                                          \
	do {                                                           \
		if (!(condition))                                      \
			check_failed(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

struct rng {
	uint64_t state;
};

/* splitmix64 */
static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t x = rng->state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* 0 to n - 1. */
static inline uint32_t rng_below(struct rng *rng, uint32_t n)
{
	return (uint32_t)(((rng_next(rng) >> 32) * n) >> 32);
}

/* Yield now and then. */
static inline void rng_yield(struct rng *rng, uint32_t one_in)
{
	if (!rng_below(rng, one_in))
		sched_yield();
}

static inline pthread_t start_thread(void *(*fn)(void *arg), void *arg)
{
	pthread_t thread;

	check(pthread_create(&thread, NULL, fn, arg) == 0, "no thread");
	return thread;
}

#endif
