/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's requests on keys. Each function builds one request, makes one
 * call (a list: one per page), and checks that the reply is complete.
 */
#include "keys.h"

#include <errno.h>

#include "base/error.h"
#include "call.h"
#include "enter.h"
#include "keep.h"
#include "restore.h"
#include "state.h"

int dfi__remote_put(struct registry_client *base,
    const struct registry_put *put, int64_t deadline, uint64_t *revision)
{
	Dfi__Registry__Put op = DFI__REGISTRY__PUT__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(PUT, put, &op);
	Dfi__Registry__Message *message;
	int ret;

	op.key = (char *)put->key;
	op.value.data = (uint8_t *)put->value;
	op.value.len = put->size;
	op.create = put->flags & CLIENT_CREATE;
	op.reclaim = put->flags & CLIENT_RECLAIM;
	op.leased = put->flags & CLIENT_LEASED;
	op.follow = put->flags & CLIENT_SHARED;
	ret = dfi__client_call_put(
	    remote_of(base), &request, put, deadline, &message);
	if (ret)
		return ret;
	if (revision)
		*revision = message->reply->revision;
	dfi__wire_free(message);
	return 0;
}

/* The value is lent. */
static struct registry_value value_of(const Dfi__Registry__Value *value)
{
	return (struct registry_value){
		.key = value->key,
		.data = value->data.data,
		.size = value->data.len,
		.revision = value->revision,
	};
}

int dfi__remote_get(struct registry_client *base, const char *key,
    int64_t deadline, struct registry_value *value)
{
	struct remote_client *client = remote_of(base);
	Dfi__Registry__Get op = DFI__REGISTRY__GET__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(GET, get, &op);
	Dfi__Registry__Message *message;
	struct registry_value found;
	int ret;

	op.key = (char *)key;
	ret = dfi__client_call(client, &request, deadline, &message);
	if (ret)
		return ret;
	if (message->reply->n_values == 1) {
		found = value_of(message->reply->values[0]);
		ret = dfi__registry_value_copy(&found, value);
	} else {
		ret = dfi__fail(-EBADMSG,
		    "registry %s: %zu values in answer to a get",
		    client->address, message->reply->n_values);
	}
	dfi__wire_free(message);
	return ret;
}

static int append_page(struct registry_list *list,
    const struct remote_client *client, const Dfi__Registry__Reply *page)
{
	struct registry_value value;
	size_t i;
	int ret = 0;

	/* Otherwise the next request would be the same, endlessly. */
	if (page->more && page->n_values == 0)
		return dfi__fail(-EBADMSG,
		    "registry %s: an empty page of a list", client->address);
	for (i = 0; !ret && i < page->n_values; i++) {
		value = value_of(page->values[i]);
		ret = dfi__registry_list_add(list, &value);
	}
	return ret;
}

/* Returns 1 if more pages follow, 0 after the last one. */
static int get_page(struct remote_client *client, const char *prefix,
    int64_t deadline, struct registry_list *list)
{
	Dfi__Registry__List op = DFI__REGISTRY__LIST__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(LIST, list, &op);
	Dfi__Registry__Message *message;
	int ret;

	op.prefix = (char *)prefix;
	if (list->count)
		op.after = list->values[list->count - 1].key;
	ret = dfi__client_call(client, &request, deadline, &message);
	if (ret)
		return ret;
	ret = append_page(list, client, message->reply);
	if (!ret)
		ret = message->reply->more;
	dfi__wire_free(message);
	return ret;
}

int dfi__remote_list(struct registry_client *base, const char *prefix,
    int64_t deadline, struct registry_list *list)
{
	int ret;

	do
		ret = get_page(remote_of(base), prefix, deadline, list);
	while (ret > 0);
	return ret;
}

int dfi__remote_delete(struct registry_client *base, const char *key,
    uint64_t revision, int64_t deadline)
{
	Dfi__Registry__Delete op = DFI__REGISTRY__DELETE__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(DELETE, delete_, &op);

	op.key = (char *)key;
	op.revision = revision;
	return dfi__client_call(remote_of(base), &request, deadline, NULL);
}

int dfi__client_send_delete(
    struct remote_client *client, const char *key, uint64_t revision)
{
	Dfi__Registry__Delete op = DFI__REGISTRY__DELETE__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(DELETE, delete_, &op);

	op.key = (char *)key;
	op.revision = revision;
	op.unanswered = true;
	return dfi__client_send(client, &request);
}

void dfi__client_send_withdrawal(struct remote_client *client, const char *key)
{
	/* If it can't be sent, the key ends with the lease. */
	if (client->stream)
		dfi__client_send_delete(client, key, 0);
	/* This comes last, as key may be the kept copy. */
	dfi__keep_drop(client, key);
}

/* A request without waiting for an answer. */
struct saying {
	struct remote_client *client;
	const char *key;
	const void *value;
	size_t size;
};

/* Send a request by fn. */
static void say(struct remote_client *client, int (*fn)(void *arg),
    const char *key, const void *value, size_t size)
{
	struct saying saying = {
		.client = client,
		.key = key,
		.value = value,
		.size = size,
	};

	dfi__client_do_infallible(client, fn, &saying);
}

/* The answer to the put is dropped like one that comes too late. */
static void say_value(const struct saying *saying)
{
	Dfi__Registry__Put op = DFI__REGISTRY__PUT__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(PUT, put, &op);

	op.key = (char *)saying->key;
	op.value.data = (uint8_t *)saying->value;
	op.value.len = saying->size;
	op.leased = true;
	if (saying->client->stream)
		dfi__client_send(saying->client, &request);
}

static int renew(void *arg)
{
	struct saying *saying = arg;
	struct remote_client *client = saying->client;
	struct kept_key *kept = dfi__keep_find(client, saying->key);

	if (!kept)
		return 0;
	dfi__keep_change(client, kept, saying->value, saying->size);
	if (client->restoring)
		dfi__restore_renew(client, kept);
	else
		say_value(saying);
	return 0;
}

void dfi__remote_renew(struct registry_client *base, const char *key,
    const void *value, size_t size)
{
	say(remote_of(base), renew, key, value, size);
}

/* Tells whether the key is ours, so that it may be deleted now. */
static bool may_delete(struct remote_client *client, const char *key)
{
	struct kept_key *kept = dfi__keep_find(client, key);

	return kept && (!client->restoring || dfi__restore_leave(client, kept));
}

static int retire(void *arg)
{
	struct saying *saying = arg;
	struct remote_client *client = saying->client;

	if (!may_delete(client, saying->key))
		return 0;
	if (saying->value && !client->restoring)
		say_value(saying);
	dfi__client_send_withdrawal(client, saying->key);
	return 0;
}

void dfi__remote_retire(struct registry_client *base, const char *key,
    const void *value, size_t size)
{
	say(remote_of(base), retire, key, value, size);
}

void dfi__client_withdraw(struct remote_client *client, const char *key)
{
	if (may_delete(client, key))
		dfi__client_send_withdrawal(client, key);
}
