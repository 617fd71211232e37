/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of other threads. One queues an operation, wakes the loop, and
 * waits for the result, at most until its deadline.
 */
#include "call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "keep.h"
#include "lease.h"
#include "state.h"
#include "watch.h"

/* The interval between two checks whether a call is over. */
#define LOOK_NS (100 * NS_PER_MS)
#define REVOKE_MS 1000

static int check(const char *key, size_t size)
{
	if (strlen(key) > ETCD_KEY_MAX)
		return dfi__fail(-EMSGSIZE,
		    "a registry key of %zu bytes; it may have %d", strlen(key),
		    ETCD_KEY_MAX);
	if (size > ETCD_VALUE_MAX)
		return dfi__fail(-EMSGSIZE,
		    "the value of registry key '%s' has %zu bytes; it may have "
		    "%d",
		    key, size, ETCD_VALUE_MAX);
	return 0;
}

static int check_key(const char *key, size_t size)
{
	return *key ? check(key, size)
		    : dfi__fail(-EINVAL, "an empty registry key");
}

void dfi__waiter_init(struct waiter *waiter)
{
	memset(waiter, 0, sizeof(*waiter));
	pthread_cond_init(&waiter->ended, NULL);
}

bool dfi__waiter_wait(
    struct etcd_client *client, struct waiter *waiter, int64_t deadline)
{
	struct timespec when = deadline_timespec(deadline);
	int err = 0;
	bool done;

	pthread_mutex_lock(&client->lock);
	while (!waiter->done && !err) {
		if (deadline == DEADLINE_NEVER)
			err = pthread_cond_wait(&waiter->ended, &client->lock);
		else
			err = pthread_cond_clockwait(&waiter->ended,
			    &client->lock, CLOCK_MONOTONIC, &when);
	}
	done = waiter->done;
	pthread_mutex_unlock(&client->lock);
	return done;
}

/* Without having entered: over() may take other locks. */
static bool wait_until(struct etcd_client *client, struct waiter *waiter,
    const struct registry_put *put, int64_t deadline)
{
	int64_t look;

	while (put && put->over) {
		look = clock_now_ns() + LOOK_NS;
		if (look >= deadline)
			break;
		if (dfi__waiter_wait(client, waiter, look))
			return true;
		if (put->over(put->over_arg))
			return false;
	}
	return dfi__waiter_wait(client, waiter, deadline);
}

static void count_caller(struct etcd_client *client, int by)
{
	pthread_mutex_lock(&client->lock);
	client->n_callers += (unsigned)by;
	if (!client->n_callers)
		pthread_cond_signal(&client->no_caller);
	pthread_mutex_unlock(&client->lock);
}

/* Queue an operation, or free it. */
static int submit(struct etcd_client *client, struct etcd_operation *operation)
{
	int ret = 0;

	if (client->closing)
		ret = dfi__fail(-ENOTCONN, "registry %s: the client is closed",
		    client->at.address);
	else if (client->lost)
		ret = dfi__fail(client->lost_err, "%s", client->lost_text);
	if (ret)
		dfi__operation_free(operation);
	else
		dfi__operation_queue(client, operation);
	return ret;
}

/* Carry an operation out, and free it. The caller has entered once. */
static int call_entered(struct etcd_client *client,
    struct etcd_operation *operation, struct waiter *waiter,
    const struct registry_put *put, int64_t deadline)
{
	int ret;

	operation->waiter = waiter;
	ret = submit(client, operation);
	etcd_exit(client);
	if (ret)
		return ret;
	dfi__loop_post(client->base.loop, &client->post);
	if (!wait_until(client, waiter, put, deadline)) {
		etcd_enter(client);
		/* If it is not done, the operation is still there. */
		if (!waiter->done) {
			dfi__operation_abandon(client, operation);
			waiter->ret = -ETIMEDOUT;
			snprintf(waiter->text, sizeof(waiter->text),
			    "registry %s: no answer in time",
			    client->at.address);
		}
		etcd_exit(client);
	}
	return waiter->ret ? dfi__fail(waiter->ret, "%s", waiter->text) : 0;
}

static int call(struct etcd_client *client, struct etcd_operation *operation,
    struct waiter *waiter, const struct registry_put *put, int64_t deadline)
{
	int ret;
	CANCEL_OFF;

	if (!operation)
		return -ENOMEM;
	count_caller(client, 1);
	dfi__waiter_init(waiter);
	etcd_enter(client);
	ret = call_entered(client, operation, waiter, put, deadline);
	pthread_cond_destroy(&waiter->ended);
	count_caller(client, -1);
	return ret;
}

int dfi__etcd_put(struct registry_client *base, const struct registry_put *put,
    int64_t deadline, uint64_t *revision)
{
	struct etcd_client *client = etcd_of(base);
	struct etcd_operation *operation;
	enum operation_kind kind = OP_PUT;
	struct waiter waiter;
	int ret = check_key(put->key, put->size);

	if (ret)
		return ret;
	if (put->flags & CLIENT_CREATE)
		kind = put->flags & CLIENT_RECLAIM ? OP_RECLAIM : OP_CREATE;
	operation = dfi__operation_new(
	    client, kind, put->key, put->value, put->size);
	if (operation)
		operation->flags = put->flags;
	ret = call(client, operation, &waiter, put, deadline);
	if (!ret && revision)
		*revision = waiter.revision;
	return ret;
}

int dfi__etcd_get(struct registry_client *base, const char *key,
    int64_t deadline, struct registry_value *value)
{
	struct etcd_client *client = etcd_of(base);
	struct waiter waiter;
	int ret = check_key(key, 0);

	if (!ret)
		ret = call(client,
		    dfi__operation_new(client, OP_GET, key, NULL, 0), &waiter,
		    NULL, deadline);
	if (ret)
		return ret;
	*value = waiter.list.values[0];
	free(waiter.list.values);
	return 0;
}

int dfi__etcd_list(struct registry_client *base, const char *prefix,
    int64_t deadline, struct registry_list *list)
{
	struct etcd_client *client = etcd_of(base);
	struct waiter waiter;
	int ret = check(prefix, 0);

	if (!ret)
		ret = call(client,
		    dfi__operation_new(client, OP_LIST, prefix, NULL, 0),
		    &waiter, NULL, deadline);
	if (!ret)
		*list = waiter.list;
	return ret;
}

int dfi__etcd_delete(struct registry_client *base, const char *key,
    uint64_t revision, int64_t deadline)
{
	struct etcd_client *client = etcd_of(base);
	struct etcd_operation *operation;
	struct waiter waiter;
	int ret = check_key(key, 0);

	if (ret)
		return ret;
	operation = dfi__operation_new(client, OP_DELETE, key, NULL, 0);
	if (operation)
		operation->revision = revision;
	return call(client, operation, &waiter, NULL, deadline);
}

/*
 * A change that nobody waits for, of a key that this client has set. Without
 * memory, the key ends with the lease.
 */
static void say(struct etcd_client *client, enum operation_kind kind,
    const char *key, const void *value, size_t size)
{
	struct etcd_operation *operation = dfi__operation_new(
	    client, kind, key, value, size);

	if (!operation)
		return;
	dfi__operation_queue(client, operation);
	dfi__loop_post(client->base.loop, &client->post);
}

void dfi__etcd_renew(struct registry_client *base, const char *key,
    const void *value, size_t size)
{
	struct etcd_client *client = etcd_of(base);
	struct kept_key *kept;
	char text[ERROR_TEXT_SIZE];

	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	etcd_enter(client);
	kept = dfi__etcd_keep_find(client, key);
	if (kept) {
		dfi__etcd_keep_change(client, kept, value, size);
		say(client, OP_RENEW, key, value, size);
	}
	etcd_exit(client);
	dfi__fail(0, "%s", text);
}

static void retire(
    struct etcd_client *client, const char *key, const void *value, size_t size)
{
	if (!dfi__etcd_keep_find(client, key))
		return;
	if (value)
		say(client, OP_RENEW, key, value, size);
	say(client, OP_RETIRE, key, NULL, 0);
	/* This comes last, as key may be the kept copy. */
	dfi__etcd_keep_drop(client, key);
}

void dfi__etcd_retire(struct registry_client *base, const char *key,
    const void *value, size_t size)
{
	struct etcd_client *client = etcd_of(base);
	char text[ERROR_TEXT_SIZE];

	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	etcd_enter(client);
	retire(client, key, value, size);
	etcd_exit(client);
	dfi__fail(0, "%s", text);
}

/* An operation that makes the watches. NULL: no memory. */
static struct etcd_operation *new_join(struct etcd_client *client,
    const struct registry_interest *interests, size_t n,
    const struct registry_entry *entry)
{
	struct etcd_operation *operation = entry
	    ? dfi__operation_new(
		  client, OP_CREATE, entry->key, entry->value, entry->size)
	    : dfi__operation_new(client, OP_JOIN, NULL, NULL, 0);
	struct etcd_watch *watch;

	if (!operation)
		return NULL;
	operation->flags = CLIENT_LEASED;
	while (operation->n_watches < n) {
		watch = dfi__etcd_watch_new(
		    client, &interests[operation->n_watches]);
		if (!watch) {
			dfi__operation_free(operation);
			dfi__fail(-ENOMEM, "no memory for a registry watch");
			return NULL;
		}
		operation->watches[operation->n_watches++] = watch;
	}
	return operation;
}

static int check_join(const struct registry_interest *interests, size_t n,
    const struct registry_entry *entry)
{
	int ret = entry ? check_key(entry->key, entry->size) : 0;
	size_t i;

	for (i = 0; !ret && i < n; i++)
		ret = interests[i].exact ? check_key(interests[i].prefix, 0)
					 : check(interests[i].prefix, 0);
	return ret;
}

/* The same as call(), with watches that are made while entered. */
static int call_join(struct etcd_client *client,
    struct registry_interest *interests, size_t n, struct registry_entry *entry,
    int64_t deadline)
{
	struct etcd_watch *watches[CLIENT_INTERESTS];
	struct etcd_operation *operation;
	struct waiter waiter;
	size_t i;
	int ret;

	dfi__waiter_init(&waiter);
	etcd_enter(client);
	operation = new_join(client, interests, n, entry);
	if (operation) {
		memcpy(watches, operation->watches, sizeof(watches));
		ret = call_entered(client, operation, &waiter, NULL, deadline);
	} else {
		etcd_exit(client);
		ret = -ENOMEM;
	}
	pthread_cond_destroy(&waiter.ended);
	for (i = 0; !ret && i < n; i++)
		interests[i].watch = &watches[i]->base;
	if (!ret && entry)
		entry->revision = waiter.revision;
	return ret;
}

int dfi__etcd_join(struct registry_client *base,
    struct registry_interest *interests, size_t n, struct registry_entry *entry,
    int64_t deadline)
{
	struct etcd_client *client = etcd_of(base);
	int ret = check_join(interests, n, entry);
	CANCEL_OFF;

	if (ret)
		return ret;
	count_caller(client, 1);
	ret = call_join(client, interests, n, entry, deadline);
	count_caller(client, -1);
	return ret;
}

void dfi__etcd_unwatch(struct registry_watch *base)
{
	struct etcd_client *client = etcd_of(base->client);

	etcd_enter(client);
	dfi__etcd_watch_free(etcd_watch_of(base));
	etcd_exit(client);
}

void dfi__etcd_leave(struct registry_watch *base, const char *key)
{
	dfi__etcd_retire(base->client, key, NULL, 0);
	dfi__etcd_unwatch(base);
}

/* If etcd doesn't answer, the lease ends after its time. */
void dfi__etcd_revoke(struct registry_client *base)
{
	struct etcd_client *client = etcd_of(base);
	struct waiter waiter;
	bool needed;

	etcd_enter(client);
	needed = !client->revoked && client->lease.id && !client->lost;
	client->revoked = true;
	etcd_exit(client);
	if (needed)
		call(client,
		    dfi__operation_new(client, OP_REVOKE, NULL, NULL, 0),
		    &waiter, NULL, deadline_in_ms(REVOKE_MS));
}
