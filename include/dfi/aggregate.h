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
 * A result tuple has the fields that are grouped by, in their order and of
 * their types, and then one field for each aggregate. They lie as in a C struct
 * with these members: each is aligned to its own size (bytes to 1), the tuple
 * to the largest of them. Results come in no particular order, but those of one
 * window (flow.h) after those of the window before.
 *
 * A group exists when a tuple of it came: a flow without tuples has no results,
 * also where nothing is grouped by and all tuples are one group.
 */
#ifndef DFI_AGGREGATE_H
#define DFI_AGGREGATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What is computed of a group. No result depends on the order of tuples or on
 * how they are spread over sources, but for the rounding of floating-point
 * sums. A floating-point field here is one of type DFI_FLOAT or DFI_DOUBLE;
 * fields of DFI_BYTES and DFI_USER can't be aggregated.
 */
enum dfi_aggregate_function {
	DFI_COUNT = 1, /* tuples; uint64 */
	/*
	 * Of signed integers as int64, of unsigned ones as uint64: modulo 2^64
	 * unless it is checked. Floating-point as double: NaN if one tuple has
	 * NaN, or both infinities.
	 */
	DFI_SUM,
	/*
	 * Of the field's type, and always a value that a tuple had: where there
	 * is none, there is no group. NaN is passed over, so the result is NaN
	 * only if the group has nothing else. Of 0.0 and -0.0 it may be either.
	 */
	DFI_MIN,
	DFI_MAX,
	/*
	 * double, of integers, too: the sum divided by the count, each rounded
	 * to double. The sum of integers is exact, and can't overflow; of NaN
	 * it is as DFI_SUM says.
	 */
	DFI_AVG,
};

enum {
	/*
	 * A sum of integers that doesn't fit its result's type is -EOVERFLOW,
	 * with a text that names the aggregate and the group. What matters is
	 * the sum of all, not one on the way.
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

#ifdef __cplusplus
}
#endif

#endif
