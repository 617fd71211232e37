/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of memory: the kernel's texts, and trees of control groups. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_file.h"
#include "base/memory.h"
#include "dumped.h"
#include "kernel_tree.h"

/* A call that the C library doesn't declare. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct none[2] = { { 0 } };

	cr_assert_eq(syscall(SYS_capset, &header, none), 0);
}

#define MIB (UINT64_C(1) << 20)

TestSuite(memory, .init = tree_make, .fini = tree_remove, .timeout = 300);

static void expect_huge_room(uint64_t bytes, const char *limit)
{
	struct memory_room room;

	dfi__memory_huge_room(root, &room);
	cr_assert_eq(room.bytes, bytes, "%lu", (unsigned long)room.bytes);
	cr_assert_str_eq(room.limit, limit);
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

	cr_assert(dfi__kernel_field(text, "MemTotal", &number));
	cr_assert_eq(number, 16);
	cr_assert(dfi__kernel_field(text, "MemFree", &number));
	cr_assert_eq(number, 15);
	cr_assert(dfi__kernel_field(text, "file", &number));
	cr_assert_eq(number, 8);
	cr_assert_not(dfi__kernel_field(text, "Mem", &number));
	cr_assert_not(dfi__kernel_field(text, "none", &number));
	cr_assert_not(dfi__kernel_field(text, "word", &number));
	cr_assert_not(dfi__kernel_field(text, "x", &number));
	cr_assert_not(dfi__kernel_field("", "x", &number));
	cr_assert_not(dfi__kernel_field("x", "x", &number));
	cr_assert_not(
	    dfi__kernel_field("x 99999999999999999999", "x", &number));
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
		expect_huge_room(UINT64_MAX, "");
		snprintf(path, sizeof(path), dir, files[i][0]);
		put(path, files[i][1]);
	}
	expect_huge_room((5 + 2) * 2 * MIB,
	    "huge pages of 2 MiB: 5 are free, 2 more may be made");
	snprintf(path, sizeof(path), dir, "resv_hugepages");
	put(path, "10\n");
	expect_huge_room(
	    2 * 2 * MIB, "huge pages of 2 MiB: 0 are free, 2 more may be made");
}

Test(memory, huge_pages_are_limited_by_control_groups)
{
	put("/proc/self/cgroup", "4:hugetlb:/g\n0::/u\n");
	put("/proc/self/mountinfo",
	    CGROUP1("/", "hugetlb") CGROUP2("/", "/sys/fs/cgroup/unified"));
	put("/sys/fs/cgroup/hugetlb/g/hugetlb.2MB.limit_in_bytes",
	    "9223372036852678656\n");
	put("/sys/fs/cgroup/hugetlb/g/hugetlb.2MB.usage_in_bytes", "0\n");
	expect_huge_room(9223372036852678656u,
	    "/sys/fs/cgroup/hugetlb/g/hugetlb.2MB.limit_in_bytes is "
	    "9223372036852678656");
	put("/sys/fs/cgroup/hugetlb/g/hugetlb.2MB.rsvd.limit_in_bytes",
	    "8388608\n");
	put("/sys/fs/cgroup/hugetlb/g/hugetlb.2MB.rsvd.usage_in_bytes",
	    "2097152\n");
	expect_huge_room(6 * MIB,
	    "/sys/fs/cgroup/hugetlb/g/hugetlb.2MB.rsvd.limit_in_bytes is "
	    "8388608");
	put("/sys/fs/cgroup/unified/u/hugetlb.2MB.max", "4194304\n");
	put("/sys/fs/cgroup/unified/u/hugetlb.2MB.current", "4194304\n");
	expect_huge_room(
	    0, "/sys/fs/cgroup/unified/u/hugetlb.2MB.max is 4194304");
}

Test(memory, nothing_known_is_no_limit)
{
	expect_room(UINT64_MAX, "");
	put("/proc/meminfo", "MemFree: 1 kB\n");
	put("/proc/self/cgroup", "0::/x\n");
	expect_room(UINT64_MAX, "");
	put("/proc/self/mountinfo", CGROUP2("/", "/sys/fs/cgroup"));
	expect_room(UINT64_MAX, "");
	put("/sys/fs/cgroup/x/memory.max", "5242880\n");
	expect_room(UINT64_MAX, "");
	put("/sys/fs/cgroup/x/memory.current", "\n");
	expect_room(UINT64_MAX, "");
	put("/sys/fs/cgroup/x/memory.current", "99999999999999999999\n");
	expect_room(UINT64_MAX, "");
	put("/proc/meminfo", "MemAvailable: 18446744073709551615 kB\n");
	expect_room(UINT64_MAX >> 10 << 10, "MemAvailable of /proc/meminfo");
}

Test(memory, texts_that_make_no_sense_are_skipped)
{
	put("/proc/meminfo", "MemAvailable: 1024 kB\n");
	put("/proc/self/cgroup",
	    "\n:\n::\n5\n6:memory\n7:memoryx,xmemory:/g\n:::::\n");
	put("/proc/self/mountinfo",
	    "\n \n-\n - \n31 25 0:26 /\n31 25 0:26 / /sys/fs/cgroup rw\n"
	    "31 25 0:26 / /sys/fs/cgroup rw - cgroup2\n"
	    "31 25 0:26 / /sys/fs/cgroup rw - cgroup2 x\n"
	    "31 25 0:26 \\1 \\ rw - cgroup2 x rw\n"
	    "31 25 0:26 / /sys/fs/cgroup rw - cgroup x rw,memoryx\n");
	put("/sys/fs/cgroup/memory.max", "1\n");
	put("/sys/fs/cgroup/memory.current", "1\n");
	put("/sys/fs/cgroup/memory.limit_in_bytes", "1\n");
	put("/sys/fs/cgroup/memory.usage_in_bytes", "1\n");
	expect_room(1 * MIB, "MemAvailable of /proc/meminfo");
}

Test(memory, machine_has_what_is_available)
{
	put("/proc/meminfo", "MemTotal: 8192 kB\nMemAvailable:   2048 kB\n");
	expect_room(2 * MIB, "MemAvailable of /proc/meminfo");
}

Test(memory, promises_are_a_limit_where_the_kernel_keeps_them)
{
	put("/proc/meminfo",
	    "MemAvailable: 8192 kB\nCommitLimit: 4096 kB\n"
	    "Committed_AS: 3072 kB\n");
	put("/proc/sys/vm/overcommit_memory", "0\n");
	expect_room(8 * MIB, "MemAvailable of /proc/meminfo");
	put("/proc/sys/vm/overcommit_memory", "2\n");
	expect_room(
	    1 * MIB, "CommitLimit is 4096 kB, and vm.overcommit_memory is 2");
}

Test(memory, tightest_group_up_to_the_root_counts)
{
	put("/proc/meminfo", "MemAvailable: 1048576 kB\n");
	put("/proc/self/cgroup", "0::/outer/inner\n");
	put("/proc/self/mountinfo", CGROUP2("/", "/sys/fs/cgroup"));
	put("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
	put("/sys/fs/cgroup/outer/inner/memory.current", "1048576\n");
	expect_room(1024 * MIB, "MemAvailable of /proc/meminfo");
	put("/sys/fs/cgroup/outer/memory.max", "16777216\n");
	put("/sys/fs/cgroup/outer/memory.current", "4194304\n");
	expect_room(12 * MIB, "/sys/fs/cgroup/outer/memory.max is 16777216");
	put("/sys/fs/cgroup/outer/inner/memory.max", "5242880\n");
	expect_room(
	    4 * MIB, "/sys/fs/cgroup/outer/inner/memory.max is 5242880");
	put("/sys/fs/cgroup/outer/inner/memory.high", "3145728\n");
	expect_room(
	    2 * MIB, "/sys/fs/cgroup/outer/inner/memory.high is 3145728");
	/* As in a container, which sees its own group as the root. */
	put("/sys/fs/cgroup/memory.max", "3145728\n");
	put("/sys/fs/cgroup/memory.current", "4194304\n");
	expect_room(0, "/sys/fs/cgroup/memory.max is 3145728");
}

Test(memory, group_is_looked_for_below_what_is_mounted)
{
	put("/proc/self/mountinfo", CGROUP2("/pods/pod", "/cg\\040roup"));
	put("/cg roup/inner/memory.max", "4194304\n");
	put("/cg roup/inner/memory.current", "1048576\n");
	put("/cg roup/memory.max", "8388608\n");
	put("/cg roup/memory.current", "1048576\n");
	put("/proc/self/cgroup", "0::/pods/pod/inner\n");
	expect_room(3 * MIB, "/cg roup/inner/memory.max is 4194304");
	put("/proc/self/cgroup", "0::/pods/pod\n");
	expect_room(7 * MIB, "/cg roup/memory.max is 8388608");
	/* The mount is not above these groups. */
	put("/proc/self/cgroup", "0::/pods/pods/inner\n");
	expect_room(UINT64_MAX, "");
	put("/proc/self/cgroup", "0::/../pods/pod/inner\n");
	expect_room(UINT64_MAX, "");
}

Test(memory, group_may_be_outside_of_its_namespace)
{
	put("/sys/fs/cgroup/a/memory.max", "4194304\n");
	put("/sys/fs/cgroup/a/memory.current", "1048576\n");
	put("/sys/fs/cgroup/memory.max", "8388608\n");
	put("/sys/fs/cgroup/memory.current", "1048576\n");
	put("/proc/self/cgroup", "0::/../a\n");
	put("/proc/self/mountinfo", CGROUP2("/", "/sys/fs/cgroup"));
	expect_room(UINT64_MAX, "");
	put("/proc/self/mountinfo", CGROUP2("/..", "/sys/fs/cgroup"));
	expect_room(3 * MIB, "/sys/fs/cgroup/a/memory.max is 4194304");
	/* It is somewhere below, at an unknown place. */
	put("/proc/self/mountinfo", CGROUP2("/../..", "/sys/fs/cgroup"));
	expect_room(7 * MIB, "/sys/fs/cgroup/memory.max is 8388608");
	put("/proc/self/mountinfo", CGROUP2("/../../b", "/sys/fs/cgroup"));
	expect_room(UINT64_MAX, "");
	/* No name goes up. */
	put("/proc/self/cgroup", "0::/..a\n");
	put("/sys/fs/cgroup/..a/memory.max", "2097152\n");
	put("/sys/fs/cgroup/..a/memory.current", "1048576\n");
	put("/proc/self/mountinfo", CGROUP2("/", "/sys/fs/cgroup"));
	expect_room(1 * MIB, "/sys/fs/cgroup/..a/memory.max is 2097152");
}

Test(memory, group_that_was_removed_leaves_those_above_it)
{
	put("/proc/self/cgroup", "0::/a/gone (deleted)\n");
	put("/proc/self/mountinfo", CGROUP2("/", "/sys/fs/cgroup"));
	put("/sys/fs/cgroup/a/memory.max", "4194304\n");
	put("/sys/fs/cgroup/a/memory.current", "1048576\n");
	expect_room(3 * MIB, "/sys/fs/cgroup/a/memory.max is 4194304");
}

Test(memory, cached_files_do_not_count_as_used)
{
	put("/proc/self/cgroup", "0::/g\n");
	put("/proc/self/mountinfo", CGROUP2("/", "/sys/fs/cgroup"));
	put("/sys/fs/cgroup/g/memory.max", "16777216\n");
	put("/sys/fs/cgroup/g/memory.current", "8388608\n");
	put("/sys/fs/cgroup/g/memory.stat",
	    "anon 0\nfile 0\nshmem 9\ninactive_file 1048576\n"
	    "active_file 2097152\n");
	expect_room(11 * MIB, "/sys/fs/cgroup/g/memory.max is 16777216");
	put("/sys/fs/cgroup/g/memory.stat", "active_file 99999999999\n");
	expect_room(16 * MIB, "/sys/fs/cgroup/g/memory.max is 16777216");
}

Test(memory, groups_of_version_1_count)
{
	put("/proc/self/cgroup", "3:cpu:/x\n2:memory:/docker/abc\n0::/x\n");
	put("/proc/self/mountinfo",
	    CGROUP1("/docker/abc", "cpu") CGROUP1("/docker/abc", "memory"));
	/* Only the container's own group is mounted. */
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "8388608\n");
	put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "6291456\n");
	put("/sys/fs/cgroup/memory/memory.stat",
	    "inactive_file 4194304\ntotal_inactive_file 1048576\n");
	expect_room(
	    3 * MIB, "/sys/fs/cgroup/memory/memory.limit_in_bytes is 8388608");
	put("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "8388608\n");
	put("/sys/fs/cgroup/memory/memory.memsw.usage_in_bytes", "8388608\n");
	expect_room(1 * MIB,
	    "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes is 8388608");
}

Test(memory, text_of_many_mounts_is_read_to_its_end)
{
	char name[64];
	unsigned i;
	FILE *file;

	put("/proc/self/cgroup", "0::/\n");
	put("/proc/self/mountinfo", "");
	snprintf(name, sizeof(name), "%s/proc/self/mountinfo", root);
	file = fopen(name, "we");
	cr_assert_not_null(file);
	for (i = 0; i < 2000; i++)
		fprintf(
		    file, "%u 1 0:1 / /overlay/%u rw - overlay o rw\n", i, i);
	fputs(CGROUP2("/", "/sys/fs/cgroup"), file);
	cr_assert_eq(fclose(file), 0);
	put("/sys/fs/cgroup/memory.max", "4194304\n");
	put("/sys/fs/cgroup/memory.current", "1048576\n");
	expect_room(3 * MIB, "/sys/fs/cgroup/memory.max is 4194304");
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

Test(memory, dumps_hold_what_is_kept_out_only_if_asked)
{
	void *at;
	int dump;

	for (dump = 0; dump < 2; dump++) {
		at = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		cr_assert_neq(at, MAP_FAILED);
		dfi__memory_keep_out(at, MIB, dump);
		cr_assert_eq(mappings_of(NULL, at).n, 1);
		cr_assert_eq(mappings_of(NULL, at).dumped, (unsigned)dump);
		munmap(at, MIB);
	}
}
