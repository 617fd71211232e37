/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a registry and their tokens, as the registry's events report
 * them.
 */
#ifndef DFI_FLOWS_CONTEXT_NODE_TABLE_H
#define DFI_FLOWS_CONTEXT_NODE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/log.h"
#include "flows/descriptor/descriptor.h"

struct node_entry;

/* Initialise with zeroes. One thread at a time may use it. */
struct node_table {
	struct node_entry *first;
	struct log_throttle refused;
};

/*
 * Store the registry entry of a key that begins with "nodes/". It ignores, with
 * a warning, an entry that it can't read and an entry whose node is not the one
 * that the key names. So the table never has more nodes than the registry has
 * keys.
 */
void dfi__node_table_put(
    struct node_table *table, const char *key, const void *data, size_t size);
/* Remove the node of a key. */
void dfi__node_table_delete(struct node_table *table, const char *key);
/* Copy the node's token; false: there is no such node. */
bool dfi__node_table_token(const struct node_table *table, uint64_t node,
    uint8_t token[MEMBER_TOKEN_SIZE]);
void dfi__node_table_free(struct node_table *table);

#endif
