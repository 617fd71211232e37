/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas: which are valid, that every difference is reported with the field's
 * name, copies, and the text form.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "base/schema.h"

struct row {
	uint64_t key;
	int32_t count;
	float weight;
	char tag[6];
	char position[10];
};

static const struct dfi_field row_fields[] = {
	DFI_FIELD(struct row, key),
	DFI_FIELD(struct row, count),
	DFI_FIELD(struct row, weight),
	DFI_FIELD_AS(struct row, tag, DFI_BYTES),
	DFI_FIELD_USER(struct row, position, "point"),
};
#define N_FIELDS 5

/* A copy to spoil. */
static struct dfi_field fields[N_FIELDS];
static struct dfi_schema schema;

static void setup(void)
{
	memcpy(fields, row_fields, sizeof(fields));
	schema = (struct dfi_schema){ fields, N_FIELDS, sizeof(struct row) };
}

TestSuite(schema, .init = setup);

static void expect_text(const char *word)
{
	cr_assert(strstr(dfi_errmsg(), word) != NULL, "'%s' is not in '%s'",
	    word, dfi_errmsg());
}

static void refuse(const char *word)
{
	cr_assert_eq(dfi__schema_check(&schema), -EINVAL, "%s", word);
	expect_text(word);
	setup();
}

Test(schema, field_macros_say_what_the_compiler_knows)
{
	cr_assert_eq(fields[0].type, DFI_UINT64);
	cr_assert_eq(fields[1].type, DFI_INT32);
	cr_assert_eq(fields[1].offset, 8);
	cr_assert_eq(fields[1].size, 4);
	cr_assert_eq(fields[2].type, DFI_FLOAT);
	cr_assert_eq(fields[3].size, 6);
	cr_assert_str_eq(fields[4].name, "position");
	cr_assert_str_eq(fields[4].type_name, "point");
	cr_assert_eq(dfi__schema_check(&schema), 0);
}

Test(schema, field_names_are_limited)
{
	char name[DFI_MAX_FIELD_NAME + 2];

	memset(name, 'x', sizeof(name));
	name[DFI_MAX_FIELD_NAME] = '\0';
	fields[1].name = name;
	cr_assert_eq(dfi__schema_check(&schema), 0);
	name[DFI_MAX_FIELD_NAME] = 'x';
	name[DFI_MAX_FIELD_NAME + 1] = '\0';
	refuse("field 1");
	fields[1].name = "";
	refuse("field 1");
	fields[1].name = NULL;
	refuse("field 1");
	fields[2].name = "a,b";
	refuse("field 2");
	fields[2].name = "a b";
	refuse("field 2");
	fields[2].name = "a\033b";
	refuse("field 2");
	fields[2].name = "a\177b";
	refuse("a control character");
	fields[4].type_name = "a\rb";
	refuse("'position': a user type");
	fields[2].name = "key";
	refuse("two fields are called 'key'");
}

Test(schema, types_and_sizes_must_agree)
{
	fields[0].type = 0;
	refuse("'key'");
	fields[0].type = DFI_USER + 1;
	refuse("'key'");
	fields[0].type = UINT32_MAX;
	refuse("'key'");
	fields[1].size = 8;
	refuse("'count'");
	fields[1].size = 0;
	refuse("'count'");
	fields[3].size = 0;
	refuse("'tag'");
	fields[4].type_name = NULL;
	refuse("'position'");
	fields[4].type_name = "";
	refuse("'position'");
}

Test(schema, fields_lie_inside_the_tuple)
{
	fields[4].offset = sizeof(struct row) - 10;
	cr_assert_eq(dfi__schema_check(&schema), 0);
	fields[4].offset++;
	refuse("'position'");
	fields[4].offset = UINT32_MAX;
	refuse("'position'");
	fields[3].size = UINT32_MAX;
	refuse("'tag'");
}

Test(schema, sizes_are_limited)
{
	static struct dfi_field many[DFI_MAX_FIELDS + 1];
	static char names[DFI_MAX_FIELDS + 1][8];
	unsigned i;

	for (i = 0; i <= DFI_MAX_FIELDS; i++) {
		snprintf(names[i], sizeof(names[i]), "f%u", i);
		many[i] = (struct dfi_field){ names[i], NULL, DFI_UINT8, i, 1,
			0 };
	}
	schema = (struct dfi_schema){ many, DFI_MAX_FIELDS, 512 };
	cr_assert_eq(dfi__schema_check(&schema), 0);
	schema.n_fields++;
	refuse("257 fields");
	schema.tuple_size = DFI_MAX_TUPLE_SIZE;
	cr_assert_eq(dfi__schema_check(&schema), 0);
	schema.tuple_size++;
	refuse("1048577 bytes");
	schema.tuple_size = 0;
	refuse("0 bytes");
	schema.n_fields = 0;
	refuse("no fields");
	schema.fields = NULL;
	refuse("no fields");
	cr_assert_eq(dfi__schema_check(NULL), -EINVAL);
}

static const struct dfi_schema original = { row_fields, N_FIELDS,
	sizeof(struct row) };

static void mismatch(const char *word, const char *other)
{
	cr_assert_eq(dfi__schema_match(&original, &schema, "orders"),
	    -EPROTOTYPE, "%s", word);
	expect_text("flow 'orders'");
	expect_text(word);
	expect_text(other);
	/* And the other way round. */
	cr_assert_eq(
	    dfi__schema_match(&schema, &original, "orders"), -EPROTOTYPE);
	expect_text(word);
	expect_text(other);
	setup();
}

Test(schema, equal_ones_match)
{
	cr_assert_eq(dfi__schema_match(&original, &schema, "orders"), 0);
}

Test(schema, mismatch_names_the_field)
{
	fields[0].name = "id";
	mismatch("key:uint64@0", "id:uint64@0");
	fields[1].type = DFI_UINT32;
	mismatch("count:int32@8", "count:uint32@8");
	fields[2].offset = 16;
	mismatch("weight:float@12", "weight:float@16");
	fields[3].size = 5;
	mismatch("tag:bytes[6]@16", "tag:bytes[5]@16");
	fields[4].type_name = "vector";
	mismatch("position:point[10]@22", "position:vector[10]@22");
	schema.n_fields = 4;
	mismatch("'position'", "4");
	schema.tuple_size++;
	mismatch("32", "33");
}

Test(schema, field_is_found_by_the_length_of_its_name)
{
	cr_assert_eq(dfi__schema_field(&schema, "tag,key", 3), &fields[3]);
	cr_assert_null(dfi__schema_field(&schema, "tag,key", 2));
	cr_assert_null(dfi__schema_field(&schema, "tag,key", 4));
	cr_assert_null(dfi__schema_field(&schema, "", 0));
}

Test(schema, copy_outlives_the_original)
{
	char name[] = "key", type_name[] = "point";
	struct dfi_schema *copy;

	fields[0].name = name;
	fields[4].type_name = type_name;
	copy = dfi__schema_copy(&schema);
	cr_assert_not_null(copy);
	memset(name, 'x', 3);
	memset(type_name, 'x', 5);
	memset(fields, 0, sizeof(fields));
	cr_assert_eq(dfi__schema_match(&original, copy, "orders"), 0);
	cr_assert_null(copy->fields[0].type_name);
	free(copy);
}

Test(schema, text_is_cut_at_a_whole_field)
{
	char text[256];

	dfi__schema_text(&schema, text, sizeof(text));
	cr_assert_str_eq(text,
	    "key:uint64@0 count:int32@8 weight:float@12 tag:bytes[6]@16 "
	    "position:point[10]@22");
	dfi__schema_text(&schema, text, 20);
	cr_assert_str_eq(text, "key:uint64@0");
	dfi__schema_text(&schema, text, 1);
	cr_assert_str_eq(text, "");
}

Test(schema, types_know_whether_they_are_integers)
{
	uint32_t type;

	for (type = 0; type < DFI_USER + 2; type++) {
		cr_assert_eq(dfi__type_is_integer(type),
		    type >= DFI_INT8 && type <= DFI_UINT64);
		if (type >= DFI_INT8 && type <= DFI_UINT64)
			cr_assert_eq(
			    dfi__type_is_signed(type), type <= DFI_INT64);
	}
}
