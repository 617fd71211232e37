/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which nodes there are, for who asks whether a peer is one. Who may write to
 * the registry may write anything under any key, so an entry counts only under
 * the key of its own node: else it would outlive that, and could be there more
 * than once.
 */
#include "node_table.h"

#include <stdlib.h>
#include <string.h>

struct known_node {
	struct known_node *next;
	uint64_t id;
	uint8_t token[MEMBER_TOKEN_SIZE];
};

static struct known_node *find(const struct known_nodes *known, uint64_t id)
{
	struct known_node *node = known->first;

	while (node && node->id != id)
		node = node->next;
	return node;
}

void dfi__known_put(
    struct known_nodes *known, const char *key, const void *data, size_t size)
{
	uint8_t token[MEMBER_TOKEN_SIZE];
	struct known_node *found;
	struct node node;

	if (dfi__node_decode(data, size, &node, token) < 0)
		return;
	if (!dfi__node_is_at(&node, key)) {
		dfi__log_seldom(&known->refused, DFI_LOG_WARN,
		    "registry: the entry '%.100s' is of another node: it is "
		    "ignored; no version of this library writes such entries",
		    key);
		return;
	}
	found = find(known, node.id);
	if (!found) {
		found = calloc(1, sizeof(*found));
		if (!found)
			return; /* it will be refused, and told so */
		found->id = node.id;
		found->next = known->first;
		known->first = found;
	}
	memcpy(found->token, token, sizeof(token));
}

void dfi__known_delete(struct known_nodes *known, const char *key)
{
	struct known_node **at, *node;
	uint64_t id = strtoull(key + strlen("nodes/"), NULL, 16);
	char own_key[KEY_SIZE];

	/* There are other ways to write a number, and those were refused. */
	dfi__node_key(own_key, id);
	if (strcmp(own_key, key) != 0)
		return;
	for (at = &known->first; *at && (*at)->id != id; at = &(*at)->next)
		;
	node = *at;
	if (!node)
		return;
	*at = node->next;
	free(node);
}

bool dfi__known_token(const struct known_nodes *known, uint64_t node,
    uint8_t token[MEMBER_TOKEN_SIZE])
{
	const struct known_node *found = find(known, node);

	if (found)
		memcpy(token, found->token, MEMBER_TOKEN_SIZE);
	return found;
}

void dfi__known_free(struct known_nodes *known)
{
	struct known_node *node;

	while ((node = known->first)) {
		known->first = node->next;
		free(node);
	}
}
