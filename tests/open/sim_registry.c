/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: keys, and one order of their changes. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static bool is_key(const struct open_key *a, const struct open_key *b)
{
	return a->kind == b->kind && a->source == b->source &&
	    a->target == b->target && a->incarnation == b->incarnation &&
	    a->number == b->number;
}

/* The last change of a key; NULL: it never was. */
struct sim_change *sim_key(struct sim *sim, const struct open_key *key)
{
	unsigned i;

	for (i = 0; i < sim->n_keys; i++)
		if (is_key(&sim->keys[i]->key, key))
			return sim->keys[i];
	return NULL;
}

bool sim_key_is_there(struct sim *sim, const struct open_key *key)
{
	struct sim_change *last = sim_key(sim, key);

	return last && last->there;
}

void sim_put(struct sim *sim, const struct sim_change *change)
{
	struct sim_change *added;
	unsigned i;

	if (sim->n_changes == SIM_CHANGES || sim->n_keys == SIM_KEYS) {
		sim_fail(sim, "the registry changes without end");
		return;
	}
	added = &sim->changes[sim->n_changes++];
	*added = *change;
	added->revision = sim->n_changes;
	sim->counts.changes++;
	for (i = 0; i < sim->n_keys; i++)
		if (is_key(&sim->keys[i]->key, &change->key))
			break;
	sim->keys[i] = added;
	sim->n_keys += i == sim->n_keys;
}

void sim_delete(struct sim *sim, const struct open_key *key)
{
	struct sim_change change = { .key = *key, .owner = SIM_ENDS };

	if (sim_key_is_there(sim, key))
		sim_put(sim, &change);
}

const uint8_t *sim_bytes(struct sim *sim, const uint8_t *bytes, size_t size)
{
	struct sim_blob *blob = malloc(sizeof(*blob) + size);

	if (!blob)
		abort();
	blob->next = sim->blobs;
	sim->blobs = blob;
	return memcpy(blob->bytes, bytes, size);
}

struct sim_table *sim_table_copy(
    struct sim *sim, const struct open_table *table)
{
	struct sim_table *copy = malloc(sizeof(*copy));
	uint8_t bytes[256];
	size_t size = dfi__open_table_bytes(SIM_PARTITIONS, SIM_TARGETS);

	if (!copy)
		abort();
	dfi__open_table_init(
	    &copy->table, SIM_PARTITIONS, SIM_TARGETS, copy->memory);
	dfi__open_table_encode(table, bytes);
	if (!dfi__open_table_decode(bytes, size, &copy->table))
		sim_fail(sim, "table %llu is not decoded",
		    (unsigned long long)table->number);
	sim->tables[sim->n_tables++] = copy;
	return copy;
}

void sim_registry_free(struct sim *sim)
{
	struct sim_blob *blob;

	while (sim->n_tables)
		free(sim->tables[--sim->n_tables]);
	while ((blob = sim->blobs) != NULL) {
		sim->blobs = blob->next;
		free(blob);
	}
	sim->n_changes = sim->n_keys = 0;
}

struct open_key sim_seat_key(enum open_role role, uint32_t seat)
{
	struct open_key key = { 0 };

	key.kind = role == OPEN_SOURCE ? OPEN_KEY_SOURCE : OPEN_KEY_TARGET;
	if (role == OPEN_SOURCE)
		key.source = seat;
	else
		key.target = seat;
	return key;
}

bool sim_is_attached(struct sim *sim, const struct sim_end *end)
{
	struct open_key key = sim_seat_key(end->role, end->seat);
	struct sim_change *last = sim_key(sim, &key);

	return last && last->there &&
	    last->holder.incarnation == end->incarnation;
}
