/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a registry client, over the functions of the implementation that
 * its address names. This file knows all implementations.
 */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/loop.h"
#include "registry/etcd/etcd.h"
#include "registry/local/local.h"
#include "registry/remote/remote.h"
#include "ops.h"

/* -EINVAL on the loop's thread, which a call with a deadline must not block. */
static int check_thread(const struct loop *loop)
{
	return dfi__loop_is_current(loop)
	    ? dfi__fail(-EINVAL,
		  "registry client: a waiting call on the loop's thread")
	    : 0;
}

int dfi__client_open(struct loop *loop, const char *address,
    const struct registry_security *security, uint32_t lease_ttl_ms,
    int64_t deadline, struct registry_client **client)
{
	int ret = check_thread(loop);

	if (ret)
		return ret;
	if (!strncmp(address, LOCAL_SCHEME, strlen(LOCAL_SCHEME)))
		return dfi__local_open(loop, address, client);
	if (!strncmp(address, ETCD_SCHEME, strlen(ETCD_SCHEME)))
		return dfi__etcd_open(
		    loop, address, security, lease_ttl_ms, deadline, client);
	return dfi__remote_open(
	    loop, address, security, lease_ttl_ms, deadline, client);
}

void dfi__client_set_grace(struct registry_client *client, uint32_t ms)
{
	client->ops->set_grace(client, ms);
}

void dfi__client_revoke(struct registry_client *client)
{
	client->ops->revoke(client);
}

void dfi__client_close(struct registry_client *client)
{
	if (client)
		client->ops->close(client);
}

static int put(struct registry_client *client, const struct registry_put *put,
    int64_t deadline, uint64_t *revision)
{
	int ret = check_thread(client->loop);

	return ret ? ret : client->ops->put(client, put, deadline, revision);
}

int dfi__client_create(struct registry_client *client, const char *key,
    const void *value, size_t size, unsigned flags, int64_t deadline,
    uint64_t *revision)
{
	struct registry_put create = {
		.key = key,
		.value = value,
		.size = size,
		.flags = flags | CLIENT_CREATE,
	};

	return put(client, &create, deadline, revision);
}

int dfi__client_put(struct registry_client *client, const char *key,
    const void *value, size_t size, unsigned flags, int64_t deadline,
    uint64_t *revision)
{
	struct registry_put any = {
		.key = key,
		.value = value,
		.size = size,
		.flags = flags,
	};

	return put(client, &any, deadline, revision);
}

int dfi__client_change(struct registry_client *client, const char *key,
    const void *value, size_t size, int64_t deadline)
{
	struct registry_put change = {
		.key = key,
		.value = value,
		.size = size,
		.flags = CLIENT_LEASED | CLIENT_CREATE | CLIENT_RECLAIM,
	};

	return put(client, &change, deadline, NULL);
}

int dfi__client_put_unless(struct registry_client *client, const char *key,
    const void *value, size_t size, unsigned flags, bool (*over)(void *arg),
    void *arg, int64_t deadline)
{
	struct registry_put unless = {
		.key = key,
		.value = value,
		.size = size,
		.flags = flags,
		.over = over,
		.over_arg = arg,
	};

	return put(client, &unless, deadline, NULL);
}

int dfi__client_get(struct registry_client *client, const char *key,
    int64_t deadline, struct registry_value *value)
{
	int ret = check_thread(client->loop);

	return ret ? ret : client->ops->get(client, key, deadline, value);
}

void dfi__registry_value_free(struct registry_value *value)
{
	free(value->key);
	free(value->data);
	memset(value, 0, sizeof(*value));
}

void dfi__registry_values_free(struct registry_value *values, size_t count)
{
	struct registry_list list = { .values = values, .count = count };

	dfi__registry_list_free(&list);
}

int dfi__client_list(struct registry_client *client, const char *prefix,
    int64_t deadline, struct registry_value **values, size_t *count)
{
	struct registry_list list = { .count = 0 };
	int ret = check_thread(client->loop);

	if (!ret)
		ret = client->ops->list(client, prefix, deadline, &list);
	if (ret) {
		dfi__registry_list_free(&list);
		return ret;
	}
	*values = list.values;
	*count = list.count;
	return 0;
}

int dfi__client_delete(struct registry_client *client, const char *key,
    uint64_t revision, int64_t deadline)
{
	int ret = check_thread(client->loop);

	return ret ? ret
		   : client->ops->delete_key(client, key, revision, deadline);
}

void dfi__client_forget(struct registry_client *client, const char *key)
{
	client->ops->retire(client, key, NULL, 0);
}

void dfi__client_renew(struct registry_client *client, const char *key,
    const void *value, size_t size)
{
	client->ops->renew(client, key, value, size);
}

void dfi__client_retire(struct registry_client *client, const char *key,
    const void *value, size_t size)
{
	client->ops->retire(client, key, value, size);
}

int dfi__client_join(struct registry_client *client,
    struct registry_interest *interests, size_t n, struct registry_entry *entry,
    int64_t deadline)
{
	int ret = check_thread(client->loop);

	return ret ? ret
		   : client->ops->join(client, interests, n, entry, deadline);
}

static int watch(struct registry_client *client,
    struct registry_interest *interest, int64_t deadline,
    struct registry_watch **watch)
{
	int ret = dfi__client_join(client, interest, 1, NULL, deadline);

	if (!ret)
		*watch = interest->watch;
	return ret;
}

int dfi__client_watch(struct registry_client *client, const char *prefix,
    void (*fn)(void *arg, const struct registry_event *event), void *arg,
    int64_t deadline, struct registry_watch **result)
{
	struct registry_interest interest = {
		.prefix = prefix,
		.fn = fn,
		.arg = arg,
	};

	return watch(client, &interest, deadline, result);
}

int dfi__client_watch_key(struct registry_client *client, const char *key,
    void (*fn)(void *arg, const struct registry_event *event), void *arg,
    int64_t deadline, struct registry_watch **result)
{
	struct registry_interest interest = {
		.prefix = key,
		.exact = true,
		.fn = fn,
		.arg = arg,
	};

	return watch(client, &interest, deadline, result);
}

void dfi__client_unwatch(struct registry_watch *watch)
{
	if (watch)
		watch->client->ops->unwatch(watch);
}

void dfi__client_leave(struct registry_watch *watch, const char *key)
{
	watch->client->ops->leave(watch, key);
}
