/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of control groups, version 1 and 2: those of this process's group
 * and of all groups around it, as far as they are mounted.
 */
#include "memory.h"
#include "complain.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes between two looks at what grows. */
#define GROWTH (UINT64_C(1) << 20)

/* The files of a version. */
struct version {
	const char *type; /* of its file system */
	const char *limits[2];
	const char *usage;
	const char *reclaimable[2]; /* lines of memory.stat: clean files */
};

static const struct version versions[] = {
	{ "cgroup2", { "memory.max", "memory.high" }, "memory.current",
	    { "inactive_file", "active_file" } },
	{ "cgroup", { "memory.limit_in_bytes", NULL }, "memory.usage_in_bytes",
	    { "total_inactive_file", "total_active_file" } },
};

static FILE *open_in(const char *folder, const char *name)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return fopen(path, "re");
}

/* The number in a file; false: there is none, as in one that says "max". */
static bool read_number(const char *folder, const char *name, uint64_t *number)
{
	FILE *file = open_in(folder, name);
	bool found;

	if (!file)
		return false;
	found = fscanf(file, "%" SCNu64, number) == 1;
	fclose(file);
	return found;
}

/* The number behind a word in a file; 0 if there is none. */
static uint64_t read_line(
    const char *folder, const char *name, const char *word)
{
	FILE *file = open_in(folder, name);
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

static void look_at_group(
    const struct version *version, const char *folder, struct memory_room *room)
{
	uint64_t limit, used, left;
	int i;

	if (!read_number(folder, version->usage, &used))
		return;
	for (i = 0; i < 2; i++) {
		left = read_line(
		    folder, "memory.stat", version->reclaimable[i]);
		used -= left < used ? left : used;
	}
	for (i = 0; i < 2 && version->limits[i]; i++) {
		if (!read_number(folder, version->limits[i], &limit))
			continue;
		left = limit > used ? limit - used : 0;
		if (left >= room->bytes)
			continue;
		room->bytes = left;
		snprintf(room->limit, sizeof(room->limit),
		    " in the control group (%.400s/%s is %ju MiB)", folder,
		    version->limits[i], (uintmax_t)(limit >> 20));
	}
}

/* Whether a list with commas has a word. */
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

/* This process's group in the hierarchy of the version, as the kernel says. */
static bool own_group(const struct version *version, char path[PATH_MAX])
{
	bool is_2 = version == &versions[0], found = false;
	FILE *file = fopen("/proc/self/cgroup", "re");
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
static void walk(const struct version *version, const char *root,
    const char *mount, struct memory_room *room)
{
	char group[PATH_MAX], folder[2 * PATH_MAX];
	size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
	char *end;

	if (!own_group(version, group))
		return;
	/* A group outside of what is mounted: only the mount's root is seen. */
	if (strncmp(group, root, skip) != 0 || strncmp(group, "/..", 3) == 0)
		group[skip = 0] = '\0';
	snprintf(folder, sizeof(folder), "%s%s", mount, group + skip);
	for (;;) {
		end = folder + strlen(folder);
		while (end > folder + strlen(mount) && end[-1] == '/')
			*--end = '\0';
		look_at_group(version, folder, room);
		if (strlen(folder) <= strlen(mount))
			return;
		*strrchr(folder, '/') = '\0';
	}
}

static void look_at_mount(char *line, struct memory_room *room)
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
			walk(&versions[i], root, mount, room);
}

void memory_room(struct memory_room *room)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	uint64_t kib = read_line("/proc", "meminfo", "MemAvailable:");
	char *line = NULL;
	size_t size = 0;

	room->bytes = kib ? kib << 10 : UINT64_MAX;
	room->limit[0] = '\0';
	while (file && getline(&line, &size, file) > 0)
		look_at_mount(line, room);
	free(line);
	if (file)
		fclose(file);
}

int memory_check(const char *what, uint64_t need, const char *advice)
{
	struct memory_room room;

	memory_room(&room);
	if (need <= room.bytes)
		return 0;
	return complain("%s %ju MiB of memory, but %ju MiB are left%s: %s",
	    what, (uintmax_t)((need + (1 << 20) - 1) >> 20),
	    (uintmax_t)(room.bytes >> 20), room.limit, advice);
}

int memory_check_growth(
    uint64_t *checked, uint64_t filled, const char *what, const char *advice)
{
	/* The first time sooner: little may be left. */
	if (filled < (*checked ? *checked + GROWTH : GROWTH / 4))
		return 0;
	*checked = filled;
	/* The next look may come as much later. */
	return memory_check(what, 2 * GROWTH, advice);
}
