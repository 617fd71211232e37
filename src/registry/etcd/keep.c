/* SPDX-License-Identifier: Apache-2.0 */
/* A list of the kept keys for restoring them, and a tree for finding one. */
#include "keep.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "state.h"

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct kept_key *)a)->key,
	    ((const struct kept_key *)b)->key);
}

struct kept_key *dfi__etcd_keep_find(
    const struct etcd_client *client, const char *key)
{
	struct kept_key probe = { .key = (char *)key };
	void *node = tfind(&probe, &client->kept_tree, compare_keys);

	return node ? *(struct kept_key **)node : NULL;
}

static void free_kept(struct kept_key *kept)
{
	free(kept->key);
	free(kept->value);
	free(kept);
}

static void drop(struct etcd_client *client, struct kept_key *kept)
{
	TAILQ_REMOVE(&client->kept, kept, link);
	tdelete(kept, &client->kept_tree, compare_keys);
	free_kept(kept);
}

void dfi__etcd_keep_drop(struct etcd_client *client, const char *key)
{
	struct kept_key *kept = dfi__etcd_keep_find(client, key);

	if (kept)
		drop(client, kept);
}

void dfi__etcd_keep_free_all(struct etcd_client *client)
{
	struct kept_key *kept;

	while ((kept = TAILQ_FIRST(&client->kept)))
		drop(client, kept);
}

static void warn(const struct etcd_client *client, const char *key)
{
	dfi__log(DFI_LOG_WARN,
	    "registry %s: no memory to set '%s' again as it is now if the "
	    "lease of this context ends",
	    client->at.address, key);
}

void dfi__etcd_keep_change(struct etcd_client *client, struct kept_key *kept,
    const void *value, size_t size)
{
	void *copy = malloc(size + 1);

	if (!copy) {
		warn(client, kept->key);
		return;
	}
	if (size)
		memcpy(copy, value, size);
	free(kept->value);
	kept->value = copy;
	kept->size = size;
}

static struct kept_key *add(struct etcd_client *client, const char *key)
{
	struct kept_key *kept = calloc(1, sizeof(*kept));

	if (kept)
		kept->key = strdup(key);
	if (!kept || !kept->key ||
	    !tsearch(kept, &client->kept_tree, compare_keys)) {
		if (kept)
			free_kept(kept);
		warn(client, key);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&client->kept, kept, link);
	return kept;
}

void dfi__etcd_keep(struct etcd_client *client, const char *key,
    const void *value, size_t size, unsigned flags)
{
	struct kept_key *kept;

	if (!flags) {
		dfi__etcd_keep_drop(client, key);
		return;
	}
	kept = dfi__etcd_keep_find(client, key);
	if (!kept)
		kept = add(client, key);
	if (!kept)
		return;
	kept->flags = flags;
	kept->gone_at = 0;
	dfi__etcd_keep_change(client, kept, value, size);
}

void dfi__etcd_keep_gone(struct etcd_client *client, const char *key)
{
	struct kept_key *kept = dfi__etcd_keep_find(client, key);

	if (!kept || !(kept->flags & CLIENT_SHARED))
		return;
	if (kept->flags & CLIENT_LEASED)
		kept->gone_at = clock_now_ns();
	else
		drop(client, kept);
}

void dfi__etcd_keep_settle(struct etcd_client *client, int64_t sent_at)
{
	struct kept_key *kept, *next;

	for (kept = TAILQ_FIRST(&client->kept); kept; kept = next) {
		next = TAILQ_NEXT(kept, link);
		if (kept->gone_at && kept->gone_at <= sent_at)
			drop(client, kept);
	}
}
