/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folding tuples, or records, into records. A plan chooses its functions, by
 * kind and type, when it is made. So folding checks no types.
 */
#ifndef DFI_FLOWS_AGGREGATE_FOLD_H
#define DFI_FLOWS_AGGREGATE_FOLD_H

#include <stdint.h>
#include "plan.h"

struct fold_functions {
	/*
	 * Fold n tuples, tuple i into records[i]; records may repeat. from
	 * points to the first tuple, and tuples are stride bytes apart.
	 */
	void (*each)(const struct fold *fold, const char *from, size_t stride,
	    uint64_t *const *records, uint32_t n);
	/* Fold all n tuples into one record. */
	void (*all)(const struct fold *fold, const char *from, size_t stride,
	    uint64_t *record, uint64_t n);
};

/* The functions of a fold; every fold of a plan has them. */
const struct fold_functions *dfi__fold_functions(const struct fold *fold);

/* All folds of a plan: n tuples into their records, or all into one. */
void dfi__fold_each(const struct plan *plan, const char *tuples,
    uint64_t *const *records, uint32_t n);
void dfi__fold_all(
    const struct plan *plan, const char *tuples, uint64_t *record, uint64_t n);

/* Fold n records, stride bytes apart, into their records. */
void dfi__fold_records(const struct plan *plan, const char *from, size_t stride,
    uint64_t *const *records, uint32_t n);

#endif
