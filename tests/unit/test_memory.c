/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of memory: the kernel's texts, and trees of control groups. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"

/* What the C library doesn't declare. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct none[2] = { { 0 } };

	cr_assert_eq(syscall(SYS_capset, &header, none), 0);
}

#define MIB (UINT64_C(1) << 20)

static char root[] = "/tmp/dfi-memory-XXXXXX";

static void setup(void)
{
	cr_assert_not_null(mkdtemp(root));
}

static void teardown(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", root);
	cr_assert_eq(system(command), 0);
}

TestSuite(memory, .init = setup, .fini = teardown, .timeout = 300);

/* A file in the tree, with its folders. */
static void put(const char *path, const char *text)
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

static void expect_room(uint64_t bytes, const char *limit)
{
	struct memory_room room;

	dfi__memory_room(root, &room);
	cr_assert_eq(room.bytes, bytes, "%lu", (unsigned long)room.bytes);
	cr_assert_str_eq(room.limit, limit);
}

Test(memory, field_is_a_line_of_that_name)
{
	static const char text[] = "MemTotal:   16 kB\nMemFree:\t15 kB\n"
				   "inactive_file 7\nfile 8\nnone\nword max\n";
	uint64_t number = 99;

	cr_assert(dfi__memory_field(text, "MemTotal", &number));
	cr_assert_eq(number, 16);
	cr_assert(dfi__memory_field(text, "MemFree", &number));
	cr_assert_eq(number, 15);
	cr_assert(dfi__memory_field(text, "file", &number));
	cr_assert_eq(number, 8);
	cr_assert_not(dfi__memory_field(text, "Mem", &number));
	cr_assert_not(dfi__memory_field(text, "none", &number));
	cr_assert_not(dfi__memory_field(text, "word", &number));
	cr_assert_not(dfi__memory_field(text, "x", &number));
	cr_assert_not(dfi__memory_field("", "x", &number));
	cr_assert_not(dfi__memory_field("x", "x", &number));
	cr_assert_not(
	    dfi__memory_field("x 99999999999999999999", "x", &number));
	cr_assert_eq(number, 8);
}

Test(memory, huge_pages_that_somebody_has_asked_for_are_not_free)
{
	char dir[] = "/sys/kernel/mm/hugepages/hugepages-2048kB/%s", path[128];
	static const char *const files[][2] = {
		{ "free_hugepages", "9\n" },
		{ "resv_hugepages", "4\n" },
		{ "nr_overcommit_hugepages", "3\n" },
		{ "surplus_hugepages", "1\n" },
	};
	size_t i;

	for (i = 0; i < 4; i++) {
		cr_assert_eq(dfi__memory_huge_room(root), UINT64_MAX);
		snprintf(path, sizeof(path), dir, files[i][0]);
		put(path, files[i][1]);
	}
	cr_assert_eq(dfi__memory_huge_room(root), (5 + 2) * 2 * MIB);
	snprintf(path, sizeof(path), dir, "resv_hugepages");
	put(path, "10\n");
	cr_assert_eq(dfi__memory_huge_room(root), 2 * 2 * MIB);
}

Test(memory, group_is_that_of_the_controller)
{
	static const char text[] = "12:cpu,cpuacct:/a\n5:memory:/b/c/\n"
				   "4:memoryx,xmemory:/d\nnoise\n0::/e:f\n";
	char path[8] = "?";

	cr_assert(dfi__memory_group(text, "memory", path, sizeof(path)));
	cr_assert_str_eq(path, "/b/c");
	cr_assert(dfi__memory_group(text, "cpuacct", path, sizeof(path)));
	cr_assert_str_eq(path, "/a");
	cr_assert(dfi__memory_group(text, "", path, sizeof(path)));
	cr_assert_str_eq(path, "/e:f");
	cr_assert(dfi__memory_group("0::/\n", "", path, sizeof(path)));
	cr_assert_str_eq(path, "");
	cr_assert_not(dfi__memory_group(text, "pids", path, sizeof(path)));
	cr_assert_not(dfi__memory_group("", "", path, sizeof(path)));
	cr_assert_not(
	    dfi__memory_group("0::/12345678\n", "", path, sizeof(path)));
	cr_assert_str_eq(path, "");
}

Test(memory, nothing_known_is_no_limit)
{
	expect_room(UINT64_MAX, "");
	put("/proc/meminfo", "MemFree: 1 kB\n");
	put("/proc/self/cgroup", "0::/x\n");
	expect_room(UINT64_MAX, "");
}

Test(memory, machine_has_what_is_available)
{
	put("/proc/meminfo", "MemTotal: 8192 kB\nMemAvailable:   2048 kB\n");
	expect_room(2 * MIB, "MemAvailable");
}

Test(memory, tightest_group_up_to_the_root_counts)
{
	put("/proc/meminfo", "MemAvailable: 1048576 kB\n");
	put("/proc/self/cgroup", "0::/outer/inner\n");
	put("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
	put("/sys/fs/cgroup/outer/inner/memory.current", "1048576\n");
	expect_room(1024 * MIB, "MemAvailable");
	put("/sys/fs/cgroup/outer/memory.max", "16777216\n");
	put("/sys/fs/cgroup/outer/memory.current", "4194304\n");
	expect_room(12 * MIB, "memory.max of control group /outer");
	put("/sys/fs/cgroup/outer/inner/memory.max", "5242880\n");
	expect_room(4 * MIB, "memory.max of control group /outer/inner");
	/* As in a container, which sees its own group as the root. */
	put("/sys/fs/cgroup/memory.max", "3145728\n");
	put("/sys/fs/cgroup/memory.current", "4194304\n");
	expect_room(0, "memory.max of control group /");
}

Test(memory, cached_files_do_not_count_as_used)
{
	put("/proc/self/cgroup", "0::/g\n");
	put("/sys/fs/cgroup/g/memory.max", "16777216\n");
	put("/sys/fs/cgroup/g/memory.current", "8388608\n");
	put("/sys/fs/cgroup/g/memory.stat",
	    "anon 0\nfile 0\nshmem 9\ninactive_file 1048576\n"
	    "active_file 2097152\n");
	expect_room(11 * MIB, "memory.max of control group /g");
	put("/sys/fs/cgroup/g/memory.stat", "active_file 99999999999\n");
	expect_room(16 * MIB, "memory.max of control group /g");
}

Test(memory, groups_of_version_1_count)
{
	put("/proc/self/cgroup", "3:cpu:/x\n2:memory:/docker/abc\n0::/x\n");
	/* Only the container's own group is mounted. */
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "8388608\n");
	put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "6291456\n");
	put("/sys/fs/cgroup/memory/memory.stat",
	    "inactive_file 4194304\ntotal_inactive_file 1048576\n");
	expect_room(3 * MIB, "memory.limit_in_bytes of control group /");
}

Test(memory, this_machine_has_some)
{
	struct memory_room room;

	dfi__memory_room("", &room);
	cr_assert_gt(room.bytes, 0);
}

Test(memory, locking_is_limited_but_for_who_may_lock_any)
{
	struct rlimit limit = { .rlim_cur = 1 * MIB, .rlim_max = 1 * MIB };
	uint64_t of;

	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	drop_capabilities();
	/* Nothing is pinned by this process. */
	cr_assert_eq(dfi__memory_lock_room(&of), 1 * MIB);
	cr_assert_eq(of, 1 * MIB);
}
