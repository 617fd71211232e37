/* SPDX-License-Identifier: Apache-2.0 */
/* A recursive-descent parser. */
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
	/* Columns' names in the order of the text; GROUP BY comes last. */
	char item_columns[MAX_ITEMS][MAX_NAME];
};

static int expected(const struct parser *parser, const char *what)
{
	size_t column = (size_t)(parser->at - parser->text) + 1;

	if (!*parser->at)
		return complain("query, column %zu: expected %s, but the query "
				"ends here",
		    column, what);
	return complain("query, column %zu: expected %s, not '%.20s'", column,
	    what, parser->at);
}

static int too_long(const struct parser *parser, size_t room)
{
	return complain("query, column %zu: the name has more than %zu bytes",
	    (size_t)(parser->at - parser->text) + 1, room - 1);
}

static void skip_spaces(struct parser *parser)
{
	while (isspace((unsigned char)*parser->at))
		parser->at++;
}

/* Also of UTF-8 letters, whose bytes are all above ASCII. */
static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c > 127;
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
	const char *start = parser->at;
	size_t n = 0;

	for (parser->at++; *parser->at; parser->at++) {
		if (*parser->at == '"' && *++parser->at != '"') {
			to[n] = '\0';
			return 0;
		}
		if (n + 1 >= room)
			return too_long(parser, room);
		to[n++] = *parser->at;
	}
	return complain("query, column %zu: the quote has no end",
	    (size_t)(start - parser->text) + 1);
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
		return too_long(parser, room);
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
	uint32_t function, uses;
} functions[] = {
	{ "count", DFI_COUNT, USE_NULLS },
	{ "sum", DFI_SUM, USE_NULLS | USE_SUM },
	{ "min", DFI_MIN, USE_NULLS | USE_MIN },
	{ "max", DFI_MAX, USE_NULLS | USE_MAX },
	{ "avg", DFI_AVG, USE_NULLS | USE_SUM },
};
#define N_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

/* Take "sum (" if it is there; otherwise the name is a column's. */
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
	uint32_t i = parser->query->n_items;
	struct query_item *item;
	const char *from, *end;

	if (i == MAX_ITEMS)
		return complain(
		    "query: more than %d items are selected", MAX_ITEMS);
	item = &parser->query->items[parser->query->n_items++];
	skip_spaces(parser);
	from = parser->at;
	item->function = take_function(parser);
	/* An empty name: COUNT(*). */
	if (item->function == DFI_COUNT && take_sign(parser, '*'))
		item->column = NO_COLUMN;
	else if (take_column(parser, parser->item_columns[i]))
		return -1;
	if (item->function && !take_sign(parser, ')'))
		return expected(parser, ")");
	end = parser->at;
	if (!item->function && take_sign(parser, '('))
		return complain("query, column %zu: no function is called "
				"'%s': there are COUNT, SUM, MIN, MAX and AVG",
		    (size_t)(from - parser->text) + 1, parser->item_columns[i]);
	if (take_keyword(parser, "as"))
		return take_column(parser, item->name);
	if (!item->function) {
		memcpy(item->name, parser->item_columns[i], MAX_NAME);
		return 0;
	}
	/* "sum(price)", as it stands there. */
	snprintf(
	    item->name, sizeof(item->name), "%.*s", (int)(end - from), from);
	return 0;
}

/* Find the column of this name among group-by columns, or among the others. */
static uint32_t find_column(
    const struct query *query, const char *name, bool grouped)
{
	uint32_t i = grouped ? 0 : query->n_keys;
	uint32_t end = grouped ? query->n_keys : query->n_columns;

	for (; i < end; i++)
		if (strcmp(query->columns[i].name, name) == 0)
			return i;
	return NO_COLUMN;
}

static struct query_column *add_column(struct query *query, const char *name)
{
	struct query_column *column = &query->columns[query->n_columns++];

	snprintf(column->name, sizeof(column->name), "%s", name);
	return column;
}

/* A column that is listed twice groups like one that is listed once. */
static int take_keys(struct parser *parser)
{
	struct query *query = parser->query;
	char name[MAX_NAME];

	do {
		if (take_column(parser, name))
			return -1;
		if (find_column(query, name, true) != NO_COLUMN)
			continue;
		if (query->n_keys == MAX_KEYS)
			return complain("query: GROUP BY has more than %d "
					"columns",
			    MAX_KEYS);
		add_column(query, name);
		query->n_keys++;
	} while (take_sign(parser, ','));
	return 0;
}

/* A selected column must be equal in all rows of a group. */
static int resolve_items(struct parser *parser)
{
	struct query *query = parser->query;
	struct query_item *item = query->items;
	const char *name;
	uint32_t i, k;

	for (i = 0; i < query->n_items; i++, item++) {
		name = parser->item_columns[i];
		if (item->column == NO_COLUMN)
			continue;
		item->column = find_column(query, name, !item->function);
		if (item->column == NO_COLUMN && !item->function)
			return complain("query: column '%s' is not in GROUP "
					"BY: group by it, or aggregate it",
			    name);
		if (item->column == NO_COLUMN) {
			item->column = query->n_columns;
			add_column(query, name);
		}
		for (k = 0; k < N_FUNCTIONS; k++)
			if (functions[k].function == item->function)
				query->columns[item->column].uses |=
				    functions[k].uses;
	}
	return 0;
}

#define QUOTES                                                                 \
	"(with characters other than letters, digits and _./-+ a file's name " \
	"goes in double quotes)"

static int take_file(struct parser *parser)
{
	struct query *query = parser->query;

	if (take_name(parser, "./-+", query->file, sizeof(query->file),
		"a file's name " QUOTES))
		return -1;
	/* No other character ends a name: it is part of it. */
	if (*parser->at && *parser->at != ';' && parser->at[-1] != '"' &&
	    !isspace((unsigned char)*parser->at))
		return expected(parser, "a space " QUOTES);
	return 0;
}

int query_parse(const char *text, struct query *query)
{
	struct parser parser = { .text = text, .at = text, .query = query };

	memset(query, 0, sizeof(*query));
	if (!take_keyword(&parser, "select"))
		return expected(&parser, "SELECT");
	do {
		if (take_item(&parser))
			return -1;
	} while (take_sign(&parser, ','));
	if (!take_keyword(&parser, "from"))
		return expected(&parser, ", or FROM");
	if (take_file(&parser))
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
	return resolve_items(&parser);
}
