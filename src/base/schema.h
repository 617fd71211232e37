/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas: validity, comparison, copies and their text form. */
#ifndef DFI_BASE_SCHEMA_H
#define DFI_BASE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <dfi/schema.h>

/* 0, or -EINVAL with a text that names the field. */
int dfi__schema_check(const struct dfi_schema *schema);

/*
 * A copy in one block, with its strings. The caller frees it. NULL: no memory.
 */
struct dfi_schema *dfi__schema_copy(const struct dfi_schema *schema);

/*
 * Compare an endpoint's schema with the flow's: 0, or -EPROTOTYPE with a text
 * that names the first difference.
 */
int dfi__schema_match(const struct dfi_schema *flows,
    const struct dfi_schema *endpoints, const char *flow);

/* The field whose name is the first length bytes of name, or NULL. */
const struct dfi_field *dfi__schema_field(
    const struct dfi_schema *schema, const char *name, size_t length);

/* Whether a field of this type is an integer; and whether it is signed. */
bool dfi__type_is_integer(uint32_t type);
bool dfi__type_is_signed(uint32_t type);

/* Format as "key:uint64@0 tag:bytes[8]@8", cut to fit. */
void dfi__schema_text(const struct dfi_schema *schema, char *text, size_t size);

#endif
