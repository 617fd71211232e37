/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the limits of memory: proc(5) and the kernel's
 * admin-guide/cgroup-v1/memory.rst and admin-guide/cgroup-v2.rst. What can't be
 * read is no limit.
 */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "bits.h"

/* The files' names in a version of control groups. */
struct version {
	const char *controller; /* in /proc/self/cgroup */
	const char *mount;
	const char *max, *current;
	const char *caches[2]; /* in memory.stat */
};

static const struct version versions[] = {
	{ "", "/sys/fs/cgroup", "memory.max", "memory.current",
	    { "inactive_file", "active_file" } },
	{ "memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
	    "memory.usage_in_bytes",
	    { "total_inactive_file", "total_active_file" } },
};

struct file {
	char text[8192]; /* cut there; what is looked for comes before */
};

static bool __attribute__((format(printf, 2, 3)))
read_file(struct file *file, const char *path, ...)
{
	char name[PATH_MAX];
	va_list args;
	ssize_t got;
	int fd, length;

	va_start(args, path);
	length = vsnprintf(name, sizeof(name), path, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(name))
		return false;
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, file->text, sizeof(file->text) - 1);
	close(fd);
	if (got < 0)
		return false;
	file->text[got] = '\0';
	return true;
}

/* "max" and other words are no number. */
static bool parse_number(const char *text, uint64_t *number)
{
	unsigned long long value;

	text += strspn(text, " \t");
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoull(text, NULL, 10);
	if (errno)
		return false;
	*number = value;
	return true;
}

bool dfi__memory_field(const char *text, const char *name, uint64_t *number)
{
	size_t length = strlen(name);

	while (text) {
		if (!strncmp(text, name, length) &&
		    strchr(": \t", text[length]))
			return text[length] &&
			    parse_number(text + length + 1, number);
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return false;
}

static bool list_has(const char *list, size_t size, const char *word)
{
	size_t length = strlen(word);
	const char *end = list + size, *comma;

	if (!length)
		return !size;
	for (; list < end; list = comma + 1) {
		comma = memchr(list, ',', (size_t)(end - list));
		if (!comma)
			comma = end;
		if ((size_t)(comma - list) == length &&
		    !memcmp(list, word, length))
			return true;
	}
	return false;
}

/* Lines are NUMBER:CONTROLLER,CONTROLLER...:PATH. */
bool dfi__memory_group(
    const char *text, const char *controller, char *path, size_t size)
{
	const char *list, *at;
	size_t length;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		list = text + strcspn(text, ":\n");
		if (*list++ != ':')
			continue;
		at = list + strcspn(list, ":\n");
		if (*at != ':' ||
		    !list_has(list, (size_t)(at - list), controller))
			continue;
		at++;
		length = strcspn(at, "\n");
		while (length > 0 && at[length - 1] == '/')
			length--;
		if (length >= size)
			return false;
		memcpy(path, at, length);
		path[length] = '\0';
		return true;
	}
	return false;
}

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

/*
 * What one group leaves. The cache of files counts as used, but the kernel
 * takes it back first; shared memory is not in it. Adding up what a group uses
 * takes the kernel a while, so it is asked only if that may matter: no group
 * uses more than the machine has.
 */
static void ask_group(const char *root, const struct version *version,
    const char *path, uint64_t total, struct memory_room *room)
{
	uint64_t max, used, cache;
	struct file file;
	unsigned i;

	if (!read_file(
		&file, "%s%s%s/%s", root, version->mount, path, version->max) ||
	    !parse_number(file.text, &max) ||
	    max - min_u64(max, total) >= room->bytes ||
	    !read_file(&file, "%s%s%s/%s", root, version->mount, path,
		version->current) ||
	    !parse_number(file.text, &used) ||
	    max - min_u64(max, used) >= room->bytes)
		return;
	if (read_file(&file, "%s%s%s/memory.stat", root, version->mount, path))
		for (i = 0; i < 2; i++)
			if (dfi__memory_field(
				file.text, version->caches[i], &cache))
				used -= min_u64(used, cache);
	lower(room, max - min_u64(max, used), "%s of control group %s",
	    version->max, *path ? path : "/");
}

static void ask_groups(const char *root, const struct version *version,
    const char *groups, uint64_t total, struct memory_room *room)
{
	char path[PATH_MAX];

	if (!dfi__memory_group(groups, version->controller, path, sizeof(path)))
		return;
	/* Where only a part of the tree is mounted, it is found on the way. */
	for (;;) {
		ask_group(root, version, path, total, room);
		if (!strrchr(path, '/'))
			break;
		*strrchr(path, '/') = '\0';
	}
}

void dfi__memory_room(const char *root, struct memory_room *room)
{
	uint64_t kib, total = UINT64_MAX;
	struct file file;
	size_t i;

	room->bytes = UINT64_MAX;
	room->limit[0] = '\0';
	if (read_file(&file, "%s/proc/meminfo", root)) {
		if (dfi__memory_field(file.text, "MemTotal", &kib))
			total = kib << 10;
		if (dfi__memory_field(file.text, "MemAvailable", &kib))
			lower(room, kib << 10, "MemAvailable");
	}
	if (!read_file(&file, "%s/proc/self/cgroup", root))
		return;
	for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		ask_groups(root, &versions[i], file.text, total, room);
}

uint64_t dfi__memory_address_room(uint64_t *limit)
{
	struct rlimit space;
	struct file file;
	uint64_t pages;

	*limit = UINT64_MAX;
	if (getrlimit(RLIMIT_AS, &space) < 0 || space.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	*limit = space.rlim_cur;
	/* The first number of the line is the size of all that is mapped. */
	if (!read_file(&file, "/proc/self/statm") ||
	    !parse_number(file.text, &pages))
		return *limit;
	return *limit -
	    min_u64(*limit, pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

/* See admin-guide/mm/hugetlbpage.rst. */
static bool ask_huge(const char *root, const char *what, uint64_t *pages)
{
	struct file file;

	return read_file(&file,
		   "%s/sys/kernel/mm/hugepages/hugepages-2048kB/%s", root,
		   what) &&
	    parse_number(file.text, pages);
}

uint64_t dfi__memory_huge_room(const char *root)
{
	uint64_t unused, taken, extra, had;

	if (!ask_huge(root, "free_hugepages", &unused) ||
	    !ask_huge(root, "resv_hugepages", &taken) ||
	    !ask_huge(root, "nr_overcommit_hugepages", &extra) ||
	    !ask_huge(root, "surplus_hugepages", &had))
		return UINT64_MAX;
	/* They are asked for one after another. There may be no limit. */
	unused = min_u64(unused - min_u64(unused, taken), UINT64_MAX >> 22);
	extra = min_u64(extra - min_u64(extra, had), UINT64_MAX >> 22);
	return (unused + extra) << 21;
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
	struct rlimit locked;
	struct file file;
	uint64_t kib;

	*limit = UINT64_MAX;
	if (getrlimit(RLIMIT_MEMLOCK, &locked) < 0 ||
	    locked.rlim_cur == RLIM_INFINITY ||
	    !read_file(&file, "/proc/self/status") || may_lock(file.text))
		return UINT64_MAX;
	*limit = locked.rlim_cur;
	if (!dfi__memory_field(file.text, "VmPin", &kib))
		return *limit;
	return *limit - min_u64(*limit, kib << 10);
}
