/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas: the layout of a flow's tuples.
 *
 * A tuple is a struct of fixed size without pointers. Its schema is a constant
 * table:
 *
 *	struct kv { uint64_t key, val; };
 *	static const struct dfi_field kv_fields[] = {
 *		DFI_FIELD(struct kv, key),
 *		DFI_FIELD(struct kv, val),
 *	};
 *	static const struct dfi_schema kv_schema =
 *	    DFI_SCHEMA(struct kv, kv_fields);
 *
 * The flow's entry in the registry has the schema. An endpoint that declares
 * another one is refused with a text that names the field.
 */
#ifndef DFI_SCHEMA_H
#define DFI_SCHEMA_H

#include <stddef.h>
#include <stdint.h>
#include <dfi/export.h>

/* Types of the LP64 model. */
enum dfi_type {
	DFI_INT8 = 1,
	DFI_INT16,
	DFI_INT32,
	DFI_INT64,
	DFI_UINT8,
	DFI_UINT16,
	DFI_UINT32,
	DFI_UINT64,
	DFI_FLOAT,
	DFI_DOUBLE,
	DFI_BYTES, /* an array of bytes, compared and hashed whole */
	DFI_USER,  /* the application's own type, known by its type_name */
};

/* Limits: what dfi_flow_create() accepts. */
#define DFI_MAX_FIELDS 256
#define DFI_MAX_FIELD_NAME 63
#define DFI_MAX_TUPLE_SIZE (1u << 20)

/*
 * One field. Fields may overlap, like members of a union, and may leave bytes
 * out. The strings belong to the caller and must outlive the schema.
 */
struct dfi_field {
	const char *name;
	const char *type_name; /* for DFI_USER, else NULL */
	uint32_t type;         /* enum dfi_type */
	uint32_t offset;       /* in bytes from the start of the tuple */
	uint32_t size;         /* in bytes */
	uint32_t reserved;     /* 0 */
};

struct dfi_schema {
	const struct dfi_field *fields;
	uint32_t n_fields;
	uint32_t tuple_size; /* in bytes; padding included */
};

#define DFI_FIELD_OF(struct_type, member, dfi_type, type_name)                 \
	{                                                                      \
#member, (type_name), (dfi_type),                              \
		    DFI_CAST(uint32_t, offsetof(struct_type, member)),         \
		    DFI_CAST(                                                  \
			uint32_t, sizeof(DFI_CAST(struct_type *, 0)->member)), \
		    0                                                          \
	}

/* A field whose type is given: byte arrays, and every field in C++. */
#define DFI_FIELD_AS(struct_type, member, dfi_type) \
	DFI_FIELD_OF(struct_type, member, dfi_type, NULL)

/* A field of the application's own type, which peers must call the same. */
#define DFI_FIELD_USER(struct_type, member, name) \
	DFI_FIELD_OF(struct_type, member, DFI_USER, name)

#ifndef __cplusplus
/* A field whose DFI type follows from its C type, or it does not compile. */
#define DFI_FIELD(struct_type, member)                       \
	DFI_FIELD_AS(struct_type, member,                    \
	    _Generic(((struct_type *)0)->member, signed char \
		     : DFI_INT8, short                       \
		     : DFI_INT16, int                        \
		     : DFI_INT32, long                       \
		     : DFI_INT64, long long                  \
		     : DFI_INT64, unsigned char              \
		     : DFI_UINT8, unsigned short             \
		     : DFI_UINT16, unsigned int              \
		     : DFI_UINT32, unsigned long             \
		     : DFI_UINT64, unsigned long long        \
		     : DFI_UINT64, float                     \
		     : DFI_FLOAT, double                     \
		     : DFI_DOUBLE))
#endif

/* The schema of struct_type from its array of fields. */
#define DFI_SCHEMA(struct_type, field_array)                             \
	{                                                                \
		(field_array),                                           \
		    DFI_CAST(uint32_t,                                   \
			sizeof(field_array) / sizeof((field_array)[0])), \
		    DFI_CAST(uint32_t, sizeof(struct_type))              \
	}

#endif
