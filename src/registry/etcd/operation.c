/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of operations, and their ends. An operation that changes something
 * is sent at most once under one number of the fence: so a request that is
 * still on its way when nobody waits for it any more has no effect later.
 */
#include "operation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "json.h"
#include "keep.h"
#include "lease.h"
#include "request.h"
#include "state.h"
#include "watch.h"

#define RUNNING_MAX 16 /* requests, each with a connection */

struct etcd_operation *dfi__operation_new(struct etcd_client *client,
    enum operation_kind kind, const char *key, const void *value, size_t size)
{
	struct etcd_operation *operation = calloc(1, sizeof(*operation));

	if (operation) {
		operation->client = client;
		operation->kind = kind;
		operation->key = key ? strdup(key) : NULL;
		operation->value = malloc(size + 1);
		operation->size = size;
	}
	if (!operation || (key && !operation->key) || !operation->value) {
		if (operation)
			dfi__operation_free(operation);
		dfi__fail(-ENOMEM, "no memory for a request to etcd");
		return NULL;
	}
	if (size)
		memcpy(operation->value, value, size);
	return operation;
}

static void free_watches(struct etcd_operation *operation)
{
	while (operation->n_watches)
		dfi__etcd_watch_free(
		    operation->watches[--operation->n_watches]);
}

void dfi__operation_free(struct etcd_operation *operation)
{
	dfi__exchange_end(&operation->exchange);
	free_watches(operation);
	dfi__registry_list_free(&operation->list);
	free(operation->key);
	free(operation->value);
	free(operation);
}

void dfi__operation_queue(
    struct etcd_client *client, struct etcd_operation *operation)
{
	if (operation->kind != OP_UNDO)
		operation->put = ++client->n_puts;
	TAILQ_INSERT_TAIL(&client->operations, operation, link);
}

static void take_out(struct etcd_operation *operation)
{
	struct etcd_client *client = operation->client;

	TAILQ_REMOVE(&client->operations, operation, link);
	if (operation->running)
		client->n_running--;
	operation->running = false;
}

/* Set a waiter's result, with dfi_errmsg(). It may be gone on return. */
static void set_result(struct etcd_operation *operation, int ret)
{
	struct etcd_client *client = operation->client;
	struct waiter *waiter = operation->waiter;

	operation->waiter = NULL;
	pthread_mutex_lock(&client->lock);
	waiter->ret = ret;
	if (ret)
		snprintf(
		    waiter->text, sizeof(waiter->text), "%s", dfi_errmsg());
	waiter->revision = operation->revision;
	waiter->list = operation->list;
	operation->list = (struct registry_list){ .count = 0 };
	waiter->done = true;
	pthread_cond_signal(&waiter->ended);
	pthread_mutex_unlock(&client->lock);
}

static void note_key(const struct etcd_operation *operation)
{
	struct etcd_client *client = operation->client;

	switch (operation->kind) {
	case OP_PUT:
	case OP_CREATE:
	case OP_RECLAIM:
		dfi__etcd_keep(client, operation->key, operation->value,
		    operation->size,
		    operation->flags &
			(CLIENT_LEASED | CLIENT_SHARED | CLIENT_ONCE));
		break;
	case OP_DELETE:
		dfi__etcd_keep_drop(client, operation->key);
		break;
	default:
		break;
	}
}

/* It has ended. Frees it. */
static void end(struct etcd_operation *operation, int ret)
{
	size_t i;

	take_out(operation);
	if (operation->waiter) {
		if (!ret)
			note_key(operation);
		for (i = 0; !ret && i < operation->n_watches; i++)
			operation->watches[i]->made = true;
		if (ret)
			free_watches(operation);
		/* Its caller has the watches now. */
		operation->n_watches = 0;
		set_result(operation, ret);
	} else if (ret && !operation->abandoned) {
		dfi__log(
		    DFI_LOG_WARN, "'%s': %s", operation->key, dfi_errmsg());
	}
	dfi__operation_free(operation);
}

/* Its key must not be there: delete it if it is. */
static void turn_into_undo(struct etcd_operation *operation)
{
	operation->kind = OP_UNDO;
	free_watches(operation);
}

/* An abandoned one can still have an effect. Either undo or forget that. */
static void settle(struct etcd_operation *operation)
{
	if (operation->kind == OP_CREATE)
		turn_into_undo(operation);
	else
		end(operation, 0);
}

static void start(struct etcd_operation *operation);

/* Whether the key that exists is from an earlier request of the operation. */
static bool is_own(struct etcd_operation *operation, const json_t *inner)
{
	struct etcd_client *client = operation->client;
	const json_t *range = json_object_get(
	    dfi__json_item(inner, "responses", 0), "response_range");
	struct etcd_value value;
	bool own;

	if (!dfi__value_read(client, dfi__json_item(range, "kvs", 0), &value))
		return false;
	own = value.owner == client->id && value.put == operation->put;
	operation->revision = value.revision;
	dfi__value_free(&value);
	return own;
}

/* What was read for watches; the first of them is this response. */
static void fill_watches(struct etcd_operation *operation, const json_t *answer,
    size_t first, uint64_t revision)
{
	size_t i;

	for (i = 0; i < operation->n_watches; i++)
		dfi__etcd_watch_fill(operation->watches[i],
		    json_object_get(
			dfi__json_item(answer, "responses", first + i),
			"response_range"),
		    revision, true);
}

/* The result of a change that etcd has answered. */
static int result_of(struct etcd_operation *operation, const json_t *inner)
{
	const char *address = operation->client->at.address;
	bool done = json_is_true(json_object_get(inner, "succeeded"));

	switch (operation->kind) {
	case OP_CREATE:
		if (done || is_own(operation, inner))
			return 0;
		return dfi__fail(-EEXIST,
		    "registry %s: the key '%s' exists already", address,
		    operation->key);
	case OP_RECLAIM:
		if (done ||
		    json_is_true(json_object_get(
			dfi__json_answer(inner, 0), "succeeded")))
			return 0;
		return dfi__fail(-EEXIST,
		    "registry %s: the key '%s' belongs to another client",
		    address, operation->key);
	case OP_DELETE:
		/* The first of several requests may have deleted it. */
		if (done || operation->repeated)
			return 0;
		return dfi__fail(-ENOENT, "registry %s: no key '%s'%s", address,
		    operation->key,
		    operation->revision ? " of that revision" : "");
	default:
		return 0;
	}
}

static void end_change(
    struct etcd_operation *operation, const json_t *inner, uint64_t revision)
{
	int ret;

	if (operation->abandoned && operation->kind != OP_UNDO) {
		settle(operation);
		return;
	}
	if (operation->kind != OP_DELETE)
		operation->revision = revision;
	ret = result_of(operation, inner);
	if (!ret)
		fill_watches(operation, inner, 1, revision);
	end(operation, ret);
}

/* The fence is not as known: it has risen since, or the lease has ended. */
static void refuse(struct etcd_operation *operation, const json_t *answer)
{
	struct etcd_client *client = operation->client;
	const json_t *range = json_object_get(
	    dfi__json_item(answer, "responses", 0), "response_range");
	bool current = operation->lease == client->lease.id;

	if (current &&
	    (!dfi__json_item(range, "kvs", 0) ||
		(operation->fence == client->fence.number &&
		    !client->fence.rising)))
		dfi__lease_end(client);
	else if (operation->abandoned && operation->kind != OP_UNDO)
		settle(operation);
}

/* Add what a range has found to the list. */
static int add_values(struct etcd_operation *operation, const json_t *answer)
{
	struct registry_value found;
	struct etcd_value value;
	const json_t *pair;
	int ret = 0;
	size_t i;

	for (i = 0; !ret && (pair = dfi__json_item(answer, "kvs", i)); i++) {
		if (!dfi__value_read(operation->client, pair, &value))
			continue;
		found = (struct registry_value){
			.key = value.key,
			.data = (void *)value.data,
			.size = value.size,
			.revision = value.revision,
		};
		ret = dfi__registry_list_add(&operation->list, &found);
		dfi__value_free(&value);
	}
	return ret;
}

static void end_read(struct etcd_operation *operation, const json_t *answer)
{
	uint64_t revision = dfi__json_get(
	    json_object_get(answer, "header"), "revision");
	size_t before = operation->list.count;
	int ret = add_values(operation, answer);

	if (operation->kind == OP_JOIN)
		fill_watches(operation, answer, 0, revision);
	if (!ret && operation->kind == OP_GET && !operation->list.count)
		ret = dfi__fail(-ENOENT, "registry %s: no key '%s'",
		    operation->client->at.address, operation->key);
	if (!ret && operation->list.count > before &&
	    json_is_true(json_object_get(answer, "more")))
		start(operation);
	else
		end(operation, ret);
}

static void on_answer(struct etcd_operation *operation, const json_t *answer)
{
	if (!operation_changes(operation->kind))
		end_read(operation, answer);
	else if (!json_is_true(json_object_get(answer, "succeeded")))
		refuse(operation, answer);
	else
		end_change(operation, dfi__json_answer(answer, 0),
		    dfi__json_get(
			json_object_get(answer, "header"), "revision"));
}

static void on_done(void *arg, int ret, const json_t *answer)
{
	struct etcd_operation *operation = arg;
	struct etcd_client *client = operation->client;

	operation->running = false;
	client->n_running--;
	if (!ret) {
		on_answer(operation, answer);
	} else if (ret == -EAGAIN) {
		operation->repeated = true;
		if (operation->abandoned && operation->kind != OP_UNDO)
			settle(operation);
		dfi__fence_raise(client);
	} else if (ret == -ENOKEY && operation->kind != OP_REVOKE) {
		if (operation->lease == client->lease.id)
			dfi__lease_end(client);
	} else {
		end(operation, ret == -ENOKEY ? 0 : ret);
	}
	dfi__operation_start_all(client);
}

/* Whether it has to do with a key. */
static bool concerns(const struct etcd_operation *operation, const char *key)
{
	size_t i;

	if (operation->kind == OP_LIST)
		return !strncmp(key, operation->key, strlen(operation->key));
	if (operation->key && !strcmp(key, operation->key))
		return true;
	for (i = 0; i < operation->n_watches; i++)
		if (dfi__etcd_watch_concerns(operation->watches[i], key))
			return true;
	return false;
}

static bool is_blocked(const struct etcd_operation *operation)
{
	const struct etcd_client *client = operation->client;
	const struct etcd_operation *earlier;

	if (operation->kind == OP_REVOKE)
		return false;
	TAILQ_FOREACH(earlier, &client->operations, link)
	{
		if (earlier == operation)
			return false;
		if (operation_changes(earlier->kind) &&
		    concerns(operation, earlier->key))
			return true;
	}
	return false;
}

static void start(struct etcd_operation *operation)
{
	struct etcd_client *client = operation->client;

	operation->running = true;
	client->n_running++;
	operation->fence = client->fence.number;
	operation->lease = client->lease.id;
	operation->exchange = (struct exchange){
		.done = on_done,
		.arg = operation,
		.path = dfi__request_path(operation),
		.once = operation_changes(operation->kind),
	};
	dfi__exchange_start(
	    client, &operation->exchange, dfi__request_of(operation));
}

static struct etcd_operation *next_to_start(const struct etcd_client *client)
{
	struct etcd_operation *operation;

	if (client->lost || client->closing || !client->open ||
	    client->fence.rising || client->n_running >= RUNNING_MAX)
		return NULL;
	TAILQ_FOREACH(operation, &client->operations, link)
	{
		if (!operation->running && !is_blocked(operation))
			return operation;
	}
	return NULL;
}

/* Starting one may end it, and change the queue. */
void dfi__operation_start_all(struct etcd_client *client)
{
	struct etcd_operation *operation;

	if (client->starting)
		return;
	client->starting = true;
	while ((operation = next_to_start(client)))
		start(operation);
	client->starting = false;
}

void dfi__operation_abandon(
    struct etcd_client *client, struct etcd_operation *operation)
{
	(void)client;
	operation->waiter = NULL;
	operation->abandoned = true;
	free_watches(operation);
	/* The exchange is the loop's: on_done() finds out what has happened. */
	if (operation->running)
		return;
	if (operation->repeated)
		settle(operation);
	else
		end(operation, 0);
}

void dfi__operation_fail_all(struct etcd_client *client, int err)
{
	struct etcd_operation *operation, *next;

	for (operation = TAILQ_FIRST(&client->operations); operation;
	     operation = next) {
		next = TAILQ_NEXT(operation, link);
		if (!operation->waiter)
			continue;
		dfi__fail(err, "%s", client->lost_text);
		set_result(operation, err);
		dfi__operation_abandon(client, operation);
	}
}

void dfi__operation_free_all(struct etcd_client *client)
{
	struct etcd_operation *operation;

	while ((operation = TAILQ_FIRST(&client->operations))) {
		take_out(operation);
		dfi__operation_free(operation);
	}
}
