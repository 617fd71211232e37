/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folding: tuples, or records, into records. The functions are chosen when a
 * plan is made, one for each kind and type; so no type is looked at per tuple.
 */
#ifndef DFI_FLOWS_AGGREGATE_FOLD_H
#define DFI_FLOWS_AGGREGATE_FOLD_H

#include <stdint.h>
#include "plan.h"

struct fold_functions {
	/*
	 * n tuples, tuple i into records[i]; two may be the same. from points
	 * to the first tuple, and tuples are stride bytes apart.
	 */
	void (*each)(const struct fold *fold, const char *from, size_t stride,
	    uint64_t *const *records, uint32_t n);
	/* All n of them into one. */
	void (*all)(const struct fold *fold, const char *from, size_t stride,
	    uint64_t *record, uint64_t n);
};

/* Of a plan's fold; every fold that a plan can have has some. */
const struct fold_functions *dfi__fold_functions(const struct fold *fold);

/* n tuples into their records, or all into one: all folds of a plan. */
void dfi__fold_each(const struct plan *plan, const char *tuples,
    uint64_t *const *records, uint32_t n);
void dfi__fold_all(
    const struct plan *plan, const char *tuples, uint64_t *record, uint64_t n);

/* n records, which are stride bytes apart, into their records. */
void dfi__fold_records(const struct plan *plan, const char *from, size_t stride,
    uint64_t *const *records, uint32_t n);

#endif
