/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of JSON. */
#include "info.h"

#include <stdlib.h>
#include <string.h>

json_t *info_text_json(const char *text)
{
	json_t *string = json_string(text);
	char *copy;
	size_t i;

	if (string)
		return string;
	copy = strdup(text);
	if (!copy)
		return NULL;
	for (i = 0; copy[i]; i++)
		if (copy[i] < ' ' || copy[i] > '~')
			copy[i] = '?';
	string = json_string(copy);
	free(copy);
	return string;
}

json_t *info_optional_json(const char *text)
{
	return text ? info_text_json(text) : json_null();
}

int info_append(json_t *rows, json_t *row)
{
	return json_array_append_new(rows, row) < 0 ? NO_JSON : 0;
}
