/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses single arguments of options. argp ends the process on an error, with a
 * text that names the option.
 */
#include "arguments.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/usage.h"

uint64_t argument_number(struct argp_state *state, const char *option,
    const char *text, uint64_t min, uint64_t max)
{
	static const char suffixes[] = "KMG";
	const char *suffix;
	uint64_t n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 10);
	suffix = *end ? strchr(suffixes, *end) : NULL;
	if (suffix) {
		uint32_t shift = 10 * (uint32_t)(suffix - suffixes + 1);

		if (n > UINT64_MAX >> shift)
			errno = ERANGE;
		n <<= shift;
		end++;
	}
	if (errno || end == text || *end || !isdigit((unsigned char)*text) ||
	    n < min || n > max)
		usage_error(state, "--%s: '%s' is no number from %ju to %ju",
		    option, text, (uintmax_t)min, (uintmax_t)max);
	return n;
}

double argument_real(
    struct argp_state *state, const char *option, const char *text, double max)
{
	double x;
	char *end;

	x = strtod(text, &end);
	if (end == text || *end || !(x >= 0 && x <= max))
		usage_error(state, "--%s: '%s' is no number from 0 to %g",
		    option, text, max);
	return x;
}

const char *argument_name(
    struct argp_state *state, const char *option, const char *text, size_t max)
{
	static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijk"
					 "lmnopqrstuvwxyz0123456789._:-";
	size_t n = strspn(text, characters);

	if (n == 0 || n > max || text[n])
		usage_error(state,
		    "--%s: '%s' is no name of 1 to %zu letters, digits or any "
		    "of ._:-",
		    option, text, max);
	return text;
}

struct column_name argument_column(
    struct argp_state *state, const char *option, const char *text)
{
	struct column_name column = { INNER, NULL };

	if (strncmp(text, "outer:", 6) == 0)
		column.relation = OUTER;
	else if (strncmp(text, "inner:", 6) != 0)
		usage_error(state,
		    "--%s: '%s' is not inner:COLUMN or "
		    "outer:COLUMN",
		    option, text);
	column.name = strdup(text + 6);
	if (!column.name)
		argp_failure(state, 1, errno, "--%s", option);
	return column;
}

void argument_columns(
    struct argp_state *state, struct options *options, const char *text)
{
	char *copy = strdup(text), *next = copy, *name;
	struct column_name *columns;
	size_t n = options->n_columns;

	if (!copy)
		argp_failure(state, 1, errno, "--columns");
	while ((name = strsep(&next, ","))) {
		columns = realloc(options->columns, (n + 1) * sizeof(*columns));
		if (!columns)
			argp_failure(state, 1, errno, "--columns");
		options->columns = columns;
		columns[n++] = argument_column(state, "columns", name);
		options->n_columns = (uint32_t)n;
	}
	free(copy);
}
