/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aggregates: what a flow of kind DFI_COMBINE computes of its tuples.
 *
 *	struct sale { uint64_t shop; int32_t price; };
 *	struct total { uint64_t shop; uint64_t count; int64_t sum; };
 *
 *	static const struct dfi_aggregate aggregates[] = {
 *		{ .function = DFI_COUNT, .name = "count" },
 *		{ .function = DFI_SUM, .field = "price", .name = "sum" },
 *	};
 *
 * A result tuple has the group_by fields, in their order and of their types,
 * then one field an aggregate. It is laid out as a C struct of these members:
 * each is aligned to its own size (bytes to 1), the tuple to the largest.
 * Results of a window (flow.h) come after those of the window before, else in
 * no order. A group without a tuple has no result, nor has a flow without any.
 */
#ifndef DFI_AGGREGATE_H
#define DFI_AGGREGATE_H

#include <stdint.h>

/*
 * What is computed of a group. Only the rounding of floating-point sums depends
 * on the order of tuples and on how they are spread over sources. A
 * floating-point field has type DFI_FLOAT or DFI_DOUBLE. DFI_BYTES and DFI_USER
 * can't be aggregated.
 */
enum dfi_aggregate_function {
	DFI_COUNT = 1, /* tuples; uint64 */
	/*
	 * int64 of signed and uint64 of unsigned integers, modulo 2^64 unless
	 * it is checked. double of floating-point fields: NaN if a tuple has
	 * NaN, or tuples have both infinities.
	 */
	DFI_SUM,
	/*
	 * Of the field's type, always a value that a tuple had. NaN counts only
	 * if the group has nothing else. Of 0.0 and -0.0 it may be either.
	 */
	DFI_MIN,
	DFI_MAX,
	/*
	 * double, also of integers: the sum divided by the count, each rounded
	 * to double. The sum of integers is exact and can't overflow. NaN is as
	 * in DFI_SUM.
	 */
	DFI_AVG,
};

enum {
	/*
	 * A sum of integers, at the end, that doesn't fit its result's type is
	 * -EOVERFLOW. The text names the aggregate and the group.
	 */
	DFI_AGGREGATE_CHECKED = 1,
};

#define DFI_MAX_AGGREGATES 255

struct dfi_aggregate {
	uint32_t function; /* enum dfi_aggregate_function */
	uint32_t flags;    /* DFI_AGGREGATE_CHECKED, of DFI_SUM */
	const char *field; /* of the flow's schema; NULL with DFI_COUNT */
	const char *name;  /* the result's field; NULL: "count", "sum_price" */
};

#endif
