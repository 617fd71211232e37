/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change is a transaction within another one, which looks at the fence:
 *
 *	if the fence is as known:  if CONDITIONS:  do it
 *	                           else:           read the key
 *	else:                      read the fence
 *
 * DFI's keys are at PREFIX/keys/, the fences at PREFIX/fences/.
 */
#include "request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "lease.h"
#include "operation.h"
#include "state.h"
#include "watch.h"

#define PAGE_KEYS 500 /* of a list */

static void store(unsigned char to[8], uint64_t number)
{
	unsigned i;

	for (i = 0; i < 8; i++)
		to[i] = (unsigned char)(number >> (56 - 8 * i));
}

static uint64_t load(const unsigned char from[8])
{
	uint64_t number = 0;
	unsigned i;

	for (i = 0; i < 8; i++)
		number = number << 8 | from[i];
	return number;
}

/* "PREFIX/keys/KEY", which the caller frees. */
static char *full_key(const struct etcd_client *client, const char *key)
{
	char *full;

	return asprintf(&full, "%s/keys/%s", client->at.prefix, key) < 0 ? NULL
									 : full;
}

static json_t *take_text(char *text)
{
	json_t *json = text ? dfi__json_bytes(text, strlen(text)) : NULL;

	free(text);
	return json;
}

json_t *dfi__request_key(const struct etcd_client *client, const char *key)
{
	return take_text(full_key(client, key));
}

json_t *dfi__request_fence_key(const struct etcd_client *client)
{
	char *full;

	return asprintf(&full, "%s/fences/%s", client->at.prefix,
		   client->fence.name) < 0
	    ? NULL
	    : take_text(full);
}

/* The first key behind those that begin with prefix. */
static json_t *end_of(const struct etcd_client *client, const char *prefix)
{
	char *full = full_key(client, prefix);
	size_t size = full ? strlen(full) : 0;

	/* It has a '/', so one byte is not the last of all. */
	while (size && (unsigned char)full[size - 1] == 0xff)
		size--;
	if (size) {
		full[size - 1]++;
		full[size] = '\0';
	}
	return take_text(full);
}

json_t *dfi__request_range(
    const struct etcd_client *client, const char *text, bool exact)
{
	json_t *key = dfi__request_key(client, text);

	return exact ? dfi__json_one(key)
		     : dfi__json_range(key, end_of(client, text));
}

static json_t *bounds(const struct etcd_client *client, json_t *conditions,
    const char *key, const unsigned char *low, const unsigned char *high,
    size_t size)
{
	conditions = dfi__json_add(conditions,
	    dfi__json_value(dfi__request_key(client, key), "GREATER",
		dfi__json_bytes(low, size)));
	return dfi__json_add(conditions,
	    dfi__json_value(dfi__request_key(client, key), "LESS",
		dfi__json_bytes(high, size)));
}

json_t *dfi__request_add_own(
    const struct etcd_client *client, json_t *conditions, const char *key)
{
	unsigned char low[VALUE_ID], high[VALUE_ID];

	store(low, client->id);
	store(high, client->id + 1);
	return bounds(client, conditions, key, low, high, VALUE_ID);
}

/* The value is from the put of this number. */
static json_t *add_exact(const struct etcd_client *client, json_t *conditions,
    const char *key, uint64_t put)
{
	unsigned char low[VALUE_PUT], high[VALUE_PUT];

	store(low, client->id);
	store(low + VALUE_ID, put);
	store(high, client->id);
	store(high + VALUE_ID, put + 1);
	return bounds(client, conditions, key, low, high, VALUE_PUT);
}

json_t *dfi__request_put(const struct etcd_client *client, const char *key,
    const void *value, size_t size, uint64_t put, bool leased)
{
	unsigned char *bytes = malloc(VALUE_HEADER + size);
	json_t *json;

	if (!bytes)
		return NULL;
	store(bytes, client->id);
	store(bytes + VALUE_ID, put);
	bytes[VALUE_PUT] = 0;
	if (size)
		memcpy(bytes + VALUE_HEADER, value, size);
	json = dfi__json_put(dfi__request_key(client, key),
	    dfi__json_bytes(bytes, VALUE_HEADER + size),
	    leased ? client->lease.id : 0);
	free(bytes);
	return json;
}

json_t *dfi__request_fenced(
    const struct etcd_client *client, json_t *operations)
{
	char number[24];
	json_t *condition;

	snprintf(number, sizeof(number), "%" PRIu64, client->fence.number);
	condition = dfi__json_value(dfi__request_fence_key(client), "EQUAL",
	    dfi__json_bytes(number, strlen(number)));
	return dfi__json_txn(dfi__json_add(json_array(), condition), operations,
	    dfi__json_add(
		json_array(), dfi__json_one(dfi__request_fence_key(client))));
}

static json_t *own_put(const struct etcd_operation *operation)
{
	return dfi__request_put(operation->client, operation->key,
	    operation->value, operation->size, operation->put,
	    operation->kind == OP_RENEW || operation->flags & CLIENT_LEASED);
}

static json_t *one(json_t *item)
{
	return dfi__json_add(json_array(), item);
}

static json_t *add_ranges(
    const struct etcd_operation *operation, json_t *operations)
{
	size_t i;

	for (i = 0; i < operation->n_watches; i++)
		operations = dfi__json_add(
		    operations, dfi__watch_range(operation->watches[i]));
	return operations;
}

static json_t *conditions_of(const struct etcd_operation *operation)
{
	const struct etcd_client *client = operation->client;
	const char *key = operation->key;
	json_t *list = json_array();

	switch (operation->kind) {
	case OP_CREATE:
	case OP_RECLAIM:
		return dfi__json_add(
		    list, dfi__json_absent(dfi__request_key(client, key)));
	case OP_RENEW:
	case OP_RETIRE:
		return dfi__request_add_own(client, list, key);
	case OP_UNDO:
		return add_exact(client, list, key, operation->put);
	case OP_DELETE:
		if (operation->revision)
			return dfi__json_add(list,
			    dfi__json_unchanged(dfi__request_key(client, key),
				operation->revision));
		return dfi__json_add(
		    list, dfi__json_present(dfi__request_key(client, key)));
	default:
		return list;
	}
}

static json_t *success_of(const struct etcd_operation *operation)
{
	switch (operation->kind) {
	case OP_RETIRE:
	case OP_UNDO:
	case OP_DELETE:
		return one(dfi__json_delete(
		    dfi__request_key(operation->client, operation->key)));
	default:
		return add_ranges(operation, one(own_put(operation)));
	}
}

static json_t *failure_of(const struct etcd_operation *operation)
{
	const struct etcd_client *client = operation->client;
	json_t *own;

	if (operation->kind == OP_CREATE)
		return add_ranges(operation,
		    one(dfi__json_one(
			dfi__request_key(client, operation->key))));
	if (operation->kind != OP_RECLAIM)
		return json_array();
	own = dfi__request_add_own(client, json_array(), operation->key);
	return one(dfi__json_nested(
	    dfi__json_txn(own, one(own_put(operation)), json_array())));
}

/* A page of a list; the next one begins behind the last key. */
static json_t *page_of(const struct etcd_operation *operation)
{
	const struct etcd_client *client = operation->client;
	const struct registry_list *list = &operation->list;
	const char *from = operation->key;
	json_t *key, *end = end_of(client, operation->key);
	char *full;

	if (list->count)
		from = list->values[list->count - 1].key;
	full = full_key(client, from);
	/* The 0 byte belongs to it: it makes the next possible key. */
	key = full ? dfi__json_bytes(full, strlen(full) + (list->count ? 1 : 0))
		   : NULL;
	free(full);
	return json_pack("{s:o, s:o, s:i}", "key", key, "range_end", end,
	    "limit", PAGE_KEYS);
}

json_t *dfi__request_of(const struct etcd_operation *operation)
{
	json_t *conditions, *success;

	switch (operation->kind) {
	case OP_GET:
		return json_pack("{s:o}", "key",
		    dfi__request_key(operation->client, operation->key));
	case OP_LIST:
		return page_of(operation);
	case OP_REVOKE:
		return dfi__lease_revoke(operation->client);
	case OP_JOIN:
		return dfi__json_txn(json_array(),
		    add_ranges(operation, json_array()), json_array());
	default:
		conditions = conditions_of(operation);
		success = success_of(operation);
		return dfi__request_fenced(operation->client,
		    one(dfi__json_nested(dfi__json_txn(
			conditions, success, failure_of(operation)))));
	}
}

const char *dfi__request_path(const struct etcd_operation *operation)
{
	if (operation->kind == OP_REVOKE)
		return "/v3/lease/revoke";
	return operation->kind == OP_GET || operation->kind == OP_LIST
	    ? "/v3/kv/range"
	    : "/v3/kv/txn";
}

static bool read_key(const struct etcd_client *client, const json_t *pair,
    struct etcd_value *value)
{
	size_t size, skip = strlen(client->at.prefix) + strlen("/keys/");
	char *key = dfi__json_decode(json_object_get(pair, "key"), &size);

	/* A key with a 0 byte in it is none of DFI's. */
	if (!key || size < skip || size - skip > ETCD_KEY_MAX ||
	    strlen(key) != size) {
		free(key);
		return false;
	}
	memmove(key, key + skip, size - skip + 1);
	value->key = key;
	return true;
}

bool dfi__value_read(const struct etcd_client *client, const json_t *pair,
    struct etcd_value *value)
{
	size_t size;

	memset(value, 0, sizeof(*value));
	if (!read_key(client, pair, value))
		return false;
	value->bytes = dfi__json_decode(json_object_get(pair, "value"), &size);
	if (!value->bytes) {
		dfi__value_free(value);
		return false;
	}
	value->revision = dfi__json_get(pair, "mod_revision");
	value->created = dfi__json_get(pair, "create_revision");
	value->data = value->bytes;
	/* What others have written there, DFI takes for an empty value. */
	if (size < VALUE_HEADER)
		return true;
	value->owner = load(value->bytes);
	value->put = load((unsigned char *)value->bytes + VALUE_ID);
	value->data = (char *)value->bytes + VALUE_HEADER;
	value->size = size - VALUE_HEADER;
	return true;
}

void dfi__value_free(struct etcd_value *value)
{
	free(value->key);
	free(value->bytes);
	value->key = NULL;
	value->bytes = NULL;
}
