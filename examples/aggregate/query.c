/* SPDX-License-Identifier: Apache-2.0 */
/* A parser by recursive descent; there is little to descend into. */
#include "query.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "../../common/complain.h"

struct parser {
	const char *text, *at;
	struct query *query;
};

static int expected(const struct parser *parser, const char *what)
{
	return complain("query, column %zu: expected %s, not '%.20s'",
	    (size_t)(parser->at - parser->text) + 1, what, parser->at);
}

static void skip_spaces(struct parser *parser)
{
	while (isspace((unsigned char)*parser->at))
		parser->at++;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Take a keyword if it is there. */
static bool take_keyword(struct parser *parser, const char *keyword)
{
	size_t size = strlen(keyword);

	skip_spaces(parser);
	if (strncasecmp(parser->at, keyword, size) != 0 ||
	    is_word(parser->at[size]))
		return false;
	parser->at += size;
	return true;
}

static bool take_sign(struct parser *parser, char sign)
{
	skip_spaces(parser);
	if (*parser->at != sign)
		return false;
	parser->at++;
	return true;
}

/* "" in quotes is one quote. */
static int take_quoted(struct parser *parser, char *to, size_t room)
{
	size_t n = 0;

	for (parser->at++; *parser->at; parser->at++) {
		if (*parser->at == '"' && *++parser->at != '"') {
			to[n] = '\0';
			return 0;
		}
		if (n + 1 >= room)
			return expected(parser, "a shorter name");
		to[n++] = *parser->at;
	}
	return expected(parser, "a closing quote");
}

static int take_name(struct parser *parser, const char *others, char *to,
    size_t room, const char *what)
{
	size_t n = 0;

	skip_spaces(parser);
	if (*parser->at == '"')
		return take_quoted(parser, to, room);
	while (is_word(parser->at[n]) ||
	    (parser->at[n] && strchr(others, parser->at[n])))
		n++;
	if (!n)
		return expected(parser, what);
	if (n >= room)
		return expected(parser, "a shorter name");
	memcpy(to, parser->at, n);
	to[n] = '\0';
	parser->at += n;
	return 0;
}

static int take_column(struct parser *parser, char *to)
{
	return take_name(parser, "", to, MAX_NAME, "a column's name");
}

static const struct {
	const char *name;
	uint32_t function;
} functions[] = {
	{ "count", DFI_COUNT },
	{ "sum", DFI_SUM },
	{ "min", DFI_MIN },
	{ "max", DFI_MAX },
	{ "avg", DFI_AVG },
};
#define N_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

/* "sum (" if it is there; else the name is a column's. */
static uint32_t take_function(struct parser *parser)
{
	const char *before = parser->at;
	size_t i;

	for (i = 0; i < N_FUNCTIONS; i++) {
		if (take_keyword(parser, functions[i].name) &&
		    take_sign(parser, '('))
			return functions[i].function;
		parser->at = before;
	}
	return 0;
}

static int take_item(struct parser *parser)
{
	struct query_item *item;
	const char *from, *end;

	if (parser->query->n_items == MAX_ITEMS)
		return expected(parser, "fewer items");
	item = &parser->query->items[parser->query->n_items++];
	skip_spaces(parser);
	from = parser->at;
	item->function = take_function(parser);
	if (item->function == DFI_COUNT) {
		if (!take_sign(parser, '*'))
			return expected(parser, "*");
	} else if (take_column(parser, item->column)) {
		return -1;
	}
	if (item->function && !take_sign(parser, ')'))
		return expected(parser, ")");
	end = parser->at;
	if (take_keyword(parser, "as"))
		return take_column(parser, item->name);
	if (!item->function) {
		memcpy(item->name, item->column, sizeof(item->name));
		return 0;
	}
	/* "sum(price)", as it stands there. */
	snprintf(
	    item->name, sizeof(item->name), "%.*s", (int)(end - from), from);
	return 0;
}

static int take_keys(struct parser *parser)
{
	do {
		if (parser->query->n_keys == MAX_ITEMS)
			return expected(parser, "fewer columns");
		if (take_column(
			parser, parser->query->keys[parser->query->n_keys++]))
			return -1;
	} while (take_sign(parser, ','));
	return 0;
}

/* What is selected as it is must be the same in all of a group. */
static int check_items(const struct query *query)
{
	const struct query_item *item = query->items;
	bool aggregates = false;
	uint32_t i, k;

	for (i = 0; i < query->n_items; i++, item++) {
		if (item->function) {
			aggregates = true;
			continue;
		}
		for (k = 0; k < query->n_keys; k++)
			if (strcmp(query->keys[k], item->column) == 0)
				break;
		if (k == query->n_keys)
			return complain("query: column '%s' is not in GROUP "
					"BY: group by it, or aggregate it",
			    item->column);
	}
	if (!aggregates)
		return complain("query: nothing is aggregated: add COUNT(*)");
	return 0;
}

int query_parse(const char *text, struct query *query)
{
	struct parser parser = { text, text, query };

	memset(query, 0, sizeof(*query));
	if (!take_keyword(&parser, "select"))
		return expected(&parser, "SELECT");
	do {
		if (take_item(&parser))
			return -1;
	} while (take_sign(&parser, ','));
	if (!take_keyword(&parser, "from"))
		return expected(&parser, ", or FROM");
	if (take_name(&parser, "./-+", query->file, sizeof(query->file),
		"a file's name"))
		return -1;
	if (take_keyword(&parser, "group")) {
		if (!take_keyword(&parser, "by"))
			return expected(&parser, "BY");
		if (take_keys(&parser))
			return -1;
	}
	take_sign(&parser, ';');
	skip_spaces(&parser);
	if (*parser.at)
		return expected(&parser, "GROUP BY, or the end");
	return check_items(query);
}
