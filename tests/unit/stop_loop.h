/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a loop in a test: without a deadline of its own, as each test has
 * one.
 */
#ifndef DFI_TESTS_STOP_LOOP_H
#define DFI_TESTS_STOP_LOOP_H

#include <stddef.h>

#include "base/clock.h"
#include "base/loop.h"

static inline void stop_loop(struct loop *loop)
{
	dfi__loop_finish(loop, NULL, NULL, DEADLINE_NEVER);
}

#endif
