/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headers.sh compiles this in C and C++: a use of each public macro that makes
 * a value.
 */
#ifndef DFI_CHECKS_MACROS_H
#define DFI_CHECKS_MACROS_H

#include <dfi/dfi.h>

struct every_type {
	uint64_t u64;
	int64_t i64;
	uint32_t u32;
	int32_t i32;
	uint16_t u16;
	int16_t i16;
	uint8_t u8;
	int8_t i8;
	float f32;
	double f64;
	char bytes[12];
	long own[2];
};

extern const struct dfi_field every_field[];
extern const struct dfi_schema every_schema;
const struct dfi_field every_field[] = {
#ifndef __cplusplus
	DFI_FIELD(struct every_type, u64),
	DFI_FIELD(struct every_type, i64),
	DFI_FIELD(struct every_type, u32),
	DFI_FIELD(struct every_type, i32),
	DFI_FIELD(struct every_type, u16),
	DFI_FIELD(struct every_type, i16),
	DFI_FIELD(struct every_type, u8),
	DFI_FIELD(struct every_type, i8),
	DFI_FIELD(struct every_type, f32),
	DFI_FIELD(struct every_type, f64),
#else
	DFI_FIELD_AS(struct every_type, u64, DFI_UINT64),
#endif
	DFI_FIELD_AS(struct every_type, bytes, DFI_BYTES),
	DFI_FIELD_USER(struct every_type, own, "own"),
};
const struct dfi_schema every_schema = DFI_SCHEMA(
    struct every_type, every_field);

uint32_t every_attr(void);
uint32_t every_attr(void)
{
	struct dfi_attr context = DFI_ATTR_INIT;
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_source_attr source = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target = DFI_TARGET_ATTR_INIT;
	struct dfi_target_group_attr group = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_combiner_attr combiner = DFI_COMBINER_ATTR_INIT;
	struct dfi_registry_attr registry = DFI_REGISTRY_ATTR_INIT;

	return context.size + flow.size + source.size + target.size +
	    group.size + combiner.size + registry.size;
}

const char *every_error(int err);
const char *every_error(int err)
{
	switch (err) {
#define X(code, text) \
	case code:    \
		return text;
		DFI_ERRORS(X)
#undef X
	default:
		return "";
	}
}

#endif
