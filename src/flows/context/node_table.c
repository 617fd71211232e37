/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a registry, to check whether a peer is one of them. A writer to
 * the registry may write any entry under any key, so an entry counts only under
 * the key of its own node. Otherwise it would outlive its node, or occur more
 * than once.
 */
#include "node_table.h"

#include <stdlib.h>
#include <string.h>

struct node_entry {
	struct node_entry *next;
	uint64_t id;
	uint8_t token[MEMBER_TOKEN_SIZE];
};

static struct node_entry *find(const struct node_table *table, uint64_t id)
{
	struct node_entry *node = table->first;

	while (node && node->id != id)
		node = node->next;
	return node;
}

void dfi__node_table_put(
    struct node_table *table, const char *key, const void *data, size_t size)
{
	uint8_t token[MEMBER_TOKEN_SIZE];
	struct node_entry *found;
	struct node node;

	if (dfi__node_decode(data, size, &node, token) < 0)
		return;
	if (!dfi__node_is_at(&node, key)) {
		dfi__log_seldom(&table->refused, DFI_LOG_WARN,
		    "registry: the entry '%.100s' is of another node: it is "
		    "ignored; no version of this library writes such entries",
		    key);
		return;
	}
	found = find(table, node.id);
	if (!found) {
		found = calloc(1, sizeof(*found));
		if (!found)
			return; /* the node will be refused */
		found->id = node.id;
		found->next = table->first;
		table->first = found;
	}
	memcpy(found->token, token, sizeof(token));
}

void dfi__node_table_delete(struct node_table *table, const char *key)
{
	struct node_entry **at, *node;
	uint64_t id = strtoull(key + strlen("nodes/"), NULL, 16);
	char own_key[KEY_SIZE];

	/*
	 * The same number can be written in other ways; put() refused such
	 * keys.
	 */
	dfi__node_key(own_key, id);
	if (strcmp(own_key, key) != 0)
		return;
	for (at = &table->first; *at && (*at)->id != id; at = &(*at)->next)
		;
	node = *at;
	if (!node)
		return;
	*at = node->next;
	free(node);
}

bool dfi__node_table_token(const struct node_table *table, uint64_t node,
    uint8_t token[MEMBER_TOKEN_SIZE])
{
	const struct node_entry *found = find(table, node);

	if (found)
		memcpy(token, found->token, MEMBER_TOKEN_SIZE);
	return found;
}

void dfi__node_table_free(struct node_table *table)
{
	struct node_entry *node;

	while ((node = table->first)) {
		table->first = node->next;
		free(node);
	}
}
