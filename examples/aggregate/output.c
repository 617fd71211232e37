/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_text(const char *text, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (strchr(",\"\r\n", text[i]))
			break;
	if (i == size) {
		fwrite(text, 1, size, stdout);
		return;
	}
	putchar('"');
	for (i = 0; i < size; i++) {
		if (text[i] == '"')
			putchar('"');
		putchar(text[i]);
	}
	putchar('"');
}

/* With a point also where it is whole, as SQL shells do. */
static void put_real(double real)
{
	char text[64];

	snprintf(text, sizeof(text), "%.15g", real);
	printf("%s%s", text,
	    strspn(text, "-0123456789") == strlen(text) ? ".0" : "");
}

static void put_field(const struct dfi_field *field, const char *tuple)
{
	const char *at = tuple + field->offset;
	uint64_t integer;
	double real;

	switch (field->type) {
	case DFI_BYTES:
		put_text(at, strnlen(at, field->size));
		return;
	case DFI_DOUBLE:
		memcpy(&real, at, sizeof(real));
		put_real(real);
		return;
	case DFI_UINT64:
		memcpy(&integer, at, sizeof(integer));
		printf("%" PRIu64, integer);
		return;
	default:
		memcpy(&integer, at, sizeof(integer));
		printf("%" PRId64, (int64_t)integer);
		return;
	}
}

void output_header(const struct query *query)
{
	uint32_t i;

	for (i = 0; i < query->n_items; i++) {
		if (i)
			putchar(',');
		put_text(query->items[i].name, strlen(query->items[i].name));
	}
	putchar('\n');
}

static uint32_t key_number(const struct query *query, const char *column)
{
	uint32_t k = 0;

	while (strcmp(query->keys[k], column) != 0)
		k++;
	return k;
}

void output_row(const struct query *query, const struct dfi_schema *schema,
    const char *tuple)
{
	uint32_t aggregate = query->n_keys, i;

	for (i = 0; i < query->n_items; i++) {
		if (i)
			putchar(',');
		put_field(&schema->fields[query->items[i].function
				  ? aggregate++
				  : key_number(query, query->items[i].column)],
		    tuple);
	}
	putchar('\n');
}
