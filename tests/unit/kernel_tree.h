/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder in place of the root, for test files in /proc, /sys and control
 * groups.
 */
#ifndef DFI_TESTS_KERNEL_TREE_H
#define DFI_TESTS_KERNEL_TREE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[] = "/tmp/dfi-memory-XXXXXX";

static inline void tree_make(void)
{
	cr_assert_not_null(mkdtemp(root));
}

static inline void tree_remove(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", root);
	cr_assert_eq(system(command), 0);
}

/* Write a file into the tree, with its folders. */
static inline void put(const char *path, const char *text)
{
	char name[512], *slash;
	FILE *file;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (slash = strchr(name + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(name, 0700);
		*slash = '/';
	}
	file = fopen(name, "we");
	cr_assert_not_null(file, "%s", name);
	fputs(text, file);
	cr_assert_eq(fclose(file), 0);
}

/*
 * A line of mountinfo that mounts a part of a tree of groups, from root on, at
 * a folder.
 */
#define CGROUP1(root, controller)                        \
	"31 25 0:26 " root " /sys/fs/cgroup/" controller \
	" rw,nosuid shared:9 master:2 - cgroup cgroup rw," controller "\n"
#define CGROUP2(root, folder) \
	"30 25 0:26 " root " " folder " rw - cgroup2 cgroup2 rw,nsdelegate\n"

#endif
