/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the folders of control groups. /proc/self/cgroup has the process's
 * groups; /proc/self/mountinfo has which part of the tree of groups is mounted
 * where. Both paths begin at the root of the process's namespace of control
 * groups; groups above it have "/.." (cgroup_namespaces(7)). What can't be read
 * or parsed is skipped.
 */
#include "cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernel_file.h"

/* Whether a comma-separated list has this word. */
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

/*
 * The path of the process's group, of *length bytes, without a slash at its
 * end. NULL: there is none. Lines are NUMBER:CONTROLLER,CONTROLLER...:PATH;
 * version 2 has no controllers.
 */
static const char *find_group(
    const char *text, const char *controller, size_t *length)
{
	const char *list, *at;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		list = text + strcspn(text, ":\n");
		if (*list++ != ':')
			continue;
		at = list + strcspn(list, ":\n");
		if (*at != ':' ||
		    !list_has(list, (size_t)(at - list), controller))
			continue;
		at++;
		*length = strcspn(at, "\n");
		while (*length > 0 && at[*length - 1] == '/')
			--*length;
		return at;
	}
	return NULL;
}

/* A line of mountinfo. */
struct mount {
	char *root, *folder, *type, *options;
};

static char *next_word(char **rest)
{
	return *rest ? strsep(rest, " ") : NULL;
}

/* Spaces and similar characters are \040, in octal. */
static void unescape(char *text)
{
	char *out = text;

	for (; *text; text++) {
		if (text[0] == '\\' && strspn(text + 1, "01234567") >= 3) {
			*out++ = (char)((text[1] - '0') << 6 |
			    (text[2] - '0') << 3 | (text[3] - '0'));
			text += 3;
		} else {
			*out++ = *text;
		}
	}
	*out = '\0';
}

/*
 * ID PARENT DEVICE ROOT FOLDER OPTIONS TAG... - TYPE SOURCE OPTIONS. Cuts the
 * line into its words.
 */
static bool parse_mount(char *line, struct mount *mount)
{
	char *word;
	unsigned i;

	for (i = 0; i < 3; i++)
		next_word(&line);
	mount->root = next_word(&line);
	mount->folder = next_word(&line);
	do
		word = next_word(&line);
	while (word && strcmp(word, "-") != 0);
	mount->type = next_word(&line);
	next_word(&line);
	mount->options = next_word(&line);
	if (!mount->options)
		return false;
	unescape(mount->root);
	unescape(mount->folder);
	return true;
}

/*
 * How often a path goes up before it goes down. *path becomes the rest of it.
 */
static unsigned skip_ups(const char **path)
{
	unsigned n;

	for (n = 0; !strncmp(*path, "/..", 3); n++) {
		if ((*path)[3] && (*path)[3] != '/')
			break;
		*path += 3;
	}
	return n;
}

/*
 * The part of a group's path below the root of a mount. NULL: the mount shows
 * neither the group nor one above it.
 */
static const char *below(const char *group, const char *root)
{
	unsigned root_ups = skip_ups(&root), group_ups = skip_ups(&group);
	size_t length = strlen(root);

	while (length > 0 && root[length - 1] == '/')
		length--;
	/* The names of the groups in between are unknown. */
	if (root_ups > group_ups)
		return length ? NULL : "";
	if (root_ups < group_ups || strncmp(group, root, length) != 0 ||
	    (group[length] && group[length] != '/'))
		return NULL;
	return group + length;
}

struct walk {
	const char *groups; /* the text of /proc/self/cgroup */
	const char *controller;
	void (*fn)(void *arg, unsigned version, const char *folder);
	void *arg;
	char group[PATH_MAX], folder[2 * PATH_MAX];
};

static void visit(struct walk *walk, struct mount *mount)
{
	unsigned version = strcmp(mount->type, "cgroup2") ? 1 : 2;
	const char *group, *rest;
	size_t length, top;

	if (version == 1 &&
	    (strcmp(mount->type, "cgroup") != 0 ||
		!list_has(
		    mount->options, strlen(mount->options), walk->controller)))
		return;
	group = find_group(
	    walk->groups, version == 1 ? walk->controller : "", &length);
	if (!group || length >= sizeof(walk->group))
		return;
	memcpy(walk->group, group, length);
	walk->group[length] = '\0';
	rest = below(walk->group, mount->root);
	top = strlen(mount->folder);
	if (!rest || top + strlen(rest) >= sizeof(walk->folder))
		return;
	sprintf(walk->folder, "%s%s", mount->folder, rest);
	for (;;) {
		walk->fn(walk->arg, version, walk->folder);
		if (strlen(walk->folder) <= top)
			break;
		*strrchr(walk->folder, '/') = '\0';
	}
}

void dfi__cgroup_each(const char *root, const char *controller,
    void (*fn)(void *arg, unsigned version, const char *folder), void *arg)
{
	char *groups = dfi__kernel_text("%s/proc/self/cgroup", root);
	char *mounts = dfi__kernel_text("%s/proc/self/mountinfo", root);
	struct walk *walk = malloc(sizeof(*walk));
	char *rest = mounts, *line;
	struct mount mount;

	if (groups && mounts && walk) {
		walk->groups = groups;
		walk->controller = controller;
		walk->fn = fn;
		walk->arg = arg;
		while ((line = strsep(&rest, "\n")))
			if (parse_mount(line, &mount))
				visit(walk, &mount);
	}
	free(walk);
	free(mounts);
	free(groups);
}
