/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warns of variables that look like settings and are none. Most are misspelt,
 * and users would not notice that they have no effect.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bits.h"
#include "log.h"
#include "settings.h"

#define PREFIX "DFI_"
#define NAME_MAX_LENGTH 64 /* longer names are cut before the comparison */

static const char *const variables[] = {
#define X(kind, member, variable, value, help) variable,
	DFI_SETTINGS(X)
#undef X
};

static const char *const foreign[] = { DFI_FOREIGN_VARIABLES };

/* The length of name up to its end or '='. */
static size_t name_length(const char *name)
{
	return strcspn(name, "=");
}

static bool is_foreign(const char *name, size_t length)
{
	size_t i, n;

	for (i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		n = strcspn(foreign[i], "*");
		if (length >= n && !strncmp(name, foreign[i], n) &&
		    (foreign[i][n] == '*' || length == n))
			return true;
	}
	return false;
}

/*
 * The number of characters to insert, delete or replace, where a swap of two
 * neighbours counts as one (optimal string alignment).
 */
static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
	unsigned rows[3][NAME_MAX_LENGTH + 1] = { { 0 } };
	unsigned *row, *above, *top, cost;
	size_t i, j;

	for (j = 0; j <= m; j++)
		rows[0][j] = (unsigned)j;
	for (i = 1; i <= n; i++) {
		row = rows[i % 3];
		above = rows[(i - 1) % 3];
		top = rows[(i + 1) % 3];
		row[0] = (unsigned)i;
		for (j = 1; j <= m; j++) {
			cost = above[j - 1] + (a[i - 1] != b[j - 1]);
			if (above[j] + 1 < cost)
				cost = above[j] + 1;
			if (row[j - 1] + 1 < cost)
				cost = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1] && top[j - 2] + 1 < cost)
				cost = top[j - 2] + 1;
			row[j] = cost;
		}
	}
	return rows[n % 3][m];
}

const char *dfi__settings_nearest(const char *name)
{
	size_t length = name_length(name), n, i;
	const char *nearest = variables[0];
	unsigned least = UINT32_MAX, d;

	if (is_foreign(name, length))
		return NULL;
	n = min_u64(length, NAME_MAX_LENGTH);
	for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		size_t m = strlen(variables[i]);

		if (m == length && !strncmp(name, variables[i], m))
			return NULL;
		d = distance(
		    name, n, variables[i], min_u64(m, NAME_MAX_LENGTH));
		if (d < least) {
			least = d;
			nearest = variables[i];
		}
	}
	return nearest;
}

static void check(void)
{
	const char *nearest;
	char **variable;

	for (variable = environ; variable && *variable; variable++) {
		if (strncmp(*variable, PREFIX, strlen(PREFIX)) != 0)
			continue;
		nearest = dfi__settings_nearest(*variable);
		if (nearest)
			dfi__log(DFI_LOG_WARN,
			    "%.*s is no setting and has no effect: the nearest "
			    "one is %s ('dfi-info config' lists all)",
			    (int)min_u64(name_length(*variable), 200),
			    *variable, nearest);
	}
}

void dfi__settings_check_environment(void)
{
	static atomic_flag checked = ATOMIC_FLAG_INIT;

	/* Other threads do not wait; a forked child does not warn again. */
	if (!atomic_flag_test_and_set(&checked))
		check();
}
