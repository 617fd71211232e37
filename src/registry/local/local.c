/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registries of this process, and the calls of their clients. One lock
 * protects all registries: a call holds it for as long as it changes a table,
 * and never while it runs a watch's function. So a call never waits for
 * another thread's work, except a join, which waits until the loop has
 * delivered the first events.
 */
#include "local.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/loop.h"
#include "events.h"
#include "registry/server/table.h"

/* How long closing waits for the loop. */
#define CLOSE_MS 10000

struct local_registry {
	TAILQ_ENTRY(local_registry) link;
	struct table *table;
	uint64_t last_client;
	size_t n_clients;
	char address[];
};

static TAILQ_HEAD(registry_list_head,
    local_registry) registries = TAILQ_HEAD_INITIALIZER(registries);

/* The child has no control thread: it leaves the parent's registries alone. */
static void on_fork(enum fork_phase phase)
{
	if (phase == FORK_PREPARE) {
		pthread_mutex_lock(&dfi__local_lock);
		return;
	}
	if (phase == FORK_CHILD)
		TAILQ_INIT(&registries);
	pthread_mutex_unlock(&dfi__local_lock);
}

static struct fork_hook fork_hook = { .fn = on_fork };

/* Enter the registry of a client for a call that may change it. */
static int begin(const struct local_client *client)
{
	pthread_mutex_lock(&dfi__local_lock);
	if (!client->lost)
		return 0;
	return dfi__fail(-ENOTCONN,
	    "registry %s: there was no memory for an event of this context",
	    client->registry->address);
}

/* Leave the registry; watches get what has changed. */
static void end(const struct local_client *client)
{
	dfi__local_notify(client->registry->table);
	pthread_mutex_unlock(&dfi__local_lock);
}

static int put_entered(const struct local_client *client,
    const struct registry_put *put, uint64_t *revision)
{
	struct table_put op = {
		.key = put->key,
		.value = put->value,
		.size = put->size,
		.lease = put->flags & CLIENT_LEASED ? client->lease : 0,
		.owner = client->id,
		.flags = (put->flags & CLIENT_CREATE ? TABLE_CREATE : 0) |
		    (put->flags & CLIENT_RECLAIM ? TABLE_RECLAIM : 0),
	};

	return dfi__table_put(client->registry->table, &op, revision);
}

/* There is always an answer in time, so put->over() is not asked. */
static int put(struct registry_client *base, const struct registry_put *put,
    int64_t deadline, uint64_t *revision)
{
	const struct local_client *client = local_of(base);
	int ret = begin(client);

	(void)deadline;
	if (!ret)
		ret = put_entered(client, put, revision);
	end(client);
	return ret;
}

/* The value is lent. */
static struct registry_value value_of(const struct table_item *item)
{
	return (struct registry_value){
		.key = (char *)item->key,
		.data = (void *)item->value,
		.size = item->size,
		.revision = item->revision,
	};
}

static int get(struct registry_client *base, const char *key, int64_t deadline,
    struct registry_value *value)
{
	const struct local_client *client = local_of(base);
	struct registry_value found;
	struct table_item item;
	int ret = begin(client);

	(void)deadline;
	if (!ret)
		ret = dfi__table_get(client->registry->table, key, &item);
	if (!ret) {
		found = value_of(&item);
		ret = dfi__registry_value_copy(&found, value);
	}
	end(client);
	return ret;
}

static int list(struct registry_client *base, const char *prefix,
    int64_t deadline, struct registry_list *list)
{
	const struct local_client *client = local_of(base);
	const struct table *table = client->registry->table;
	struct registry_value value;
	struct table_item item;
	int ret = begin(client), found;

	(void)deadline;
	found = dfi__table_next(table, prefix, "", &item);
	for (; !ret && found; found = dfi__table_step(prefix, &item)) {
		value = value_of(&item);
		ret = dfi__registry_list_add(list, &value);
	}
	end(client);
	return ret;
}

static int delete_key(struct registry_client *base, const char *key,
    uint64_t revision, int64_t deadline)
{
	const struct local_client *client = local_of(base);
	int ret = begin(client);

	(void)deadline;
	if (!ret)
		ret = dfi__table_delete(client->registry->table, key, revision);
	end(client);
	return ret;
}

/* Put the value, unless it is NULL, and maybe delete the key, if it is ours. */
static void say(const struct local_client *client, const char *key,
    const void *value, size_t size, bool deletes)
{
	struct table *table = client->registry->table;
	struct registry_put put = {
		.key = key,
		.value = value,
		.size = size,
		.flags = CLIENT_LEASED,
	};
	char text[ERROR_TEXT_SIZE];
	struct table_item item;

	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	if (!dfi__table_get(table, key, &item) && item.owner == client->id) {
		if (value)
			put_entered(client, &put, NULL);
		if (deletes)
			dfi__table_delete(table, key, 0);
	}
	dfi__fail(0, "%s", text);
}

static void renew(struct registry_client *base, const char *key,
    const void *value, size_t size)
{
	const struct local_client *client = local_of(base);

	pthread_mutex_lock(&dfi__local_lock);
	say(client, key, value, size, false);
	end(client);
}

static void retire(struct registry_client *base, const char *key,
    const void *value, size_t size)
{
	const struct local_client *client = local_of(base);

	pthread_mutex_lock(&dfi__local_lock);
	say(client, key, value, size, true);
	end(client);
}

struct joining {
	struct local_client *client;
	struct registry_interest *interests;
	size_t n;
	struct registry_entry *entry;
};

static void take_back(const struct joining *joining, size_t n)
{
	while (n > 0)
		dfi__local_watch_end(
		    local_watch_of(joining->interests[--n].watch));
}

static int join_entered(const struct joining *joining)
{
	const struct registry_entry *entry = joining->entry;
	struct registry_put create;
	size_t i;
	int ret = 0;

	for (i = 0; !ret && i < joining->n; i++)
		ret = dfi__local_watch(joining->client,
		    joining->client->registry->table, &joining->interests[i]);
	if (ret) {
		take_back(joining, i - 1);
		return ret;
	}
	if (!entry)
		return 0;
	create = (struct registry_put){
		.key = entry->key,
		.value = entry->value,
		.size = entry->size,
		.flags = CLIENT_LEASED | CLIENT_CREATE,
	};
	ret = put_entered(joining->client, &create, &joining->entry->revision);
	if (ret)
		take_back(joining, joining->n);
	return ret;
}

static void undo(const struct joining *joining)
{
	struct local_client *client = joining->client;

	pthread_mutex_lock(&client->delivery);
	pthread_mutex_lock(&dfi__local_lock);
	if (joining->entry)
		say(client, joining->entry->key, NULL, 0, true);
	take_back(joining, joining->n);
	end(client);
	pthread_mutex_unlock(&client->delivery);
}

static int join(struct registry_client *base,
    struct registry_interest *interests, size_t n, struct registry_entry *entry,
    int64_t deadline)
{
	struct joining joining = {
		.client = local_of(base),
		.interests = interests,
		.n = n,
		.entry = entry,
	};
	int ret;

	ret = begin(joining.client);
	if (!ret)
		ret = join_entered(&joining);
	end(joining.client);
	if (ret)
		return ret;
	/* The loop delivers the first events before the join ends. */
	dfi__loop_post(base->loop, &joining.client->post);
	ret = dfi__loop_check(base->loop, deadline);
	if (ret)
		undo(&joining);
	return ret;
}

/* The watch's function does not run any more, unless it made this call. */
static void leave(struct registry_watch *base, const char *key)
{
	struct local_client *client = local_of(base->client);

	pthread_mutex_lock(&client->delivery);
	pthread_mutex_lock(&dfi__local_lock);
	if (key)
		say(client, key, NULL, 0, true);
	dfi__local_watch_end(local_watch_of(base));
	end(client);
	pthread_mutex_unlock(&client->delivery);
}

static void unwatch(struct registry_watch *base)
{
	leave(base, NULL);
}

/* The connection is never lost, so nobody waits for keys to come back. */
static void set_grace(struct registry_client *base, uint32_t ms)
{
	(void)base;
	(void)ms;
}

/* With the last client, all keys are gone, also those without a lease. */
static void leave_registry(struct local_registry *registry)
{
	if (--registry->n_clients)
		return;
	TAILQ_REMOVE(&registries, registry, link);
	dfi__table_destroy(registry->table);
	free(registry);
}

static void revoke(struct registry_client *base)
{
	const struct local_client *client = local_of(base);

	pthread_mutex_lock(&dfi__local_lock);
	dfi__table_revoke(client->registry->table, client->lease);
	end(client);
}

/* On the loop's thread. */
static void free_client(void *arg)
{
	struct local_client *client = arg;
	struct table *table = client->registry->table;
	struct local_watch *watch;

	pthread_mutex_lock(&dfi__local_lock);
	while ((watch = TAILQ_FIRST(&client->watches)))
		dfi__local_watch_end(watch);
	dfi__table_revoke(table, client->lease);
	dfi__local_notify(table);
	leave_registry(client->registry);
	pthread_mutex_unlock(&dfi__local_lock);
	dfi__loop_unpost(client->base.loop, &client->post);
	dfi__local_client_free(client);
}

static void close_client(struct registry_client *base)
{
	struct local_client *client = local_of(base);

	client->end = (struct loop_post){ .fn = free_client, .arg = client };
	dfi__loop_end(base->loop, &client->end, deadline_in_ms(CLOSE_MS));
}

static const struct registry_ops ops = {
	.revoke = revoke,
	.close = close_client,
	.set_grace = set_grace,
	.put = put,
	.get = get,
	.list = list,
	.delete_key = delete_key,
	.renew = renew,
	.retire = retire,
	.join = join,
	.unwatch = unwatch,
	.leave = leave,
};

/* No limits: the process can only hurt itself. */
static int new_table(struct table **table)
{
	static const struct table_limits none = {
		.max_keys = SIZE_MAX,
		.max_bytes = SIZE_MAX,
		.max_leases = SIZE_MAX,
		.max_lease_keys = SIZE_MAX,
		.max_watches = SIZE_MAX,
	};
	static const struct table_hooks hooks = { .expired = NULL };

	return dfi__table_create(&none, &hooks, table);
}

/* Find the registry, or make it. The first client makes it stay. */
static int get_registry(const char *address, struct local_registry **out)
{
	size_t size = strlen(address) + 1;
	struct local_registry *registry;
	int ret;

	TAILQ_FOREACH(registry, &registries, link)
	{
		*out = registry;
		if (!strcmp(registry->address, address))
			return 0;
	}
	registry = calloc(1, sizeof(*registry) + size);
	if (!registry)
		return dfi__fail(-ENOMEM, "no memory for registry %s", address);
	memcpy(registry->address, address, size);
	ret = new_table(&registry->table);
	if (ret) {
		free(registry);
		return ret;
	}
	TAILQ_INSERT_TAIL(&registries, registry, link);
	*out = registry;
	return 0;
}

static int enter_registry(struct local_client *client, const char *address)
{
	int ret = get_registry(address, &client->registry);

	if (ret)
		return ret;
	client->registry->n_clients++;
	client->id = ++client->registry->last_client;
	ret = dfi__table_grant(
	    client->registry->table, client, INT64_MAX, 0, &client->lease);
	if (ret)
		leave_registry(client->registry);
	return ret;
}

int dfi__local_open(
    struct loop *loop, const char *address, struct registry_client **client)
{
	struct local_client *new;
	int ret;

	if (!dfi__fork_follow(&fork_hook))
		return dfi__fail(-ENOMEM, "no memory to follow forks");
	new = dfi__local_client_new(loop, &ops);
	if (!new)
		return dfi__fail(-ENOMEM, "no memory for a registry client");
	pthread_mutex_lock(&dfi__local_lock);
	ret = enter_registry(new, address);
	pthread_mutex_unlock(&dfi__local_lock);
	if (ret) {
		dfi__local_client_free(new);
		return ret;
	}
	*client = &new->base;
	return 0;
}
