/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps by which a client begins and comes back, see enum restore_step.
 * When one fails, it is tried again after a while; while the client is opened,
 * the opening fails.
 *
 * A gap in the stream, because etcd has compacted what it wants, takes the
 * steps REVISION and WATCHES; the client is not lost meanwhile.
 */
#include "restore.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "json.h"
#include "keep.h"
#include "lease.h"
#include "operation.h"
#include "request.h"
#include "state.h"
#include "stream.h"
#include "watch.h"

#define AGAIN_MS 500
#define BATCH_BYTES (256u << 10) /* etcd takes 1.5 MiB */

static void go_on(struct etcd_client *client);
static void on_answer(void *arg, int ret, const json_t *answer);

static struct timeval timeval_of_ms(uint32_t ms)
{
	return (struct timeval){
		.tv_sec = ms / 1000,
		.tv_usec = (suseconds_t)(ms % 1000) * 1000,
	};
}

static void again_later(struct etcd_client *client)
{
	struct timeval wait = timeval_of_ms(AGAIN_MS);

	event_add(client->restore.timer, &wait);
}

static void drop_batch(struct etcd_client *client)
{
	struct restore *restore = &client->restore;
	unsigned i;

	for (i = 0; i < RESTORE_BATCH; i++) {
		if (restore->watches[i])
			restore->watches[i]->slot = 0;
		restore->watches[i] = NULL;
		free(restore->keys[i]);
		restore->keys[i] = NULL;
	}
	restore->n = 0;
}

static void ask(struct etcd_client *client, const char *path, json_t *body)
{
	struct restore *restore = &client->restore;

	restore->exchange = (struct exchange){
		.done = on_answer,
		.arg = client,
		.path = path,
		.once = restore->step == RESTORE_KEYS,
		.hasty = !client->open,
	};
	dfi__exchange_start(client, &restore->exchange, body);
}

static void finish(struct etcd_client *client)
{
	struct restore *restore = &client->restore;
	struct timeval grace = timeval_of_ms(atomic_load(&client->grace_ms));

	restore->step = RESTORE_NOTHING;
	if (restore->opener) {
		client->open = true;
		pthread_mutex_lock(&client->lock);
		restore->opener->done = true;
		pthread_cond_signal(&restore->opener->ended);
		pthread_mutex_unlock(&client->lock);
		restore->opener = NULL;
		return;
	}
	if (!restore->leased)
		event_add(restore->grace_timer, &grace);
	if (client->lost)
		dfi__etcd_restore_alive(client);
	dfi__operation_start_all(client);
}

void dfi__etcd_restore_alive(struct etcd_client *client)
{
	if (client->restore.step != RESTORE_NOTHING)
		return;
	client->lost = client->cut = false;
	/* Use the level of the message that reported the loss. */
	dfi__log(DFI_LOG_WARN, "the connection to registry %s is back",
	    client->at.address);
	dfi__etcd_watch_report(client, REGISTRY_BACK);
	dfi__operation_start_all(client);
}

static void ask_watches(struct etcd_client *client)
{
	struct restore *restore = &client->restore;
	json_t *ranges = json_array();
	struct etcd_watch *watch;

	drop_batch(client);
	TAILQ_FOREACH(watch, &client->watches, link)
	{
		if (!watch->made || watch->sent)
			continue;
		watch->sent = true;
		restore->watches[restore->n++] = watch;
		watch->slot = restore->n;
		ranges = dfi__json_add(ranges, dfi__watch_range(watch));
		if (restore->n == RESTORE_BATCH)
			break;
	}
	if (restore->n) {
		ask(client, "/v3/kv/txn",
		    dfi__json_txn(json_array(), ranges, json_array()));
		return;
	}
	json_decref(ranges);
	restore->step = RESTORE_KEYS;
	go_on(client);
}

/* The fence protects all of them. */
static json_t *restoration(
    const struct etcd_client *client, const struct kept_key *kept)
{
	bool leased = kept->flags & CLIENT_LEASED;
	json_t *put = dfi__request_put(
	    client, kept->key, kept->value, kept->size, kept->put, leased);
	json_t *own = dfi__request_add_own(client, json_array(), kept->key);
	json_t *again = dfi__json_txn(
	    own, dfi__json_add(json_array(), json_incref(put)), json_array());
	json_t *absent = dfi__json_absent(dfi__request_key(client, kept->key));

	/* etcd has kept a key without a lease, unless others deleted it. */
	if ((!leased || kept->flags & CLIENT_ONCE) && !client->restore.anew) {
		json_decref(put);
		json_decref(absent);
		return dfi__json_nested(again);
	}
	return dfi__json_nested(
	    dfi__json_txn(dfi__json_add(json_array(), absent),
		dfi__json_add(json_array(), put),
		dfi__json_add(json_array(), dfi__json_nested(again))));
}

static void ask_keys(struct etcd_client *client)
{
	struct restore *restore = &client->restore;
	json_t *operations = json_array();
	struct kept_key *kept;
	size_t bytes = 0;

	drop_batch(client);
	TAILQ_FOREACH(kept, &client->kept, link)
	{
		if (restore->leased || kept->sent)
			continue;
		if (restore->n == RESTORE_BATCH || bytes > BATCH_BYTES)
			break;
		restore->keys[restore->n] = strdup(kept->key);
		if (!restore->keys[restore->n])
			break;
		restore->n++;
		bytes += kept->size;
		kept->sent = true;
		kept->put = ++client->n_puts;
		operations = dfi__json_add(
		    operations, restoration(client, kept));
	}
	if (!restore->n) {
		json_decref(operations);
		finish(client);
		return;
	}
	ask(client, "/v3/kv/txn", dfi__request_fenced(client, operations));
}

static void go_on(struct etcd_client *client)
{
	switch (client->restore.step) {
	case RESTORE_NOTHING:
		break;
	case RESTORE_GRANT:
		ask(client, "/v3/lease/grant", dfi__lease_grant(client));
		break;
	case RESTORE_FENCE:
		ask(client, "/v3/kv/txn", dfi__fence_set(client));
		break;
	case RESTORE_REVISION:
		ask(client, "/v3/kv/range",
		    json_pack("{s:o}", "key", dfi__request_fence_key(client)));
		break;
	case RESTORE_WATCHES:
		ask_watches(client);
		break;
	case RESTORE_KEYS:
		ask_keys(client);
		break;
	}
}

/* From this revision on, the stream has all changes: read what was before. */
static void read_again(struct etcd_client *client, const json_t *answer)
{
	struct restore *restore = &client->restore;
	uint64_t revision = dfi__json_get(
	    json_object_get(answer, "header"), "revision");
	struct etcd_watch *watch;
	struct kept_key *kept;

	restore->anew = revision < restore->seen;
	if (restore->anew)
		dfi__log(DFI_LOG_WARN,
		    "registry %s: etcd has lost data, or is another one: its "
		    "revision has gone back from %llu to %llu",
		    client->at.address, (unsigned long long)restore->seen,
		    (unsigned long long)revision);
	restore->seen = revision;
	TAILQ_FOREACH(watch, &client->watches, link)
	{
		if (watch->made)
			dfi__etcd_watch_read_again(watch, restore->anew);
	}
	TAILQ_FOREACH(kept, &client->kept, link)
	{
		kept->sent = false;
		if (!restore->leased)
			kept->gone_at = 0;
	}
	restore->step = RESTORE_WATCHES;
	dfi__stream_begin(client, revision + 1);
}

static void fill_watches(struct etcd_client *client, const json_t *answer)
{
	struct restore *restore = &client->restore;
	uint64_t revision = dfi__json_get(
	    json_object_get(answer, "header"), "revision");
	const json_t *response;
	struct etcd_watch *watch;
	unsigned i;

	for (i = 0; i < restore->n; i++) {
		watch = restore->watches[i];
		restore->watches[i] = NULL;
		response = json_object_get(
		    dfi__json_item(answer, "responses", i), "response_range");
		if (watch)
			dfi__etcd_watch_fill(
			    watch, response, revision, restore->leased);
	}
}

/* Whether restoration i of a batch has set its key. */
static bool is_set(const json_t *answer, unsigned i)
{
	const json_t *inner = dfi__json_answer(answer, i);
	const json_t *again = dfi__json_answer(inner, 0);

	return json_is_true(json_object_get(inner, "succeeded")) ||
	    json_is_true(json_object_get(again, "succeeded"));
}

static void note_keys(struct etcd_client *client, const json_t *answer)
{
	struct restore *restore = &client->restore;
	struct kept_key *kept;
	bool once;
	unsigned i;

	for (i = 0; i < restore->n; i++) {
		kept = dfi__etcd_keep_find(client, restore->keys[i]);
		if (!kept || is_set(answer, i))
			continue;
		dfi__log(DFI_LOG_WARN,
		    "registry %s: '%s' is somebody else's, or deleted, since "
		    "the registry was lost",
		    client->at.address, restore->keys[i]);
		once = kept->flags & CLIENT_ONCE;
		dfi__etcd_keep_drop(client, restore->keys[i]);
		if (once)
			dfi__etcd_watch_gone(client, restore->keys[i]);
	}
}

/* An unknown outcome: send them again when the fence has risen. */
static void send_keys_again(struct etcd_client *client)
{
	struct restore *restore = &client->restore;
	struct kept_key *kept;
	unsigned i;

	for (i = 0; i < restore->n; i++) {
		kept = dfi__etcd_keep_find(client, restore->keys[i]);
		if (kept)
			kept->sent = false;
	}
}

static void fail(struct etcd_client *client, int ret)
{
	struct restore *restore = &client->restore;

	if (restore->opener) {
		pthread_mutex_lock(&client->lock);
		restore->opener->ret = ret;
		snprintf(restore->opener->text, sizeof(restore->opener->text),
		    "%s", dfi_errmsg());
		restore->opener->done = true;
		pthread_cond_signal(&restore->opener->ended);
		pthread_mutex_unlock(&client->lock);
		restore->opener = NULL;
		return;
	}
	dfi__log(DFI_LOG_WARN, "%s", dfi_errmsg());
	if (restore->step == RESTORE_KEYS)
		send_keys_again(client);
	if (restore->step == RESTORE_WATCHES)
		restore->step = RESTORE_REVISION;
	again_later(client);
}

/* The answer has the fence if it is not as known, and nothing if it is gone. */
static bool has_fence(const json_t *answer)
{
	const json_t *range = json_object_get(
	    dfi__json_item(answer, "responses", 0), "response_range");

	return dfi__json_item(range, "kvs", 0) != NULL;
}

static void step(struct etcd_client *client, const json_t *answer)
{
	struct restore *restore = &client->restore;

	switch (restore->step) {
	case RESTORE_GRANT:
		dfi__lease_begin(client, answer, restore->exchange.sent_at);
		restore->step = RESTORE_FENCE;
		break;
	case RESTORE_FENCE:
	case RESTORE_REVISION:
		read_again(client, answer);
		break;
	case RESTORE_WATCHES:
		fill_watches(client, answer);
		break;
	case RESTORE_KEYS:
		if (json_is_true(json_object_get(answer, "succeeded"))) {
			note_keys(client, answer);
		} else if (has_fence(answer)) {
			send_keys_again(client);
		} else {
			dfi__lease_end(client);
			return;
		}
		break;
	case RESTORE_NOTHING:
		break;
	}
	go_on(client);
}

static void on_answer(void *arg, int ret, const json_t *answer)
{
	struct etcd_client *client = arg;
	enum restore_step now = client->restore.step;

	if (ret == -EEXIST && now == RESTORE_GRANT) {
		/* An earlier request has granted it. */
		step(client, NULL);
	} else if (ret == -EAGAIN && now == RESTORE_KEYS) {
		send_keys_again(client);
		dfi__fence_raise(client);
	} else if (ret == -ENOKEY && client->open) {
		dfi__lease_end(client);
	} else if (ret) {
		fail(client, ret);
	} else {
		step(client, answer);
	}
}

void dfi__etcd_restore_go_on(struct etcd_client *client)
{
	if (client->restore.step == RESTORE_KEYS &&
	    !client->restore.exchange.active)
		go_on(client);
}

static void begin(
    struct etcd_client *client, enum restore_step first, bool leased)
{
	struct restore *restore = &client->restore;

	dfi__exchange_end(&restore->exchange);
	event_del(restore->timer);
	event_del(restore->grace_timer);
	drop_batch(client);
	dfi__stream_end(client);
	restore->step = first;
	restore->leased = leased;
	if (client->revision > restore->seen)
		restore->seen = client->revision;
	client->revision = 0;
	go_on(client);
}

void dfi__etcd_restore_all(struct etcd_client *client)
{
	begin(client, RESTORE_GRANT, false);
}

/* If the lease has ended as well, begin again with what comes behind it. */
void dfi__etcd_restore_watches(struct etcd_client *client)
{
	bool leased = client->restore.step == RESTORE_NOTHING ||
	    client->restore.leased;

	begin(client, RESTORE_REVISION, leased);
}

void dfi__etcd_restore_gap(struct etcd_client *client)
{
	client->restore.gap = true;
	again_later(client);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct etcd_client *client = arg;
	struct restore *restore = &client->restore;

	(void)fd;
	(void)what;
	etcd_enter(client);
	if (restore->gap && restore->step == RESTORE_NOTHING) {
		restore->gap = false;
		dfi__etcd_restore_watches(client);
	} else if (!restore->exchange.active) {
		go_on(client);
	}
	etcd_exit(client);
}

static void on_grace(evutil_socket_t fd, short what, void *arg)
{
	struct etcd_client *client = arg;

	(void)fd;
	(void)what;
	etcd_enter(client);
	dfi__etcd_watch_expire(client);
	etcd_exit(client);
}

int dfi__etcd_restore_start(struct etcd_client *client)
{
	struct event_base *base = dfi__loop_base(client->base.loop);
	struct restore *restore = &client->restore;

	restore->timer = event_new(base, -1, 0, on_timer, client);
	restore->grace_timer = event_new(base, -1, 0, on_grace, client);
	if (!restore->timer || !restore->grace_timer)
		return -ENOMEM;
	dfi__etcd_restore_all(client);
	return 0;
}

void dfi__etcd_restore_end(struct etcd_client *client)
{
	drop_batch(client);
	if (client->restore.timer)
		event_free(client->restore.timer);
	if (client->restore.grace_timer)
		event_free(client->restore.grace_timer);
}
