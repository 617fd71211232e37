/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time limits for the library, not for the machine under test: the time in
 * which the machine kept threads from running is measured (../chaos/lateness.h)
 * and does not count.
 */
#ifndef DFI_TESTS_IN_TIME_H
#define DFI_TESTS_IN_TIME_H

#include <stdint.h>

int64_t now_ms(void);

/* Start to measure. The test's main process calls it once. */
void in_time_start(void);

/* The time of now_ms() since then, minus the time the machine was late. */
int64_t ms_since(int64_t then_ms);

#endif
