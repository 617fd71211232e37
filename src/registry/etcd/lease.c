/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs of life. If none has succeeded for the lease's time, the lease may have
 * ended: the client is lost. When etcd answers again, it tells whether the
 * lease has ended; while etcd has no leader, none does.
 */
#include "lease.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "json.h"
#include "keep.h"
#include "operation.h"
#include "request.h"
#include "restore.h"
#include "state.h"
#include "stream.h"
#include "watch.h"

#define RENEWALS 3 /* within a lease's time */

static struct timeval timeval_of_ns(int64_t ns)
{
	if (ns < 0)
		ns = 0;
	return (struct timeval){
		.tv_sec = ns / NS_PER_S,
		.tv_usec = ns % NS_PER_S / 1000,
	};
}

static json_t *body_of_id(uint64_t id)
{
	return json_pack("{s:o}", "ID", dfi__json_number(id));
}

/* A number that repeats the request does no harm: it is the same lease. */
json_t *dfi__lease_grant(struct etcd_client *client)
{
	struct lease *lease = &client->lease;
	uint32_t seconds = (lease->wanted_ms + 999) / 1000;

	if (!lease->id) {
		if (getrandom(&lease->id, sizeof(lease->id), 0) !=
		    sizeof(lease->id))
			return NULL;
		lease->id = lease->id >> 1 | 1;
		snprintf(client->fence.name, sizeof(client->fence.name),
		    "%016" PRIx64, lease->id);
		client->fence.number = 1;
	}
	return json_pack("{s:o, s:o}", "ID", dfi__json_number(lease->id), "TTL",
	    dfi__json_number(seconds));
}

json_t *dfi__lease_revoke(const struct etcd_client *client)
{
	return body_of_id(client->lease.id);
}

json_t *dfi__fence_set(struct etcd_client *client)
{
	char number[24];
	json_t *put;

	snprintf(number, sizeof(number), "%" PRIu64, client->fence.number);
	put = dfi__json_put(dfi__request_fence_key(client),
	    dfi__json_bytes(number, strlen(number)), client->lease.id);
	return dfi__json_txn(
	    dfi__json_add(
		json_array(), dfi__json_absent(dfi__request_fence_key(client))),
	    dfi__json_add(json_array(), put), json_array());
}

static void watch_end(struct etcd_client *client)
{
	struct lease *lease = &client->lease;
	int64_t end = lease->renewed_at + (int64_t)lease->ttl_ms * NS_PER_MS;
	struct timeval wait = timeval_of_ns(end - clock_now_ns());

	event_add(lease->end, &wait);
}

static void renew_later(struct etcd_client *client, uint32_t ms)
{
	struct timeval wait = timeval_of_ns((int64_t)ms * NS_PER_MS);

	event_add(client->lease.timer, &wait);
}

static void on_renewed(struct etcd_client *client, const json_t *answer)
{
	struct lease *lease = &client->lease;
	uint64_t seconds = dfi__json_get(
	    json_object_get(answer, "result"), "TTL");

	if (!seconds) {
		dfi__lease_end(client);
		return;
	}
	lease->ttl_ms = (uint32_t)seconds * 1000;
	lease->renewed_at = lease->exchange.sent_at;
	watch_end(client);
	dfi__etcd_keep_settle(client, lease->renewed_at);
	renew_later(client, lease->ttl_ms / RENEWALS);
	if (client->fence.rising && !client->fence.exchange.active)
		dfi__fence_raise(client);
	if (client->lost)
		dfi__etcd_restore_alive(client);
}

static void on_renewal(void *arg, int ret, const json_t *answer)
{
	struct etcd_client *client = arg;

	if (!ret)
		on_renewed(client, answer);
	else if (ret == -ENOKEY)
		dfi__lease_end(client);
	else
		renew_later(client, client->lease.ttl_ms / RENEWALS);
}

static void renew(struct etcd_client *client)
{
	struct lease *lease = &client->lease;
	uint32_t limit = lease->ttl_ms / RENEWALS;

	if (!lease->id || lease->exchange.active)
		return;
	lease->exchange = (struct exchange){
		.done = on_renewal,
		.arg = client,
		.path = "/v3/lease/keepalive",
		.limit_ms = limit < 1000 ? limit : 1000,
	};
	dfi__exchange_start(client, &lease->exchange, body_of_id(lease->id));
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct etcd_client *client = arg;

	(void)fd;
	(void)what;
	etcd_enter(client);
	renew(client);
	etcd_exit(client);
}

/* The client is lost. If nobody has answered at all, it is cut off. */
static void watch_quiet(struct etcd_client *client)
{
	int64_t ttl = (int64_t)client->lease.ttl_ms * NS_PER_MS;
	int64_t left = client->heard_at + ttl - clock_now_ns();
	struct timeval wait = timeval_of_ns(left);

	if (!client->lost || client->cut)
		return;
	if (left > 0) {
		event_add(client->lease.end, &wait);
		return;
	}
	client->cut = true;
	dfi__etcd_watch_report(client, REGISTRY_CUT);
}

/* Nobody has answered, or none that could reach a leader. */
static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct etcd_client *client = arg;

	(void)fd;
	(void)what;
	etcd_enter(client);
	dfi__etcd_lose(client, -ENOTCONN,
	    "no member of etcd has renewed the lease of this context in time");
	watch_quiet(client);
	etcd_exit(client);
}

void dfi__lease_begin(
    struct etcd_client *client, const json_t *answer, int64_t sent_at)
{
	struct lease *lease = &client->lease;

	lease->ttl_ms = (uint32_t)dfi__json_get(answer, "TTL") * 1000;
	/* It was granted before, and the answer was lost: see renew(). */
	if (!lease->ttl_ms)
		lease->ttl_ms = lease->wanted_ms;
	lease->renewed_at = sent_at;
	watch_end(client);
	renew_later(client, lease->ttl_ms / RENEWALS);
}

void dfi__etcd_lose(struct etcd_client *client, int err, const char *text)
{
	if (client->lost || client->closing || !client->open)
		return;
	client->lost = true;
	client->lost_err = err;
	snprintf(client->lost_text, sizeof(client->lost_text),
	    "registry %s: %s", client->at.address, text);
	dfi__log(DFI_LOG_WARN, "%s: calls that need it fail until it is back",
	    client->lost_text);
	dfi__operation_fail_all(client, err);
	dfi__etcd_watch_report(client, REGISTRY_LOST);
}

void dfi__lease_end(struct etcd_client *client)
{
	if (client->closing || client->revoked || !client->lease.id)
		return;
	dfi__etcd_lose(client, -ENOTCONN,
	    "the lease of this context has ended, so others take it for dead");
	client->lease.id = 0;
	client->fence.rising = false;
	dfi__exchange_end(&client->lease.exchange);
	dfi__exchange_end(&client->fence.exchange);
	event_del(client->lease.timer);
	event_del(client->lease.end);
	if (client->open)
		dfi__etcd_restore_all(client);
}

static void on_raised(void *arg, int ret, const json_t *answer)
{
	struct etcd_client *client = arg;
	struct fence *fence = &client->fence;
	const json_t *found = dfi__json_item(
	    json_object_get(
		dfi__json_item(answer, "responses", 0), "response_range"),
	    "kvs", 0);
	char *text;
	size_t size;
	uint64_t number;

	/* The next renewal of the lease tries again. */
	if (ret && ret != -ENOKEY) {
		dfi__log(DFI_LOG_WARN, "%s", dfi_errmsg());
		return;
	}
	number = fence->number + 1;
	if (!ret && !json_is_true(json_object_get(answer, "succeeded"))) {
		text = dfi__json_decode(json_object_get(found, "value"), &size);
		number = found && text ? strtoull(text, NULL, 10) : 0;
		free(text);
	}
	if (ret || number != fence->number + 1) {
		dfi__lease_end(client);
		return;
	}
	fence->number++;
	fence->rising = false;
	dfi__etcd_restore_go_on(client);
	dfi__operation_start_all(client);
}

void dfi__fence_raise(struct etcd_client *client)
{
	struct fence *fence = &client->fence;
	char number[24];
	json_t *put;

	fence->rising = true;
	if (fence->exchange.active)
		return;
	snprintf(number, sizeof(number), "%" PRIu64, fence->number + 1);
	put = dfi__json_put(dfi__request_fence_key(client),
	    dfi__json_bytes(number, strlen(number)), client->lease.id);
	fence->exchange = (struct exchange){
		.done = on_raised,
		.arg = client,
		.path = "/v3/kv/txn",
	};
	dfi__exchange_start(client, &fence->exchange,
	    dfi__request_fenced(client, dfi__json_add(json_array(), put)));
}

int dfi__lease_init(struct etcd_client *client)
{
	struct event_base *base = dfi__loop_base(client->base.loop);

	client->lease.timer = event_new(base, -1, 0, on_timer, client);
	client->lease.end = event_new(base, -1, 0, on_end, client);
	return client->lease.timer && client->lease.end ? 0 : -ENOMEM;
}

void dfi__lease_free(struct etcd_client *client)
{
	if (client->lease.timer)
		event_free(client->lease.timer);
	if (client->lease.end)
		event_free(client->lease.end);
}
