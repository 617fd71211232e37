/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the limits of memory: proc(5) and the kernel's
 * admin-guide/cgroup-v1/memory.rst, admin-guide/cgroup-v1/hugetlb.rst and
 * admin-guide/cgroup-v2.rst. A limit that can't be read is none.
 */
#include "memory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "bits.h"
#include "cgroup.h"
#include "error.h"
#include "kernel_file.h"

/* A limit of a control group and the group's use of it, as names of files. */
struct group_limit {
	unsigned version;
	const char *max, *current;
};

static const struct group_limit memory_limits[] = {
	{ 1, "memory.limit_in_bytes", "memory.usage_in_bytes" },
	{ 1, "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes" },
	{ 2, "memory.max", "memory.current" },
	/*
	 * Beyond this limit the kernel slows the group down until it stands
	 * still.
	 */
	{ 2, "memory.high", "memory.current" },
};

static const struct group_limit huge_limits[] = {
	{ 1, "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.usage_in_bytes" },
	{ 1, "hugetlb.2MB.rsvd.limit_in_bytes",
	    "hugetlb.2MB.rsvd.usage_in_bytes" },
	{ 2, "hugetlb.2MB.max", "hugetlb.2MB.current" },
	{ 2, "hugetlb.2MB.rsvd.max", "hugetlb.2MB.rsvd.current" },
};

#define N_LIMITS 4

/* Lines of memory.stat with memory that the kernel reclaims first. */
static const char *const caches[][2] = {
	{ "total_inactive_file", "total_active_file" },
	{ "inactive_file", "active_file" },
};

static uint64_t kib_bytes(uint64_t kib)
{
	return min_u64(kib, UINT64_MAX >> 10) << 10;
}

struct search {
	const char *root;
	struct memory_room *room;
	uint64_t total; /* the machine's memory in bytes */
	const struct group_limit *limits;
	bool has_caches;
};

static void __attribute__((format(printf, 3, 4)))
lower(struct memory_room *room, uint64_t bytes, const char *fmt, ...)
{
	va_list args;

	if (bytes >= room->bytes)
		return;
	room->bytes = bytes;
	va_start(args, fmt);
	vsnprintf(room->limit, sizeof(room->limit), fmt, args);
	va_end(args);
}

/* The end of a long path tells more than its start. */
static void lower_to_group(struct memory_room *room, uint64_t bytes,
    const char *folder, const char *file, uint64_t max)
{
	size_t length = strlen(folder), most = sizeof(room->limit) - 64;
	bool cut = length > most;

	lower(room, bytes, "%s%s/%s is %" PRIu64, cut ? "..." : "",
	    cut ? folder + length - most : folder, file, max);
}

/* How much of a group's use is the cache of files. */
static uint64_t cached(
    const struct search *search, unsigned version, const char *folder)
{
	char *text = dfi__kernel_text("%s%s/memory.stat", search->root, folder);
	uint64_t cache, all = 0;
	unsigned i;

	for (i = 0; i < 2; i++)
		if (dfi__kernel_field(text, caches[version - 1][i], &cache))
			all += min_u64(cache, UINT64_MAX - all);
	free(text);
	return all;
}

/*
 * How much one limit leaves. The cache of files counts as used, but the kernel
 * reclaims it first; shared memory is not part of it. The kernel takes time to
 * add up a group's use. So the use is read only if the limit may matter: no
 * group uses more than the machine has.
 */
static void ask_limit(const struct search *search,
    const struct group_limit *limit, const char *folder)
{
	struct memory_room *room = search->room;
	uint64_t max, used;

	if (!dfi__kernel_number(
		&max, "%s%s/%s", search->root, folder, limit->max) ||
	    max - min_u64(max, search->total) >= room->bytes ||
	    !dfi__kernel_number(
		&used, "%s%s/%s", search->root, folder, limit->current) ||
	    max - min_u64(max, used) >= room->bytes)
		return;
	if (search->has_caches)
		used -= min_u64(used, cached(search, limit->version, folder));
	lower_to_group(room, max - min_u64(max, used), folder, limit->max, max);
}

static void ask_group(void *arg, unsigned version, const char *folder)
{
	const struct search *search = arg;
	unsigned i;

	for (i = 0; i < N_LIMITS; i++)
		if (search->limits[i].version == version)
			ask_limit(search, &search->limits[i], folder);
}

/* The limit of strict overcommit. */
static void ask_promises(
    const char *root, const char *meminfo, struct memory_room *room)
{
	uint64_t policy, limit, promised;

	if (dfi__kernel_number(
		&policy, "%s/proc/sys/vm/overcommit_memory", root) &&
	    policy == 2 && dfi__kernel_field(meminfo, "CommitLimit", &limit) &&
	    dfi__kernel_field(meminfo, "Committed_AS", &promised))
		lower(room, kib_bytes(limit - min_u64(limit, promised)),
		    "CommitLimit is %" PRIu64
		    " kB, and vm.overcommit_memory is 2",
		    limit);
}

void dfi__memory_room(const char *root, struct memory_room *room)
{
	char *meminfo = dfi__kernel_text("%s/proc/meminfo", root);
	struct search search = { root, room, UINT64_MAX, memory_limits, true };
	uint64_t kib;

	room->bytes = UINT64_MAX;
	room->limit[0] = '\0';
	if (dfi__kernel_field(meminfo, "MemTotal", &kib))
		search.total = kib_bytes(kib);
	if (dfi__kernel_field(meminfo, "MemAvailable", &kib))
		lower(room, kib_bytes(kib), "MemAvailable of /proc/meminfo");
	ask_promises(root, meminfo, room);
	free(meminfo);
	dfi__cgroup_each(root, "memory", ask_group, &search);
}

uint64_t dfi__memory_address_room(uint64_t *limit)
{
	struct rlimit space;
	uint64_t pages;

	*limit = UINT64_MAX;
	if (getrlimit(RLIMIT_AS, &space) < 0 || space.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	*limit = space.rlim_cur;
	/* The first number of the line is the size of all mappings. */
	if (!dfi__kernel_number(&pages, "/proc/self/statm"))
		return *limit;
	return *limit -
	    min_u64(*limit, pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

uint64_t dfi__memory_data_room(uint64_t *limit)
{
	struct rlimit data;
	char *status;
	uint64_t kib;

	*limit = UINT64_MAX;
	if (getrlimit(RLIMIT_DATA, &data) < 0 || data.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	*limit = data.rlim_cur;
	status = dfi__kernel_text("/proc/self/status");
	if (!dfi__kernel_field(status, "VmData", &kib))
		kib = 0;
	free(status);
	return *limit - min_u64(*limit, kib_bytes(kib));
}

/* See admin-guide/mm/hugetlbpage.rst. */
static bool ask_huge(const char *root, const char *what, uint64_t *pages)
{
	return dfi__kernel_number(pages,
	    "%s/sys/kernel/mm/hugepages/hugepages-2048kB/%s", root, what);
}

/*
 * Huge pages that are free, and those that the system may still reserve by
 * itself.
 */
static void ask_reserved(const char *root, struct memory_room *room)
{
	uint64_t unused, taken, extra, had;

	if (!ask_huge(root, "free_hugepages", &unused) ||
	    !ask_huge(root, "resv_hugepages", &taken) ||
	    !ask_huge(root, "nr_overcommit_hugepages", &extra) ||
	    !ask_huge(root, "surplus_hugepages", &had))
		return;
	/*
	 * The counts are read one after another, and may not fit together.
	 * There may be no limit.
	 */
	unused = min_u64(unused - min_u64(unused, taken), UINT64_MAX >> 22);
	extra = min_u64(extra - min_u64(extra, had), UINT64_MAX >> 22);
	lower(room, (unused + extra) << 21,
	    "huge pages of 2 MiB: %" PRIu64 " are free, %" PRIu64
	    " more may be made",
	    unused, extra);
}

void dfi__memory_huge_room(const char *root, struct memory_room *room)
{
	struct search search = { root, room, UINT64_MAX, huge_limits, false };

	room->bytes = UINT64_MAX;
	room->limit[0] = '\0';
	ask_reserved(root, room);
	if (room->bytes)
		dfi__cgroup_each(root, "hugetlb", ask_group, &search);
}

/* Bit of CAP_IPC_LOCK in the capabilities of /proc/self/status. */
#define MAY_LOCK (UINT64_C(1) << 14)

static bool may_lock(const char *status)
{
	const char *line = strstr(status, "\nCapEff:");

	return line &&
	    strtoull(line + strlen("\nCapEff:"), NULL, 16) & MAY_LOCK;
}

uint64_t dfi__memory_lock_room(uint64_t *limit)
{
	uint64_t kib, room = UINT64_MAX;
	struct rlimit locked;
	char *status;

	*limit = UINT64_MAX;
	if (getrlimit(RLIMIT_MEMLOCK, &locked) < 0 ||
	    locked.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	status = dfi__kernel_text("/proc/self/status");
	if (status && !may_lock(status)) {
		room = *limit = locked.rlim_cur;
		if (dfi__kernel_field(status, "VmPin", &kib))
			room -= min_u64(room, kib_bytes(kib));
	}
	free(status);
	return room;
}

void dfi__memory_keep_out(void *at, size_t size, bool dump)
{
	madvise(at, size, MADV_DONTFORK);
	if (!dump)
		madvise(at, size, MADV_DONTDUMP);
}
