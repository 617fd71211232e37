/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a loaded table, and the search for columns by name. */
#include "csv_input.h"
#include "csv_table.h"
#include "../../common/complain.h"
#include "../../common/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many columns an error lists if none has the requested name. */
#define MAX_LISTED 12
#define LIST_SIZE 1024

void *csv_grow(void *array, size_t *capacity, size_t n, size_t size)
{
	size_t wanted = *capacity * 2 > n ? *capacity * 2 : n;
	void *grown;

	if (n <= *capacity)
		return array;
	grown = reallocarray(array, wanted, size);
	if (grown)
		*capacity = wanted;
	return grown;
}

/* ---- Texts -----------------------------------------------------------------
 */

/* Text number i is null. Most columns have no nulls. */
static int set_null(struct texts *texts, uint64_t i)
{
	size_t had = texts->nulls_capacity;
	unsigned char *nulls;

	nulls = csv_grow(
	    texts->nulls, &texts->nulls_capacity, (size_t)(i / 8) + 1, 1);
	if (!nulls)
		return -1;
	memset(nulls + had, 0, texts->nulls_capacity - had);
	texts->nulls = nulls;
	nulls[i / 8] |= (unsigned char)(1 << i % 8);
	return 0;
}

int texts_add(struct texts *texts, const char *bytes, size_t size)
{
	size_t start = texts->n > 0 ? (size_t)texts->ends[texts->n - 1] : 0;
	uint64_t *ends;
	char *grown;

	grown = csv_grow(
	    texts->bytes, &texts->bytes_capacity, start + size + 1, 1);
	if (grown)
		texts->bytes = grown;
	ends = csv_grow(
	    texts->ends, &texts->ends_capacity, texts->n + 1, sizeof(*ends));
	if (ends)
		texts->ends = ends;
	if (!grown || !ends || (!bytes && set_null(texts, texts->n)))
		return complain("no memory for a table");
	if (size > 0)
		memcpy(texts->bytes + start, bytes, size);
	texts->ends[texts->n++] = start + size;
	return 0;
}

void texts_free(struct texts *texts)
{
	free(texts->bytes);
	free(texts->ends);
	free(texts->nulls);
	memset(texts, 0, sizeof(*texts));
}

void csv_unload(struct csv_table *table)
{
	uint64_t i;

	for (i = 0; table->columns && i < table->header.n; i++)
		texts_free(&table->columns[i]);
	free(table->columns);
	texts_free(&table->header);
	free(table->lines);
	memset(table, 0, sizeof(*table));
}

/* ---- Columns ---------------------------------------------------------------
 */

static struct text nearest_column(
    const struct csv_table *table, const char *name)
{
	struct text text, nearest = texts_get(&table->header, 0);
	unsigned least = UINT32_MAX, distance;
	uint64_t i;

	for (i = 0; i < table->header.n; i++) {
		text = texts_get(&table->header, i);
		distance = name_distance(
		    name, strlen(name), text.bytes, text.size);
		if (distance < least) {
			least = distance;
			nearest = text;
		}
	}
	return nearest;
}

/* "'city', 'price'": as many as fit. */
static void list_columns(const struct csv_table *table, char list[LIST_SIZE])
{
	uint64_t i, most = table->header.n;
	struct text text;
	size_t n = 0;

	if (most > MAX_LISTED)
		most = MAX_LISTED;
	for (i = 0; i < most && n < LIST_SIZE; i++) {
		text = texts_get(&table->header, i);
		n += (size_t)snprintf(list + n, LIST_SIZE - n, "%s'%.*s'",
		    i ? ", " : "", text.size < 60 ? (int)text.size : 60,
		    text.bytes);
	}
}

/* The header is one field, and contains another format's separator. */
static const char *other_separator(const struct csv_table *table)
{
	static const char *const names[] = { ";", "tabs", "|" };
	static const char separators[] = ";\t|";
	struct text text = texts_get(&table->header, 0);
	size_t i;

	for (i = 0; table->header.n == 1 && i < sizeof(separators) - 1; i++)
		if (memchr(text.bytes, separators[i], text.size))
			return names[i];
	return NULL;
}

/* Whether the bytes have the form of UTF-8; their meaning does not matter. */
static bool is_utf8(const char *bytes, size_t size)
{
	size_t more = 0, i;

	for (i = 0; i < size; i++) {
		unsigned char byte = (unsigned char)bytes[i];

		if (more ? (byte & 0xc0) != 0x80
			 : (byte > 0x7f && byte < 0xc2) || byte > 0xf4)
			return false;
		if (more)
			more--;
		else
			more = byte < 0xc2 ? 0U
			    : byte < 0xe0  ? 1U
			    : byte < 0xf0  ? 2U
					   : 3U;
	}
	return more == 0;
}

static int no_column(const struct csv_table *table, const char *name)
{
	const char *separator = other_separator(table);
	struct text nearest = nearest_column(table, name);
	char list[LIST_SIZE];

	list_columns(table, list);
	if (!is_utf8(table->header.bytes,
		(size_t)table->header.ends[table->header.n - 1]))
		return complain(
		    "%s: no column is named '%s': there are %s; the "
		    "header is not in UTF-8: convert the file "
		    "(iconv -f LATIN1, if it is that)",
		    table->file, name, list);
	if (separator)
		return complain("%s: no column is named '%s': there is only "
				"%s. Fields are separated by commas, not %s",
		    table->file, name, list, separator);
	if (table->header.n == 1)
		return complain("%s: no column is named '%s': there is only %s",
		    table->file, name, list);
	if (table->header.n <= MAX_LISTED)
		return complain("%s: no column is named '%s': there are %s",
		    table->file, name, list);
	return complain("%s: no column is named '%s': the nearest is '%.*s'; "
			"there are %s and %ju more",
	    table->file, name, nearest.size < 60 ? (int)nearest.size : 60,
	    nearest.bytes, list, (uintmax_t)(table->header.n - MAX_LISTED));
}

int64_t csv_column(const struct csv_table *table, const char *name)
{
	size_t size = strlen(name);
	int64_t found = -1;
	struct text text;
	uint64_t i;

	for (i = 0; i < table->header.n; i++) {
		text = texts_get(&table->header, i);
		if (text.size != size || memcmp(text.bytes, name, size) != 0)
			continue;
		if (found >= 0)
			return complain("%s: two columns are named '%s': give "
					"one another name in the header",
			    table->file, name);
		found = (int64_t)i;
	}
	return found < 0 ? no_column(table, name) : found;
}
