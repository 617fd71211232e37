/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target: libFuzzer's entry point. replay.c also calls it, with the
 * inputs in tests/fuzz/corpus. A finding is a crash, a sanitizer's report, or a
 * failed fuzz_check().
 */
#ifndef DFI_TESTS_FUZZ_H
#define DFI_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define fuzz_check(condition)                                            \
	do {                                                             \
		if (!(condition)) {                                      \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, \
			    __LINE__, #condition);                       \
			abort();                                         \
		}                                                        \
	} while (0)

#endif
