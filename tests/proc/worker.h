/* SPDX-License-Identifier: Apache-2.0 */
/* The tuples that worker.c and test_processes.c exchange. */
#ifndef DFI_TESTS_WORKER_H
#define DFI_TESTS_WORKER_H

#include <stdint.h>

#include <dfi/dfi.h>

struct worker_tuple {
	uint64_t key;
	uint32_t source;
	uint32_t number; /* from 1 */
};

static const struct dfi_field worker_fields[] = {
	DFI_FIELD(struct worker_tuple, key),
	DFI_FIELD(struct worker_tuple, source),
	DFI_FIELD(struct worker_tuple, number),
};
static const struct dfi_schema worker_schema = DFI_SCHEMA(
    struct worker_tuple, worker_fields);

/* The same layout with a field of another name. */
static const struct dfi_field worker_other_fields[] = {
	DFI_FIELD(struct worker_tuple, key),
	{ "origin", NULL, DFI_UINT32, 8, 4, 0 },
	DFI_FIELD(struct worker_tuple, number),
};
static const struct dfi_schema worker_other_schema = DFI_SCHEMA(
    struct worker_tuple, worker_other_fields);

static inline void worker_make_tuple(
    uint32_t source, uint32_t number, struct worker_tuple *tuple)
{
	tuple->key = ((uint64_t)source << 32 | number) *
	    UINT64_C(0x9e3779b97f4a7c15);
	tuple->source = source;
	tuple->number = number + 1;
}

#endif
