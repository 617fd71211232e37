/* SPDX-License-Identifier: Apache-2.0 */
/* The mappings of this process that a core dump has, by proc_pid_smaps(5). */
#ifndef DFI_TESTS_DUMPED_H
#define DFI_TESTS_DUMPED_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct mappings {
	unsigned n, dumped;
};

/*
 * The mappings whose name has a part; or, if that is NULL, the one at an
 * address.
 */
static inline struct mappings mappings_of(const char *part, const void *at)
{
	struct mappings found = { 0 };
	FILE *file = fopen("/proc/self/smaps", "re");
	uintptr_t start, end;
	bool is_one = false;
	char line[1024];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) ==
		    2)
			is_one = part
			    ? strstr(line, part) != NULL
			    : (uintptr_t)at >= start && (uintptr_t)at < end;
		else if (is_one && !strncmp(line, "VmFlags:", 8)) {
			found.n++;
			found.dumped += !strstr(line, " dd");
		}
	}
	if (file)
		fclose(file);
	return found;
}

#endif
