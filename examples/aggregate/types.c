/* SPDX-License-Identifier: Apache-2.0 */
#include "types.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/complain.h"

static const char *const type_names[] = {
	[GIVEN_INTEGER] = "integer",
	[GIVEN_REAL] = "real",
	[GIVEN_TEXT] = "text",
};

static int unknown_column(const struct query *query, const char *name)
{
	char list[1024] = "no columns";
	size_t n = 0;
	uint32_t i;

	for (i = 0; i < query->n_columns && n < sizeof(list); i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s'%s'",
		    i ? ", " : "", query->columns[i].name);
	return complain("--types: column '%s' is not in the query, which has "
			"%s",
	    name, list);
}

/* One "name=type" of the option. */
static int give_type(
    const struct query *query, char *part, enum given_type given[MAX_COLUMNS])
{
	char *type = strrchr(part, '=');
	bool found = false, taken = false;
	uint32_t i;
	int t;

	if (!type)
		return complain("--types: '%s': expected NAME=integer, "
				"NAME=real or NAME=text",
		    part);
	*type++ = '\0';
	for (t = GIVEN_INTEGER; t <= GIVEN_TEXT; t++)
		if (strcmp(type, type_names[t]) == 0)
			break;
	if (t > GIVEN_TEXT)
		return complain("--types: column '%s': '%s' is no type: there "
				"are integer, real and text",
		    part, type);
	for (i = 0; i < query->n_columns; i++) {
		if (strcmp(query->columns[i].name, part) != 0)
			continue;
		found = true;
		/* A column that is only counted may have any type. */
		if (t == GIVEN_TEXT && query->columns[i].uses > USE_NULLS)
			continue;
		given[i] = (enum given_type)t;
		taken = true;
	}
	if (!found)
		return unknown_column(query, part);
	return taken ? 0
		     : complain("--types: column '%s' is aggregated, so it is "
				"integer or real, not text",
			   part);
}

int types_parse(const struct query *query, const char *types,
    enum given_type given[MAX_COLUMNS])
{
	char *copy = strdup(types ? types : ""), *rest = NULL, *part;
	int ret = copy ? 0 : complain("no memory");

	for (part = copy ? strtok_r(copy, ",", &rest) : NULL; part && !ret;
	     part = strtok_r(NULL, ",", &rest))
		ret = give_type(query, part, given);
	free(copy);
	return ret;
}
