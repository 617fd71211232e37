/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the limits of control groups, versions 1 and 2: of this process's group
 * and of all mounted groups above it. Also finds the limit of strict
 * overcommit. The library has the same limits, but does not show them to
 * programs.
 */
#include "memory.h"
#include "complain.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of growth between two checks. */
#define GROWTH (UINT64_C(1) << 20)

/* A limit and the use that counts against it, as names of files. */
struct limit {
	const char *max, *usage;
};

/* The files of one version of control groups. */
struct version {
	const char *type; /* type of its file system */
	struct limit limits[2];
	const char *reclaimable[2]; /* lines of memory.stat with clean files */
};

static const struct version versions[] = {
	{ "cgroup2",
	    { { "memory.max", "memory.current" },
		{ "memory.high", "memory.current" } },
	    { "inactive_file", "active_file" } },
	{ "cgroup",
	    { { "memory.limit_in_bytes", "memory.usage_in_bytes" },
		{ "memory.memsw.limit_in_bytes",
		    "memory.memsw.usage_in_bytes" } },
	    { "total_inactive_file", "total_active_file" } },
};

/* The root below which files are read, and the result. */
struct search {
	const char *root;
	struct memory_room *room;
};

static FILE *open_in(
    const struct search *search, const char *folder, const char *name)
{
	char path[2 * PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s%s/%s", search->root, folder, name);
	return fopen(path, "re");
}

/* Read the number in a file. false: there is none, as with "max". */
static bool read_number(const struct search *search, const char *folder,
    const char *name, uint64_t *number)
{
	FILE *file = open_in(search, folder, name);
	bool found;

	if (!file)
		return false;
	found = fscanf(file, "%" SCNu64, number) == 1;
	fclose(file);
	return found;
}

/* The number after a word in a file, or 0. */
static uint64_t read_line(const struct search *search, const char *folder,
    const char *name, const char *word)
{
	FILE *file = open_in(search, folder, name);
	uint64_t number, found = 0;
	char key[64];

	if (!file)
		return 0;
	while (fscanf(file, "%63s %" SCNu64 "%*[^\n]", key, &number) == 2)
		if (strcmp(key, word) == 0)
			found = number;
	fclose(file);
	return found;
}

static uint64_t subtract(uint64_t from, uint64_t n)
{
	return from > n ? from - n : 0;
}

static void look_at_group(const struct search *search,
    const struct version *version, const char *folder)
{
	struct memory_room *room = search->room;
	const struct limit *limit;
	uint64_t max, used, left;
	int i;

	for (limit = version->limits; limit < version->limits + 2; limit++) {
		if (!read_number(search, folder, limit->max, &max) ||
		    !read_number(search, folder, limit->usage, &used))
			continue;
		for (i = 0; i < 2; i++)
			used = subtract(used,
			    read_line(search, folder, "memory.stat",
				version->reclaimable[i]));
		left = subtract(max, used);
		if (left >= room->bytes)
			continue;
		room->bytes = left;
		snprintf(room->limit, sizeof(room->limit),
		    " in the control group (%.400s/%s is %ju MiB)", folder,
		    limit->max, (uintmax_t)(max >> 20));
	}
}

/* Whether a comma-separated list has a word. */
static bool lists(const char *list, const char *word)
{
	size_t size = strlen(word);

	for (; list; list = strchr(list, ',')) {
		list += *list == ',';
		if (strncmp(list, word, size) == 0 &&
		    (list[size] == ',' || !list[size]))
			return true;
		if (!*list)
			break;
	}
	return false;
}

/* This process's group in the hierarchy of the version. */
static bool own_group(const struct search *search,
    const struct version *version, char path[PATH_MAX])
{
	bool is_2 = version == &versions[0], found = false;
	FILE *file = open_in(search, "/proc/self", "cgroup");
	char line[PATH_MAX + 256], *controllers, *group;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		controllers = strchr(line, ':');
		group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!group)
			continue;
		*group++ = '\0';
		controllers++;
		found = is_2 ? !*controllers : lists(controllers, "memory");
		if (found)
			snprintf(path, PATH_MAX, "%s", group);
	}
	fclose(file);
	return found;
}

/* Look at the groups from this process's up to the root of the mount. */
static void walk(const struct search *search, const struct version *version,
    const char *root, const char *mount)
{
	char group[PATH_MAX], folder[2 * PATH_MAX];
	size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
	char *end;

	if (!own_group(search, version, group))
		return;
	/* The group is outside of the mount, which shows only its own root. */
	if (strncmp(group, root, skip) != 0 || strncmp(group, "/..", 3) == 0)
		group[skip = 0] = '\0';
	snprintf(folder, sizeof(folder), "%s%s", mount, group + skip);
	for (;;) {
		end = folder + strlen(folder);
		while (end > folder + strlen(mount) && end[-1] == '/')
			*--end = '\0';
		look_at_group(search, version, folder);
		if (strlen(folder) <= strlen(mount))
			return;
		*strrchr(folder, '/') = '\0';
	}
}

static void look_at_mount(const struct search *search, char *line)
{
	char root[PATH_MAX], mount[PATH_MAX], type[64], options[PATH_MAX];
	char *rest = strstr(line, " - ");
	size_t i;

	if (!rest ||
	    sscanf(line, "%*s %*s %*s %4095s %4095s", root, mount) != 2 ||
	    sscanf(rest + 3, "%63s %*s %4095s", type, options) != 2)
		return;
	for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		if (strcmp(type, versions[i].type) == 0 &&
		    (i == 0 || lists(options, "memory")))
			walk(search, &versions[i], root, mount);
}

/* The limit of strict overcommit: proc(5). */
static void look_at_promises(const struct search *search)
{
	struct memory_room *room = search->room;
	uint64_t policy, limit, left;

	if (!read_number(
		search, "/proc/sys/vm", "overcommit_memory", &policy) ||
	    policy != 2)
		return;
	limit = read_line(search, "/proc", "meminfo", "CommitLimit:");
	left = subtract(
	    limit, read_line(search, "/proc", "meminfo", "Committed_AS:"));
	if (!limit || left << 10 >= room->bytes)
		return;
	room->bytes = left << 10;
	snprintf(room->limit, sizeof(room->limit),
	    " (CommitLimit is %ju MiB, and vm.overcommit_memory is 2)",
	    (uintmax_t)(limit >> 10));
}

void memory_room(const char *root, struct memory_room *room)
{
	struct search search = { root, room };
	FILE *file = open_in(&search, "/proc/self", "mountinfo");
	uint64_t kib = read_line(&search, "/proc", "meminfo", "MemAvailable:");
	char *line = NULL;
	size_t size = 0;

	room->bytes = kib ? kib << 10 : UINT64_MAX;
	room->limit[0] = '\0';
	look_at_promises(&search);
	while (file && getline(&line, &size, file) > 0)
		look_at_mount(&search, line);
	free(line);
	if (file)
		fclose(file);
}

int memory_check(const char *what, uint64_t need, const char *advice)
{
	struct memory_room room;

	memory_room("", &room);
	if (need <= room.bytes)
		return 0;
	return complain("%s %ju MiB of memory, but %ju MiB are left%s: %s",
	    what, (uintmax_t)((need + (1 << 20) - 1) >> 20),
	    (uintmax_t)(room.bytes >> 20), room.limit, advice);
}

int memory_check_growth(
    uint64_t *checked, uint64_t filled, const char *what, const char *advice)
{
	/* The first check comes sooner: little may be left. */
	if (filled < (*checked ? *checked + GROWTH : GROWTH / 4))
		return 0;
	*checked = filled;
	/* Room until the next check, and for one more step. */
	return memory_check(what, 2 * GROWTH, advice);
}
