/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time limits for the library, not for the machine that tests it: for how long
 * that lets threads wait is measured (../chaos/lateness.h), and not counted.
 */
#ifndef DFI_TESTS_IN_TIME_H
#define DFI_TESTS_IN_TIME_H

#include <stdint.h>

int64_t now_ms(void);

/* Measure from now on. Once, by the test's own process. */
void in_time_start(void);

/* For how long now_ms() goes on since then, but for what the machine was late.
 */
int64_t ms_since(int64_t then_ms);

#endif
