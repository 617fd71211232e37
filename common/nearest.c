/* SPDX-License-Identifier: Apache-2.0 */
/* The optimal string alignment distance. */
#include "nearest.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "complain.h"

#define MAX_SIZE 63

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned name_distance(const char *a, size_t n, const char *b, size_t m)
{
	/* Of prefixes: row i % 3 is of the first i bytes of a. */
	unsigned rows[3][MAX_SIZE + 1];
	unsigned *row, *above, *top;
	size_t i, j;

	n = n < MAX_SIZE ? n : MAX_SIZE;
	m = m < MAX_SIZE ? m : MAX_SIZE;
	for (j = 0; j <= m; j++)
		rows[0][j] = (unsigned)j;
	for (i = 1; i <= n; i++) {
		row = rows[i % 3];
		above = rows[(i + 2) % 3];
		top = rows[(i + 1) % 3];
		row[0] = (unsigned)i;
		for (j = 1; j <= m; j++) {
			row[j] = least(above[j], row[j - 1]) + 1;
			row[j] = least(
			    row[j], above[j - 1] + !same(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) &&
			    same(a[i - 2], b[j - 1]))
				row[j] = least(row[j], top[j - 2] + 1);
		}
	}
	return rows[n % 3][m];
}

const char *nearest_name(const char *name, const char *const *names)
{
	const char *nearest = NULL;
	unsigned smallest = UINT_MAX, distance;

	for (; *names; names++) {
		distance = name_distance(
		    name, strlen(name), *names, strlen(*names));
		if (distance < smallest) {
			smallest = distance;
			nearest = *names;
		}
	}
	return nearest;
}

/* ---- Options ---------------------------------------------------------------
 */

/* The options that argp adds. */
static const char *const of_argp[] = { "help", "usage" };
#define N_OF_ARGP (sizeof(of_argp) / sizeof(of_argp[0]))

struct search {
	const char *name;
	size_t size;
	const char *nearest;
	unsigned least;
	bool found; /* it is one, or the beginning of one */
};

static void look_at(struct search *search, const char *name)
{
	unsigned distance;

	if (strncmp(search->name, name, search->size) == 0)
		search->found = true;
	distance = name_distance(
	    search->name, search->size, name, strlen(name));
	if (distance >= search->least)
		return;
	search->least = distance;
	search->nearest = name;
}

static void look_at_all(struct search *search, const struct argp *argp)
{
	const struct argp_option *option = argp->options;
	const struct argp_child *child = argp->children;

	for (; option && (option->name || option->doc); option++)
		if (option->name)
			look_at(search, option->name);
	for (; child && child->argp; child++)
		look_at_all(search, child->argp);
}

int options_check(const struct argp *argp, char *const *argv)
{
	struct search search;
	size_t i;

	for (argv++; *argv && strcmp(*argv, "--") != 0; argv++) {
		if (strncmp(*argv, "--", 2) != 0)
			continue;
		search = (struct search){ .name = *argv + 2,
			.least = UINT_MAX };
		search.size = strcspn(search.name, "=");
		look_at_all(&search, argp);
		for (i = 0; i < N_OF_ARGP; i++)
			look_at(&search, of_argp[i]);
		if (argp_program_version)
			look_at(&search, "version");
		if (!search.found)
			return complain("there is no option --%.*s: the "
					"nearest is --%s (--help lists all)",
			    (int)search.size, search.name, search.nearest);
	}
	return 0;
}
