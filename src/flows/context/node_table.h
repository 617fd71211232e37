/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a registry and their tokens, as its events tell of them. */
#ifndef DFI_FLOWS_CONTEXT_NODE_TABLE_H
#define DFI_FLOWS_CONTEXT_NODE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/log.h"
#include "flows/descriptor/descriptor.h"

struct node_entry;

/* Zeroed at first; one thread's at a time. */
struct node_table {
	struct node_entry *first;
	struct log_throttle refused;
};

/*
 * What the registry has under a key that begins with "nodes/". An entry that
 * can't be read is left out, and one of another node than its key names, too,
 * with a warning: so there are never more than keys.
 */
void dfi__node_table_put(
    struct node_table *known, const char *key, const void *data, size_t size);
/* It is gone. */
void dfi__node_table_delete(struct node_table *known, const char *key);
/* False, if there is no such node. */
bool dfi__node_table_token(const struct node_table *known, uint64_t node,
    uint8_t token[MEMBER_TOKEN_SIZE]);
void dfi__node_table_free(struct node_table *known);

#endif
