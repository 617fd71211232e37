/* SPDX-License-Identifier: Apache-2.0 */
/* What the registry says of the members of an open flow. */
#ifndef DFI_FLOWS_DECLARE_MEMBERS_H
#define DFI_FLOWS_DECLARE_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "flows/descriptor/descriptor.h"
#include "flows/open/table.h"

struct dfi_member_info;
struct registry_value;

/* An entry of a side of a pair. */
struct side {
	uint64_t pair;
	bool is_target;
	uint32_t seat;
};

/*
 * Of a flow: its entries, the sides of pairs by pair, sources first, and who
 * owns its partitions.
 */
struct members {
	struct flow flow;
	struct registry_value *values;
	size_t n;
	struct side *sides;
	size_t n_sides;
	struct open_table table; /* the newest; number 0: there is none */
	void *table_memory;
	/* A bit for each partition, while a target's are read. */
	uint64_t *owned, *released, *taken;
};

/* Find the newest table. -ENOMEM. */
int dfi__members_read_table(struct members *members);

/* Fill in which partitions a target owns, and whether it leaves. */
void dfi__members_partitions(
    struct members *members, struct dfi_member_info *info);

#endif
