/* SPDX-License-Identifier: Apache-2.0 */
/* The optimal string alignment distance. */
#include "nearest.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

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
	/* Distances of prefixes: row i % 3 is of the first i bytes of a. */
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
