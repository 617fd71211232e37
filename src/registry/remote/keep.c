/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that the client has set and would restore at a registry that was
 * restarted: a list for restoring, and a tree for finding one.
 */
#include "keep.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "registry/client/client.h"
#include "restore.h"
#include "state.h"
#include "watch.h"

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct kept_key *)a)->key,
	    ((const struct kept_key *)b)->key);
}

struct kept_key *dfi__keep_find(struct remote_client *client, const char *key)
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

void dfi__keep_drop(struct remote_client *client, const char *key)
{
	struct kept_key *kept = dfi__keep_find(client, key);

	if (!kept)
		return;
	TAILQ_REMOVE(&client->kept, kept, link);
	tdelete(kept, &client->kept_tree, compare_keys);
	if (kept->request)
		dfi__restore_forget(client);
	if (kept->watch)
		dfi__remote_unwatch(&kept->watch->base);
	free_kept(kept);
}

void dfi__keep_free_all(struct remote_client *client)
{
	struct kept_key *kept;

	while ((kept = TAILQ_FIRST(&client->kept)))
		dfi__keep_drop(client, kept->key);
}

static void on_shared(void *arg, const struct registry_event *event)
{
	struct kept_key *kept = arg;

	if (event->type == REGISTRY_DELETE)
		dfi__keep_drop(remote_of(kept->watch->base.client), kept->key);
}

void dfi__keep_change(struct remote_client *client, struct kept_key *kept,
    const void *value, size_t size)
{
	void *copy = malloc(size + 1);

	if (!copy) {
		dfi__log(DFI_LOG_WARN,
		    "registry %s: no memory to set '%s' again as it is now if "
		    "the registry is restarted",
		    client->address, kept->key);
		return;
	}
	if (size)
		memcpy(copy, value, size);
	free(kept->value);
	kept->value = copy;
	kept->size = size;
}

static struct kept_key *copy(const Dfi__Registry__Put *put, unsigned flags)
{
	struct kept_key *kept = calloc(1, sizeof(*kept));

	if (!kept)
		return NULL;
	kept->key = strdup(put->key);
	kept->value = malloc(put->value.len + 1);
	if (!kept->key || !kept->value) {
		free_kept(kept);
		return NULL;
	}
	if (put->value.len)
		memcpy(kept->value, put->value.data, put->value.len);
	kept->size = put->value.len;
	kept->flags = flags;
	return kept;
}

static void keep(struct remote_client *client, uint64_t id,
    const Dfi__Registry__Put *put, unsigned flags)
{
	struct kept_key *kept = copy(put, flags);

	if (!kept || !tsearch(kept, &client->kept_tree, compare_keys)) {
		if (kept)
			free_kept(kept);
		if (flags & CLIENT_SHARED)
			dfi__client_send_unwatch(client, id);
		dfi__log(DFI_LOG_WARN,
		    "registry %s: no memory to set '%s' again if the registry "
		    "is restarted, or to delete it before the context is "
		    "closed",
		    client->address, put->key);
		return;
	}
	TAILQ_INSERT_TAIL(&client->kept, kept, link);
	if (flags & CLIENT_SHARED)
		kept->watch = dfi__watch_follow(client, id,
		    &(struct registry_interest){
			.prefix = kept->key,
			.exact = true,
			.fn = on_shared,
			.arg = kept,
		    });
}

static void note_put(struct remote_client *client, uint64_t id,
    const Dfi__Registry__Put *put, unsigned flags)
{
	struct kept_key *kept = dfi__keep_find(client, put->key);

	/* Without memory for the new value, the key is still ours. */
	if (kept && flags && !((kept->flags | flags) & CLIENT_SHARED)) {
		kept->flags = flags;
		dfi__keep_change(client, kept, put->value.data, put->value.len);
		return;
	}
	dfi__keep_drop(client, put->key);
	if (flags)
		keep(client, id, put, flags);
}

void dfi__keep_note(struct remote_client *client,
    const Dfi__Registry__Request *request, unsigned flags)
{
	if (request->op_case == DFI__REGISTRY__REQUEST__OP_PUT)
		note_put(client, request->id, request->put, flags);
	else if (request->op_case == DFI__REGISTRY__REQUEST__OP_DELETE)
		dfi__keep_drop(client, request->delete_->key);
}
