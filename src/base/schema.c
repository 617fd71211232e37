/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas. All of this runs when flows and endpoints are made, never per tuple.
 */
#include "schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "text.h"

static const struct {
	const char *name;
	uint32_t size; /* 0: any */
	bool integer, is_signed;
} types[] = {
	[DFI_INT8] = { "int8", 1, true, true },
	[DFI_INT16] = { "int16", 2, true, true },
	[DFI_INT32] = { "int32", 4, true, true },
	[DFI_INT64] = { "int64", 8, true, true },
	[DFI_UINT8] = { "uint8", 1, true, false },
	[DFI_UINT16] = { "uint16", 2, true, false },
	[DFI_UINT32] = { "uint32", 4, true, false },
	[DFI_UINT64] = { "uint64", 8, true, false },
	[DFI_FLOAT] = { "float", 4, false, true },
	[DFI_DOUBLE] = { "double", 8, false, true },
	[DFI_BYTES] = { "bytes", 0, false, false },
	[DFI_USER] = { "user", 0, false, false },
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

bool dfi__type_is_integer(uint32_t type)
{
	return type < N_TYPES && types[type].integer;
}

bool dfi__type_is_signed(uint32_t type)
{
	return type < N_TYPES && types[type].is_signed;
}

static bool name_is_valid(const char *name)
{
	size_t length = name ? strnlen(name, DFI_MAX_FIELD_NAME + 1) : 0;

	return length > 0 && length <= DFI_MAX_FIELD_NAME &&
	    strcspn(name, ", :@[]") == length && dfi__text_is_plain(name);
}

static int check_field(const struct dfi_schema *schema, uint32_t i)
{
	const struct dfi_field *field = &schema->fields[i];

	if (!name_is_valid(field->name))
		return dfi__fail(-EINVAL,
		    "schema: field %u: the name must have 1 to %d bytes of "
		    "UTF-8, without a blank, a control character or one of "
		    ",:@[]",
		    i, DFI_MAX_FIELD_NAME);
	if (field->reserved)
		return dfi__fail(-E2BIG,
		    "schema: field '%s': reserved is not 0: set it to 0, or "
		    "use a newer library that knows the member",
		    field->name);
	if (!field->type || field->type >= N_TYPES)
		return dfi__fail(-EINVAL,
		    "schema: field '%s': type %u is no enum dfi_type",
		    field->name, field->type);
	if (!field->size ||
	    (types[field->type].size && field->size != types[field->type].size))
		return dfi__fail(-EINVAL,
		    "schema: field '%s': %u bytes is no size of a %s",
		    field->name, field->size, types[field->type].name);
	if (field->type == DFI_USER && !name_is_valid(field->type_name))
		return dfi__fail(-EINVAL,
		    "schema: field '%s': a user type needs a type_name",
		    field->name);
	if ((uint64_t)field->offset + field->size > schema->tuple_size)
		return dfi__fail(-EINVAL,
		    "schema: field '%s' at bytes %u to %lu lies outside the "
		    "tuple of %u bytes",
		    field->name, field->offset,
		    (unsigned long)field->offset + field->size,
		    schema->tuple_size);
	if (dfi__schema_field(schema, field->name, strlen(field->name)) !=
	    field)
		return dfi__fail(
		    -EINVAL, "schema: two fields are called '%s'", field->name);
	return 0;
}

int dfi__schema_check(const struct dfi_schema *schema)
{
	uint32_t i;
	int ret;

	if (!schema || !schema->fields || !schema->n_fields)
		return dfi__fail(-EINVAL, "schema: no fields are given");
	if (schema->n_fields > DFI_MAX_FIELDS)
		return dfi__fail(-EINVAL, "schema: %u fields are more than %d",
		    schema->n_fields, DFI_MAX_FIELDS);
	if (!schema->tuple_size || schema->tuple_size > DFI_MAX_TUPLE_SIZE)
		return dfi__fail(-EINVAL,
		    "schema: a tuple of %u bytes is not between 1 and %u",
		    schema->tuple_size, DFI_MAX_TUPLE_SIZE);
	for (i = 0; i < schema->n_fields; i++) {
		ret = check_field(schema, i);
		if (ret < 0)
			return ret;
	}
	return 0;
}

const struct dfi_field *dfi__schema_field(
    const struct dfi_schema *schema, const char *name, size_t length)
{
	const char *have;
	uint32_t i;

	for (i = 0; i < schema->n_fields; i++) {
		have = schema->fields[i].name;
		if (have && strnlen(have, DFI_MAX_FIELD_NAME + 1) == length &&
		    !memcmp(have, name, length))
			return &schema->fields[i];
	}
	return NULL;
}

static size_t string_size(const char *string)
{
	return string ? strlen(string) + 1 : 0;
}

static const char *put_string(char **at, const char *string)
{
	char *put = *at;

	if (!string)
		return NULL;
	*at = stpcpy(put, string) + 1;
	return put;
}

struct dfi_schema *dfi__schema_copy(const struct dfi_schema *schema)
{
	size_t size = sizeof(*schema);
	struct dfi_schema *copy;
	struct dfi_field *fields;
	char *strings;
	uint32_t i;

	size += schema->n_fields * sizeof(schema->fields[0]);
	for (i = 0; i < schema->n_fields; i++)
		size += string_size(schema->fields[i].name) +
		    string_size(schema->fields[i].type_name);
	copy = malloc(size);
	if (!copy)
		return NULL;
	*copy = *schema;
	fields = (struct dfi_field *)(copy + 1);
	strings = (char *)(fields + schema->n_fields);
	for (i = 0; i < schema->n_fields; i++) {
		fields[i] = schema->fields[i];
		fields[i].name = put_string(&strings, fields[i].name);
		fields[i].type_name = put_string(&strings, fields[i].type_name);
	}
	copy->fields = fields;
	return copy;
}

static void field_text(const struct dfi_field *field, char *text, size_t size)
{
	const char *type = field->type == DFI_USER ? field->type_name
						   : types[field->type].name;

	if (types[field->type].size)
		snprintf(
		    text, size, "%s:%s@%u", field->name, type, field->offset);
	else
		snprintf(text, size, "%s:%s[%u]@%u", field->name, type,
		    field->size, field->offset);
}

static bool same_string(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

int dfi__schema_match(const struct dfi_schema *flows,
    const struct dfi_schema *endpoints, const char *flow)
{
	const struct dfi_field *a, *b;
	char a_text[192], b_text[192];
	uint32_t i;

	for (i = 0; i < flows->n_fields && i < endpoints->n_fields; i++) {
		a = &flows->fields[i];
		b = &endpoints->fields[i];
		if (same_string(a->name, b->name) &&
		    same_string(a->type_name, b->type_name) &&
		    a->type == b->type && a->offset == b->offset &&
		    a->size == b->size)
			continue;
		field_text(a, a_text, sizeof(a_text));
		field_text(b, b_text, sizeof(b_text));
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s': field %u is %s in the flow, but %s in the "
		    "endpoint's schema",
		    flow, i, a_text, b_text);
	}
	if (flows->n_fields != endpoints->n_fields)
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s': the flow has %u fields, the endpoint's schema "
		    "%u; field '%s' is only in the %s",
		    flow, flows->n_fields, endpoints->n_fields,
		    i < flows->n_fields ? flows->fields[i].name
					: endpoints->fields[i].name,
		    i < flows->n_fields ? "flow" : "endpoint's schema");
	if (flows->tuple_size != endpoints->tuple_size)
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s': a tuple has %u bytes in the flow, but %u in "
		    "the endpoint's schema",
		    flow, flows->tuple_size, endpoints->tuple_size);
	return 0;
}

void dfi__schema_text(const struct dfi_schema *schema, char *text, size_t size)
{
	char field[192];
	size_t used = 0;
	uint32_t i;

	text[0] = '\0';
	for (i = 0; i < schema->n_fields; i++) {
		field_text(&schema->fields[i], field, sizeof(field));
		if (used + strlen(field) + 2 > size)
			return;
		used += (size_t)snprintf(
		    text + used, size - used, "%s%s", i ? " " : "", field);
	}
}
