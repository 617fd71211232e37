/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong command lines; see usage.h. */
#include "usage.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "nearest.h"

#define MAX_TEXT 4096

void usage_error(const struct argp_state *state, const char *format, ...)
{
	char text[MAX_TEXT], plain[MAX_TEXT];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	argp_error(state, "%s", escape_text(plain, sizeof(plain), text));
}

/* The options that argp adds. */
static const char *const of_argp[] = { "help", "usage" };
#define N_OF_ARGP (sizeof(of_argp) / sizeof(of_argp[0]))

struct search {
	const char *name;
	size_t size;
	const char *nearest;
	unsigned least;
	/*
	 * The option that the text names or abbreviates. NULL: an option of
	 * argp.
	 */
	const char *found, *other;
	const struct argp_option *option;
	bool exact;
};

static void note_found(
    struct search *search, const char *name, const struct argp_option *option)
{
	bool exact = !name[search->size];

	if (search->found && !exact) {
		search->other = search->exact ? NULL : name;
		return;
	}
	search->found = name;
	search->option = option;
	search->exact = exact;
	if (exact)
		search->other = NULL;
}

static void look_at(
    struct search *search, const char *name, const struct argp_option *option)
{
	unsigned distance;

	if (strncmp(search->name, name, search->size) == 0)
		note_found(search, name, option);
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
			look_at(search, option->name, option);
	for (; child && child->argp; child++)
		look_at_all(search, child->argp);
}

/* Tells whether the next argument is the option's value. */
static bool takes_next(const struct argp_option *option)
{
	return option && option->arg && !(option->flags & OPTION_ARG_OPTIONAL);
}

static int check_long(const struct argp *argp, const char *name, bool *skips)
{
	struct search search = { .name = name, .least = UINT_MAX };
	size_t i;

	search.size = strcspn(name, "=");
	look_at_all(&search, argp);
	for (i = 0; i < N_OF_ARGP; i++)
		look_at(&search, of_argp[i], NULL);
	if (argp_program_version)
		look_at(&search, "version", NULL);
	if (!search.found)
		return complain("there is no option --%.*s: the nearest is "
				"--%s (--help lists all)",
		    (int)search.size, name, search.nearest);
	if (search.other)
		return complain("--%.*s is the beginning of --%s and of --%s: "
				"write more of it",
		    (int)search.size, name, search.found, search.other);
	*skips = !name[search.size] && takes_next(search.option);
	return 0;
}

/* Returns the option of one letter, or NULL. */
static const struct argp_option *find_short(const struct argp *argp, int letter)
{
	const struct argp_option *option = argp->options, *found;
	const struct argp_child *child = argp->children;

	for (; option && (option->name || option->doc); option++)
		if (option->key == letter)
			return option;
	for (; child && child->argp; child++) {
		found = find_short(child->argp, letter);
		if (found)
			return found;
	}
	return NULL;
}

/* Check letters up to the first one that takes the rest as its argument. */
static int check_short(
    const struct argp *argp, const char *letters, bool *skips)
{
	const struct argp_option *option;

	for (; *letters; letters++) {
		if (*letters == '?' ||
		    (*letters == 'V' && argp_program_version))
			continue;
		option = find_short(argp, (unsigned char)*letters);
		if (!option)
			return complain("there is no option -%c (--help lists "
					"all)",
			    *letters);
		if (option->arg) {
			*skips = !letters[1] && takes_next(option);
			return 0;
		}
	}
	return 0;
}

int options_check(const struct argp *argp, char *const *argv)
{
	bool skips;
	int ret;

	for (argv++; *argv && strcmp(*argv, "--") != 0; argv++) {
		if (**argv != '-')
			continue;
		skips = false;
		ret = (*argv)[1] == '-' ? check_long(argp, *argv + 2, &skips)
					: check_short(argp, *argv + 1, &skips);
		if (ret)
			return ret;
		if (skips && argv[1])
			argv++;
	}
	return 0;
}

bool number_read(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
	uintmax_t number;

	/*
	 * strtoumax() accepts blanks and signs, and turns -1 into the largest.
	 */
	if (!*text || text[strspn(text, "0123456789")])
		return false;
	errno = 0;
	number = strtoumax(text, NULL, 10);
	if (errno || number < min || number > max)
		return false;
	*value = number;
	return true;
}

uint64_t option_number(const struct argp_state *state, const char *option,
    const char *text, uint64_t min, uint64_t max)
{
	uint64_t value = min;

	if (!number_read(text, min, max, &value))
		usage_error(state,
		    "--%s: '%s' is not a whole number from %ju to %ju", option,
		    text, (uintmax_t)min, (uintmax_t)max);
	return value;
}

double option_real(const struct argp_state *state, const char *option,
    const char *text, double min, double max)
{
	/* Refuse blanks, signs, hexadecimal numbers, inf and nan. */
	bool decimal = *text && strchr(".0123456789", *text) &&
	    !text[strspn(text, ".0123456789eE+-")];
	char *end = NULL;
	double value = decimal ? strtod(text, &end) : -1;

	if (!decimal || *end || !(value >= min && value <= max))
		usage_error(state,
		    "--%s: '%s' is not a number from %.15g to %.15g", option,
		    text, min, max);
	return value;
}
