/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by key: shared by the sources of a combiner flow, its target, and the
 * hand-written loop. A tuple has a key, a value and more words. The value is
 * the word that a tuple of other flows has there.
 */
#ifndef DFI_BENCH_COMBINE_JOB_H
#define DFI_BENCH_COMBINE_JOB_H

#include <dfi/dfi.h>
#include "flow_job.h"

/* The schema has a field for the value: a tuple has at least 16 bytes. */
void value_schema_init(struct tuple_schema *schema, uint32_t tuple_size);

/* The schema of the results, which are sums. */
void result_schema_init(struct tuple_schema *schema, uint64_t n_groups);

/* The group of a tuple whose first word is this one. */
static force_inline uint64_t group_of(uint64_t word, uint64_t n_groups)
{
	uint64_t fraction = word * UINT64_C(0x9e3779b97f4a7c15);

	return (fraction >> 32) * n_groups >> 32;
}

/* Fill one tuple; if there are groups, its key is its group. */
static force_inline void tuple_fill_group(
    char *tuple, size_t size, struct pattern *pattern, uint64_t n_groups)
{
	uint64_t group = group_of(pattern_key(pattern), n_groups);

	tuple_fill(tuple, size, pattern);
	memcpy(tuple, &group, sizeof(group));
}

/* Send all tuples, but not the end. 0 or the library's error. */
int combine_send(struct sender *sender);

/*
 * Add up all results, or with plan->check verify each group's; count the bytes
 * that arrived as tuples. 0, the library's error, or -ENOMEM.
 */
int combine_receive(struct receiver *receiver);

#endif
