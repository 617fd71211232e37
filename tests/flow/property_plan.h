/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A random flow, determined by its seed: topology, tuple layout, geometry,
 * routing, and every tuple of every source. Both ends compute the bytes that
 * they expect, so the tests store and compare nothing later.
 */
#ifndef DFI_TESTS_PROPERTY_PLAN_H
#define DFI_TESTS_PROPERTY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <dfi/dfi.h>

#define PLAN_MAX_ENDS 4
#define PLAN_MAX_TUPLE 1024

struct plan {
	uint64_t seed;
	char name[64];
	uint32_t n_sources, n_targets;
	uint32_t n_tuples[PLAN_MAX_ENDS]; /* of each source */
	/* The tuple: a key, and bytes before and after it. */
	uint32_t tuple_size, key_offset, key_size, key_type;
	uint64_t key_mask; /* few keys cause skew */
	struct dfi_field fields[3];
	struct dfi_schema schema;
	uint32_t kind, replication, goal, routing;
	char key[32]; /* names, "" for the default */
	uint32_t radix_shift, radix_bits;
	int64_t splits[PLAN_MAX_ENDS];
	uint32_t segment_size, segment_count;
	/*
	 * The offset of the source's number in a tuple; tuple_size if it has no
	 * room.
	 */
	uint32_t source_at;
};

void plan_make(struct plan *plan, uint64_t seed);
int plan_create(const struct plan *plan, struct dfi *dfi);

/* Tuple number seq of a source. */
void plan_tuple(
    const struct plan *plan, uint32_t source, uint32_t seq, uint8_t *tuple);

/*
 * The target that a push names and at which the tuple must arrive, by a naive
 * computation. In a replicate flow it must arrive at all targets.
 */
uint32_t plan_route(const struct plan *plan, uint32_t source, uint32_t seq,
    const uint8_t *tuple);
bool plan_goes_to(const struct plan *plan, uint32_t source, uint32_t seq,
    const uint8_t *tuple, uint32_t target);

/* For dfi_source_attr.route; arg is the plan. */
uint32_t plan_function(void *arg, const void *tuple, uint32_t n_targets);

/* Describe the plan in one line, for failure messages. */
void plan_text(const struct plan *plan, char *text, size_t size);

#endif
