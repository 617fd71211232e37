/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resuming at a registry that was restarted with its state. It still has the
 * lease of this client, and all keys that it has acknowledged. It may also have
 * keys whose acknowledgement was lost, or which were given up or changed
 * meanwhile. So the client takes the lease over, reads which keys are bound to
 * it, and a digest of each value, and sends only what differs.
 */
#include "restore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "registry/client/client.h"
#include "enter.h"
#include "keep.h"
#include "keys.h"
#include "state.h"

int dfi__resume_begin(struct remote_client *client)
{
	Dfi__Registry__LeaseGrant grant = DFI__REGISTRY__LEASE_GRANT__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(
	    LEASE_GRANT, lease_grant, &grant);
	int ret;

	grant.ttl_ms = client->ttl_ms;
	grant.resume = true;
	ret = dfi__client_send(client, &request);
	client->restore->grant = request.id;
	return ret;
}

static int send_list(struct remote_client *client, const char *after)
{
	Dfi__Registry__List list = DFI__REGISTRY__LIST__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(LIST, list, &list);
	int ret;

	list.own = true;
	list.after = (char *)after;
	ret = dfi__client_send(client, &request);
	client->restore->list = request.id;
	return ret;
}

static bool is_same(const struct remote_client *client,
    const struct kept_key *kept, const Dfi__Registry__Value *value)
{
	uint64_t digest = dfi__wire_digest(client->id, kept->value, kept->size);

	return value->data.len == sizeof(digest) &&
	    memcmp(value->data.data, &digest, sizeof(digest)) == 0;
}

/* The registry has this key of ours. */
static int compare(
    struct remote_client *client, const Dfi__Registry__Value *value)
{
	struct kept_key *kept = dfi__keep_find(client, value->key);

	if (!kept)
		return dfi__client_send_delete(
		    client, value->key, value->revision);
	kept->found = true;
	if (is_same(client, kept, value))
		dfi__restore_skip(client, kept);
	return 0;
}

/* Shared keys that are not there were deleted by others. */
static void drop_deleted(struct remote_client *client)
{
	struct kept_key *kept, *next;

	for (kept = TAILQ_FIRST(&client->kept); kept; kept = next) {
		next = TAILQ_NEXT(kept, link);
		if (!kept->sent && !kept->found && kept->flags & CLIENT_SHARED)
			dfi__keep_drop(client, kept->key);
	}
}

static int take_page(
    struct remote_client *client, const Dfi__Registry__Reply *page)
{
	size_t i;
	int ret = 0;

	for (i = 0; !ret && i < page->n_values; i++)
		ret = compare(client, page->values[i]);
	if (ret)
		return ret;
	if (page->more && !page->n_values)
		return dfi__fail(-ENOTCONN,
		    "registry %s: an empty page of a list", client->address);
	if (page->more)
		return send_list(client, page->values[page->n_values - 1]->key);
	drop_deleted(client);
	client->restore->step = RESTORE_KEYS;
	return 0;
}

int dfi__resume_answer(
    struct remote_client *client, const Dfi__Registry__Reply *reply)
{
	struct restore *restore = client->restore;

	if (reply->id != restore->grant && reply->id != restore->list)
		return 0;
	if (reply->error)
		return dfi__fail(
		    -ENOTCONN, "registry %s: %s", client->address, reply->text);
	if (reply->id == restore->list)
		return take_page(client, reply);
	return send_list(client, "");
}
