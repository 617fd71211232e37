/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's requests on keys. Each function builds one request, makes one
 * call (a list: one per page), and checks that the reply is complete.
 */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "call.h"
#include "enter.h"
#include "keep.h"
#include "keys.h"
#include "restore.h"
#include "state.h"

struct putting {
	bool create, reclaim;
	unsigned flags;
	bool (*over)(void *arg);
	void *arg;
};

static int put(struct registry_client *client, const char *key,
    const void *value, size_t size, const struct putting *how, int64_t deadline,
    uint64_t *revision)
{
	Dfi__Registry__Put op = DFI__REGISTRY__PUT__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(PUT, put, &op);
	Dfi__Registry__Message *message;
	int ret;

	op.key = (char *)key;
	op.value.data = (uint8_t *)value;
	op.value.len = size;
	op.create = how->create;
	op.reclaim = how->reclaim;
	op.leased = how->flags & CLIENT_LEASED;
	op.follow = how->flags & CLIENT_SHARED;
	ret = dfi__client_call_put(client, &request, how->flags, how->over,
	    how->arg, deadline, &message);
	if (ret)
		return ret;
	if (revision)
		*revision = message->reply->revision;
	dfi__wire_free(message);
	return 0;
}

int dfi__client_create(struct registry_client *client, const char *key,
    const void *value, size_t size, unsigned flags, int64_t deadline,
    uint64_t *revision)
{
	struct putting how = { .create = true, .flags = flags };

	return put(client, key, value, size, &how, deadline, revision);
}

int dfi__client_put(struct registry_client *client, const char *key,
    const void *value, size_t size, unsigned flags, int64_t deadline,
    uint64_t *revision)
{
	struct putting how = { .flags = flags };

	return put(client, key, value, size, &how, deadline, revision);
}

int dfi__client_change(struct registry_client *client, const char *key,
    const void *value, size_t size, int64_t deadline)
{
	struct putting how = {
		.create = true,
		.reclaim = true,
		.flags = CLIENT_LEASED,
	};

	return put(client, key, value, size, &how, deadline, NULL);
}

int dfi__client_put_unless(struct registry_client *client, const char *key,
    const void *value, size_t size, unsigned flags, bool (*over)(void *arg),
    void *arg, int64_t deadline)
{
	struct putting how = { .flags = flags, .over = over, .arg = arg };

	return put(client, key, value, size, &how, deadline, NULL);
}

static int copy_value(
    const Dfi__Registry__Value *from, struct registry_value *to)
{
	char *data = malloc(from->data.len + 1);
	char *key = strdup(from->key);

	if (!data || !key) {
		free(data);
		free(key);
		return dfi__fail(-ENOMEM, "no memory for a registry value");
	}
	if (from->data.len)
		memcpy(data, from->data.data, from->data.len);
	data[from->data.len] = '\0';
	to->key = key;
	to->data = data;
	to->size = from->data.len;
	to->revision = from->revision;
	return 0;
}

int dfi__client_get(struct registry_client *client, const char *key,
    int64_t deadline, struct registry_value *value)
{
	Dfi__Registry__Get op = DFI__REGISTRY__GET__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(GET, get, &op);
	Dfi__Registry__Message *message;
	int ret;

	op.key = (char *)key;
	ret = dfi__client_call(client, &request, deadline, &message);
	if (ret)
		return ret;
	if (message->reply->n_values == 1)
		ret = copy_value(message->reply->values[0], value);
	else
		ret = dfi__fail(-EBADMSG,
		    "registry %s: %zu values in answer to a get",
		    client->address, message->reply->n_values);
	dfi__wire_free(message);
	return ret;
}

void dfi__registry_value_free(struct registry_value *value)
{
	free(value->key);
	free(value->data);
	memset(value, 0, sizeof(*value));
}

void dfi__registry_values_free(struct registry_value *values, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		dfi__registry_value_free(&values[i]);
	free(values);
}

struct page_list {
	struct registry_value *values;
	size_t count;
};

static int append_page(struct page_list *list,
    const struct registry_client *client, const Dfi__Registry__Reply *page)
{
	struct registry_value *grown;
	size_t i;
	int ret;

	/* Otherwise the next request would be the same, endlessly. */
	if (page->more && page->n_values == 0)
		return dfi__fail(-EBADMSG,
		    "registry %s: an empty page of a list", client->address);
	if (!page->n_values)
		return 0;
	grown = reallocarray(
	    list->values, list->count + page->n_values, sizeof(*grown));
	if (!grown)
		return dfi__fail(-ENOMEM, "no memory for %zu registry values",
		    list->count + page->n_values);
	list->values = grown;
	for (i = 0; i < page->n_values; i++) {
		ret = copy_value(page->values[i], &grown[list->count]);
		if (ret)
			return ret;
		list->count++;
	}
	return 0;
}

/* Returns 1 if more pages follow, 0 after the last one. */
static int get_page(struct registry_client *client, const char *prefix,
    int64_t deadline, struct page_list *list)
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

int dfi__client_list(struct registry_client *client, const char *prefix,
    int64_t deadline, struct registry_value **values, size_t *count)
{
	struct page_list list = { .count = 0 };
	int ret;

	do
		ret = get_page(client, prefix, deadline, &list);
	while (ret > 0);
	if (ret) {
		dfi__registry_values_free(list.values, list.count);
		return ret;
	}
	*values = list.values;
	*count = list.count;
	return 0;
}

int dfi__client_delete(struct registry_client *client, const char *key,
    uint64_t revision, int64_t deadline)
{
	Dfi__Registry__Delete op = DFI__REGISTRY__DELETE__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(DELETE, delete_, &op);

	op.key = (char *)key;
	op.revision = revision;
	return dfi__client_call(client, &request, deadline, NULL);
}

int dfi__client_send_delete(
    struct registry_client *client, const char *key, uint64_t revision)
{
	Dfi__Registry__Delete op = DFI__REGISTRY__DELETE__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(DELETE, delete_, &op);

	op.key = (char *)key;
	op.revision = revision;
	op.silent = true;
	return dfi__client_send(client, &request);
}

void dfi__client_send_withdrawal(
    struct registry_client *client, const char *key)
{
	/* If it can't be sent, the key ends with the lease. */
	if (client->stream)
		dfi__client_send_delete(client, key, 0);
	/* This comes last, as key may be the kept copy. */
	dfi__keep_drop(client, key);
}

/* A request without waiting for an answer. */
struct saying {
	struct registry_client *client;
	const char *key;
	const void *value;
	size_t size;
};

/* Send a request by fn. */
static void say(struct registry_client *client, int (*fn)(void *arg),
    const char *key, const void *value, size_t size)
{
	struct saying saying = {
		.client = client,
		.key = key,
		.value = value,
		.size = size,
	};

	dfi__client_tell(client, fn, &saying);
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
	struct registry_client *client = saying->client;
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

void dfi__client_renew(struct registry_client *client, const char *key,
    const void *value, size_t size)
{
	say(client, renew, key, value, size);
}

/* Tells whether the key is ours, so that it may be deleted now. */
static bool may_delete(struct registry_client *client, const char *key)
{
	struct kept_key *kept = dfi__keep_find(client, key);

	return kept && (!client->restoring || dfi__restore_leave(client, kept));
}

static int retire(void *arg)
{
	struct saying *saying = arg;
	struct registry_client *client = saying->client;

	if (!may_delete(client, saying->key))
		return 0;
	if (saying->value && !client->restoring)
		say_value(saying);
	dfi__client_send_withdrawal(client, saying->key);
	return 0;
}

void dfi__client_retire(struct registry_client *client, const char *key,
    const void *value, size_t size)
{
	say(client, retire, key, value, size);
}

void dfi__client_withdraw(struct registry_client *client, const char *key)
{
	if (may_delete(client, key))
		dfi__client_send_withdrawal(client, key);
}

void dfi__client_forget(struct registry_client *client, const char *key)
{
	dfi__client_retire(client, key, NULL, 0);
}
