/* SPDX-License-Identifier: Apache-2.0 */
/* The free memory as programs compute it, in a tree of files. */
#include <criterion/criterion.h>
#include <inttypes.h>

#include "common/memory.h"
#include "kernel_tree.h"

#define MIB (UINT64_C(1) << 20)

TestSuite(programs_memory, .init = tree_make, .fini = tree_remove);

static void expect_room(uint64_t bytes, const char *limit)
{
	struct memory_room room;

	memory_room(root, &room);
	cr_assert_eq(room.bytes, bytes, "%" PRIu64, room.bytes);
	cr_assert_str_eq(room.limit, limit);
}

Test(programs_memory, no_limit_is_known_where_no_file_is)
{
	expect_room(UINT64_MAX, "");
}

Test(programs_memory, promises_of_strict_overcommit_are_a_limit)
{
	put("/proc/meminfo",
	    "MemAvailable: 8192 kB\nCommitLimit: 7168 kB\n"
	    "Committed_AS: 4096 kB\n");
	expect_room(8 * MIB, "");
	put("/proc/sys/vm/overcommit_memory", "1\n");
	expect_room(8 * MIB, "");
	put("/proc/sys/vm/overcommit_memory", "2\n");
	expect_room(
	    3 * MIB, " (CommitLimit is 7 MiB, and vm.overcommit_memory is 2)");
	put("/proc/meminfo",
	    "MemAvailable: 8192 kB\nCommitLimit: 7168 kB\n"
	    "Committed_AS: 9216 kB\n");
	expect_room(
	    0, " (CommitLimit is 7 MiB, and vm.overcommit_memory is 2)");
}

Test(programs_memory, groups_above_its_own_are_limits)
{
	put("/proc/self/cgroup", "0::/slice/service\n");
	put("/proc/self/mountinfo", CGROUP2("/", "/sys/fs/cgroup"));
	put("/sys/fs/cgroup/slice/service/memory.max", "max\n");
	put("/sys/fs/cgroup/slice/service/memory.current", "1048576\n");
	put("/sys/fs/cgroup/slice/memory.max", "8388608\n");
	put("/sys/fs/cgroup/slice/memory.current", "5242880\n");
	put("/sys/fs/cgroup/slice/memory.stat", "inactive_file 1048576\n");
	expect_room(4 * MIB,
	    " in the control group (/sys/fs/cgroup/slice/memory.max is 8 MiB)");
}

Test(programs_memory, memory_with_swap_is_a_limit_of_version_1)
{
	put("/proc/self/cgroup", "2:memory:/slice/service\n0::/\n");
	put("/proc/self/mountinfo", CGROUP1("/", "memory"));
	put("/sys/fs/cgroup/memory/slice/memory.limit_in_bytes", "8388608\n");
	put("/sys/fs/cgroup/memory/slice/memory.usage_in_bytes", "1048576\n");
	expect_room(7 * MIB,
	    " in the control group (/sys/fs/cgroup/memory/slice/"
	    "memory.limit_in_bytes is 8 MiB)");
	put("/sys/fs/cgroup/memory/slice/memory.memsw.limit_in_bytes",
	    "8388608\n");
	put("/sys/fs/cgroup/memory/slice/memory.memsw.usage_in_bytes",
	    "6291456\n");
	expect_room(2 * MIB,
	    " in the control group (/sys/fs/cgroup/memory/slice/"
	    "memory.memsw.limit_in_bytes is 8 MiB)");
}
