/* SPDX-License-Identifier: Apache-2.0 */
/* Reads which partitions the targets of an open flow own. */
#include "members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <dfi/open_flow.h>
#include "base/error.h"
#include "flows/open/keys.h"
#include "flows/open/value.h"
#include "present.h"
#include "registry/client/client.h"

/* Whether a value's key is one of the flow, and which. */
static bool read_key(const struct members *members,
    const struct registry_value *value, struct open_key *key)
{
	const struct flow *flow = &members->flow;
	char prefix[KEY_SIZE];
	size_t length;

	dfi__flow_prefix(prefix, flow);
	length = strlen(prefix);
	return !strncmp(value->key, prefix, length) &&
	    dfi__open_key_read(
		value->key + length, flow->n_sources, flow->n_targets, key);
}

int dfi__members_read_table(struct members *members)
{
	const struct flow *flow = &members->flow;
	const struct registry_value *newest = NULL;
	uint64_t number = 0;
	struct open_key key;
	uint32_t words = open_bits_words(flow->partitions);
	size_t size, i;

	if (!flow->partitions)
		return 0;
	for (i = 0; i < members->n; i++)
		if (read_key(members, &members->values[i], &key) &&
		    key.kind == OPEN_KEY_TABLE && key.number > number) {
			newest = &members->values[i];
			number = key.number;
		}
	size = dfi__open_table_size(flow->partitions, flow->n_targets);
	members->table_memory = malloc(
	    3 * words * sizeof(members->owned[0]) + size);
	if (!members->table_memory)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	members->owned = members->table_memory;
	members->released = members->owned + words;
	members->taken = members->released + words;
	dfi__open_table_init(&members->table, flow->partitions, flow->n_targets,
	    members->taken + words);
	if (newest &&
	    !dfi__open_table_decode(
		newest->data, newest->size, &members->table))
		members->table.number = 0;
	return 0;
}

/* The entry of a target of this kind, or NULL. */
static const struct registry_value *find_own(const struct members *members,
    const struct dfi_member_info *info, enum open_key_kind kind)
{
	struct open_key key;
	size_t i;

	for (i = 0; i < members->n; i++)
		if (read_key(members, &members->values[i], &key) &&
		    key.kind == kind && key.target == info->seat &&
		    key.incarnation == info->incarnation)
			return &members->values[i];
	return NULL;
}

void dfi__members_partitions(
    struct members *members, struct dfi_member_info *info)
{
	uint64_t *owned = members->owned, *released = members->released;
	const uint64_t *taken = members->taken;
	const struct open_table *table = &members->table;
	uint32_t p, seat = info->seat, n = members->flow.partitions;
	const struct registry_value *value;
	struct open_hand hand = { .table = 0 };
	size_t bytes = open_bits_words(n) * sizeof(owned[0]);

	if (!n)
		return;
	info->leaving = find_own(members, info, OPEN_KEY_LEAVE) != NULL;
	if (!table->number || table->incarnations[seat] != info->incarnation)
		return;
	value = find_own(members, info, OPEN_KEY_HAND);
	if (!value ||
	    !dfi__open_hand_decode(
		value->data, value->size, n, released, members->taken, &hand) ||
	    hand.table != table->number) {
		memset(released, 0, bytes);
		memset(members->taken, 0, bytes);
	}
	memset(owned, 0, bytes);
	info->epoch = table->epoch;
	for (p = 0; p < n; p++) {
		if (table->owners[p] == seat) {
			owned[p / 64] |= UINT64_C(1) << p % 64;
			info->n_partitions++;
		}
		info->n_moving += open_table_moves(table, p) &&
		    ((table->owners[p] == seat && !open_bit(taken, p)) ||
			(table->from[p] == seat && !open_bit(released, p)));
	}
	dfi__present_list(
	    owned, n, true, info->partitions, sizeof(info->partitions));
}
