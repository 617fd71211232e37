/* SPDX-License-Identifier: Apache-2.0 */
/* Which members tell rows apart, and how they read. */
#include "labels.h"

#include <stdio.h>
#include <string.h>

enum {
	LABEL_SIZE = 256,
};

void label_number(
    const char *member, json_int_t number, bool unit, char *text, size_t size)
{
	bool bytes = strstr(member, "size") != NULL;
	bool kib = bytes && number >= 1024 && number % 1024 == 0;

	snprintf(text, size, "%" JSON_INTEGER_FORMAT "%s",
	    kib ? number / 1024 : number,
	    !unit       ? kib ? "K" : ""
		: kib   ? " KiB"
		: bytes ? " B"
			: "");
}

/* "64 B", "8 targets", "1 node", "push" */
static void member_label(
    const json_t *row, const char *member, char *text, size_t size)
{
	const json_t *value = json_object_get(row, member);
	char number[32];

	if (json_is_string(value)) {
		snprintf(text, size, "%s%s",
		    strcmp(member, "source_combining") == 0 ? "combining "
			: strcmp(member, "baseline") == 0   ? "beside "
							    : "",
		    json_string_value(value));
		return;
	}
	label_number(
	    member, json_integer_value(value), true, number, sizeof(number));
	if (strcmp(member, "segment_size") == 0)
		snprintf(text, size, "segments of %s", number);
	else if (strstr(member, "size") || strcmp(member, "count") == 0)
		snprintf(text, size, "%s", number);
	else
		snprintf(text, size, "%s %.*s", number,
		    (int)strlen(member) -
			(strcmp(number, "1") == 0 &&
			    member[strlen(member) - 1] == 's'),
		    member);
}

void label_link(const json_t *row, char *text, size_t size)
{
	static const char *const units[] = { "B/s", "KiB/s", "MiB/s", "GiB/s" };
	json_int_t rate = json_integer_value(
	    json_object_get(row, "link_bandwidth"));
	double us = json_number_value(json_object_get(row, "link_latency_us"));
	uint32_t unit = 0;

	*text = '\0';
	while (rate && rate % 1024 == 0 && unit < 3) {
		rate /= 1024;
		unit++;
	}
	if (rate)
		snprintf(text, size, "%" JSON_INTEGER_FORMAT " %s%s", rate,
		    units[unit], us > 0 ? ", " : "");
	if (us > 0)
		snprintf(
		    text + strlen(text), size - strlen(text), "%.9g us", us);
}

static void add(char *text, size_t size, const char *part)
{
	size_t used = strlen(text);

	snprintf(text + used, size - used, "%s%s", used ? ", " : "", part);
}

void label_row(const json_t *row, const char *members, char *text, size_t size)
{
	char member[64], part[LABEL_SIZE], link[64];
	const char *word = members;
	size_t length;

	for (*text = '\0'; *word; word += length + (word[length] == ' ')) {
		length = strcspn(word, " ");
		snprintf(member, sizeof(member), "%.*s", (int)length, word);
		if (!json_object_get(row, member) ||
		    json_is_null(json_object_get(row, member)))
			continue;
		member_label(row, member, part, sizeof(part));
		add(text, size, part);
	}
	label_link(row, link, sizeof(link));
	snprintf(part, sizeof(part), "link of %s", link);
	/* A series may say so itself. */
	if (*link && !strstr(text, part))
		add(text, size, part);
}

/*
 * The members that may tell rows apart. Each is taken only if it tells more of
 * them apart than those before it, but people expect a tuple's size.
 */
static const char *const candidates[] = { "series", "event", "measure", "step",
	"how", "api", "mode", "store", "source_combining", "tuple_size",
	"nodes", "threads", "clients", "outstanding", "count", "sources",
	"targets", "wait", "segment_size", "baseline" };

#define N_CANDIDATES (sizeof(candidates) / sizeof(candidates[0]))

static bool varies(const json_t *rows, const char *key)
{
	const json_t *first = json_object_get(json_array_get(rows, 0), key);
	const json_t *other;
	size_t i;

	for (i = 1; i < json_array_size(rows); i++) {
		other = json_object_get(json_array_get(rows, i), key);
		if (first != other && !json_equal(first, other))
			return true;
	}
	return false;
}

static void add_member(char *members, const char *member)
{
	size_t used = strlen(members);

	snprintf(
	    members + used, LABEL_SIZE - used, "%s%s", used ? " " : "", member);
}

/* How many labels differ that some members give. */
static size_t count_labels(const json_t *rows, const char *members)
{
	json_t *seen = json_object();
	char label[LABEL_SIZE];
	const json_t *row;
	size_t i, n;

	json_array_foreach(rows, i, row)
	{
		label_row(row, members, label, sizeof(label));
		json_object_set_new(seen, label, json_true());
	}
	n = json_object_size(seen);
	json_decref(seen);
	return n;
}

static void choose_members(const json_t *rows, char *members)
{
	char longer[LABEL_SIZE];
	size_t i, n = 1, more;

	*members = '\0';
	for (i = 0; i < N_CANDIDATES; i++) {
		if (!varies(rows, candidates[i]))
			continue;
		snprintf(longer, sizeof(longer), "%s", members);
		add_member(longer, candidates[i]);
		more = count_labels(rows, longer);
		if (more <= n && strcmp(candidates[i], "tuple_size") != 0)
			continue;
		snprintf(members, LABEL_SIZE, "%s", longer);
		n = more;
	}
}

void labels_set(json_t *rows)
{
	char members[LABEL_SIZE], label[LABEL_SIZE];
	const char *series;
	json_t *row;
	size_t i;

	choose_members(rows, members);
	json_array_foreach(rows, i, row)
	{
		label_row(row, members, label, sizeof(label));
		series = json_string_value(json_object_get(row, "series"));
		json_object_set_new(row, "label",
		    json_string(*label || !series ? label : series));
	}
}
