/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the registries inside the process. A change copies its key and
 * value into the queue of each client whose watch it concerns, and wakes that
 * client's loop. Without memory for that the client is lost: its watches are
 * told so, as a gap in their events would be worse.
 */
#include "events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

pthread_mutex_t dfi__local_lock = PTHREAD_MUTEX_INITIALIZER;

struct local_event {
	TAILQ_ENTRY(local_event) link;
	LIST_ENTRY(local_event) of_watch;
	struct local_watch *watch;
	struct registry_event event; /* key and data are in text */
	char text[];
};

static bool queue(struct local_watch *watch, enum registry_event_type type,
    const struct table_item *item)
{
	struct local_client *client = local_of(watch->base.client);
	size_t size = strlen(item->key) + 1;
	struct local_event *event = malloc(sizeof(*event) + size + item->size);

	if (!event)
		return false;
	event->watch = watch;
	event->event = (struct registry_event){
		.type = type,
		.key = event->text,
		.data = event->text + size,
		.size = item->size,
		.revision = item->revision,
	};
	memcpy(event->text, item->key, size);
	if (item->size)
		memcpy(event->text + size, item->value, item->size);
	TAILQ_INSERT_TAIL(&client->events, event, link);
	LIST_INSERT_HEAD(&watch->events, event, of_watch);
	return true;
}

static void take_out(struct local_client *client, struct local_event *event)
{
	TAILQ_REMOVE(&client->events, event, link);
	LIST_REMOVE(event, of_watch);
}

/* No watch is made from now on, so all that are to be told are in the list. */
static void lose(struct local_client *client)
{
	client->lost = true;
	client->untold = TAILQ_FIRST(&client->watches);
}

static void queue_notice(const struct table_notice *notice)
{
	struct local_watch *watch = notice->watcher;
	struct local_client *client = local_of(watch->base.client);

	if (!client->lost &&
	    !queue(watch,
		notice->type == TABLE_PUT ? REGISTRY_PUT : REGISTRY_DELETE,
		&notice->item))
		lose(client);
	dfi__loop_post(client->base.loop, &client->post);
}

void dfi__local_notify(struct table *table)
{
	struct table_notice notice;
	size_t n = 0;

	while (dfi__table_notice(table, SIZE_MAX, &n, &notice))
		queue_notice(&notice);
}

static struct local_event *take_event(struct local_client *client)
{
	struct local_event *event;

	pthread_mutex_lock(&dfi__local_lock);
	event = TAILQ_FIRST(&client->events);
	if (event)
		take_out(client, event);
	pthread_mutex_unlock(&dfi__local_lock);
	return event;
}

/* The next watch to be told that the client is lost, or NULL. */
static struct local_watch *take_untold(struct local_client *client)
{
	struct local_watch *watch;

	pthread_mutex_lock(&dfi__local_lock);
	watch = client->untold;
	if (watch)
		client->untold = TAILQ_NEXT(watch, link);
	pthread_mutex_unlock(&dfi__local_lock);
	return watch;
}

static void deliver(struct local_client *client)
{
	static const struct registry_event lost = { .type = REGISTRY_LOST };
	struct local_event *event;
	struct local_watch *watch;

	pthread_mutex_lock(&client->delivery);
	while ((event = take_event(client))) {
		event->watch->fn(event->watch->arg, &event->event);
		free(event);
	}
	watch = take_untold(client);
	if (watch)
		dfi__log(DFI_LOG_ERROR,
		    "local registry: no memory for the event of a watch");
	for (; watch; watch = take_untold(client))
		watch->fn(watch->arg, &lost);
	pthread_mutex_unlock(&client->delivery);
}

static void on_post(void *arg)
{
	deliver(arg);
}

static int queue_all(struct local_watch *watch, const char *text, bool exact)
{
	struct table_item item;
	int found;

	found = exact ? !dfi__table_get(watch->table, text, &item)
		      : dfi__table_next(watch->table, text, "", &item);
	while (found) {
		if (!queue(watch, REGISTRY_PUT, &item))
			return -ENOMEM;
		found = !exact && dfi__table_step(text, &item);
	}
	return 0;
}

static int fail_memory(void)
{
	return dfi__fail(-ENOMEM, "no memory for a registry watch");
}

int dfi__local_watch(struct local_client *client, struct table *table,
    struct registry_interest *interest)
{
	struct local_watch *watch = calloc(1, sizeof(*watch));
	int ret;

	if (!watch)
		return fail_memory();
	watch->base.client = &client->base;
	watch->table = table;
	watch->fn = interest->fn;
	watch->arg = interest->arg;
	LIST_INIT(&watch->events);
	ret = dfi__table_watch(table, watch, 0, interest->prefix,
	    interest->exact ? TABLE_KEY : TABLE_PREFIX);
	if (ret) {
		free(watch);
		return ret;
	}
	TAILQ_INSERT_TAIL(&client->watches, watch, link);
	if (queue_all(watch, interest->prefix, interest->exact)) {
		dfi__local_watch_end(watch);
		return fail_memory();
	}
	interest->watch = &watch->base;
	return 0;
}

void dfi__local_watch_end(struct local_watch *watch)
{
	struct local_client *client = local_of(watch->base.client);
	struct local_event *event;

	dfi__table_unwatch(watch->table, watch, 0);
	if (client->untold == watch)
		client->untold = TAILQ_NEXT(watch, link);
	TAILQ_REMOVE(&client->watches, watch, link);
	while ((event = LIST_FIRST(&watch->events))) {
		take_out(client, event);
		free(event);
	}
	free(watch);
}

struct local_client *dfi__local_client_new(
    struct loop *loop, const struct registry_ops *ops)
{
	struct local_client *client = calloc(1, sizeof(*client));
	pthread_mutexattr_t attr;

	if (!client)
		return NULL;
	client->base = (struct registry_client){ .ops = ops, .loop = loop };
	client->post = (struct loop_post){ .fn = on_post, .arg = client };
	TAILQ_INIT(&client->watches);
	TAILQ_INIT(&client->events);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&client->delivery, &attr);
	pthread_mutexattr_destroy(&attr);
	return client;
}

void dfi__local_client_free(struct local_client *client)
{
	pthread_mutex_destroy(&client->delivery);
	free(client);
}
