/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what this process has open. */
#ifndef DFI_TESTS_DESCRIPTORS_H
#define DFI_TESTS_DESCRIPTORS_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <string.h>
#include <unistd.h>

/*
 * Count the descriptors whose name in /proc has this text, such as "socket:",
 * "pidfd" or a memfd's name. "" counts all, including the one used to look.
 */
static inline unsigned count_descriptors(const char *text)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	char target[256];
	unsigned n = 0;
	ssize_t length;

	cr_assert_not_null(dir);
	while ((entry = readdir(dir))) {
		length = readlinkat(
		    dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		n += strstr(target, text) != NULL;
	}
	closedir(dir);
	return n;
}

#endif
