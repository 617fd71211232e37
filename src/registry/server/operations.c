/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client of the registry may request: one function per operation, each
 * of them a call of the table and a reply. Requests come decoded, but
 * unchecked. This file uses the stream through session.h only, and never
 * blocks.
 */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "session.h"
#include "snapshot.h"
#include "sync.h"

#define TTL_MIN_MS 50
#define TTL_MAX_MS 3600000
#define WATCHES_MAX 4096
/* Room for the frame of a value, besides its key and its data. */
#define VALUE_OVERHEAD 32
#define PAGE_SIZE (WIRE_MESSAGE_MAX - 1024)
#define PAGE_VALUES_MAX 2048

static int handshake(struct session *session,
    const Dfi__Registry__Request *request, Dfi__Registry__Reply *reply)
{
	(void)session;
	(void)request;
	(void)reply;
	return dfi__fail(-EINVAL, "the client has said its version already");
}

static int lease_grant(struct session *session,
    const Dfi__Registry__Request *request, Dfi__Registry__Reply *reply)
{
	uint32_t ttl_ms = request->lease_grant->ttl_ms;
	struct table *table = session->server->table;
	int64_t ttl_ns = ttl_ms ? (int64_t)ttl_ms * NS_PER_MS : INT64_MAX;
	int64_t now = clock_now_ns();
	int ret;

	(void)reply;
	if (session->lease)
		return dfi__fail(-EEXIST, "the connection has a lease already");
	if (ttl_ms && (ttl_ms < TTL_MIN_MS || ttl_ms > TTL_MAX_MS))
		return dfi__fail(-EINVAL,
		    "a lease of %u ms: 0 or %d to %d are allowed", ttl_ms,
		    TTL_MIN_MS, TTL_MAX_MS);
	ret = request->lease_grant->resume
	    ? dfi__session_resume(session, ttl_ns, now)
	    : dfi__table_grant(table, session, ttl_ns, now, &session->lease);
	if (ret)
		return ret;
	session->ttl_ms = ttl_ms;
	dfi__sync_granted(session);
	if (ttl_ms)
		dfi__server_arm_expiry(session->server, now + ttl_ns);
	return 0;
}

static int lease_keepalive(struct session *session,
    const Dfi__Registry__Request *request, Dfi__Registry__Reply *reply)
{
	(void)request;
	(void)reply;
	/* As a request, it has already served as a sign of life. */
	return session->lease || dfi__session_is_resumable(session)
	    ? 0
	    : dfi__fail(-ENOENT, "the connection has no lease");
}

static int lease_revoke(struct session *session,
    const Dfi__Registry__Request *request, Dfi__Registry__Reply *reply)
{
	uint64_t lease = session->lease;

	(void)reply;
	if (request->lease_revoke->past) {
		dfi__session_end_past(session);
		return 0;
	}
	session->lease = 0;
	return dfi__table_revoke(session->server->table, lease);
}

static int add_watch(struct session *session, uint64_t id, const char *text,
    enum table_watch kind)
{
	bool follows = kind == TABLE_FOLLOW;
	uint32_t *n = follows ? &session->n_follows : &session->n_watches;
	int ret;

	if (*n >= WATCHES_MAX)
		return dfi__fail(-ENOSPC,
		    "the client is at its limit of %d %s, or use another "
		    "context for more",
		    WATCHES_MAX,
		    follows ? "keys that it follows, one for each flow: "
			      "remove some"
			    : "watches, up to two for each endpoint and "
			      "barrier: close some");
	ret = dfi__table_watch(session->server->table, session, id, text, kind);
	if (!ret)
		++*n;
	return ret;
}

int dfi__session_fill_put(const struct session *session,
    const Dfi__Registry__Put *op, struct table_put *put)
{
	*put = (struct table_put){
		.key = op->key,
		.value = op->value.data,
		.size = op->value.len,
		.lease = op->leased ? session->lease : 0,
		.owner = session->client,
		.flags = (op->create ? TABLE_CREATE : 0) |
		    (op->reclaim ? TABLE_RECLAIM : 0),
	};
	if (op->leased && !session->lease)
		return dfi__fail(-EINVAL, "the connection has no lease");
	return 0;
}

static int put(struct session *session, const Dfi__Registry__Request *request,
    Dfi__Registry__Reply *reply)
{
	const Dfi__Registry__Put *op = request->put;
	struct table_put put;
	int ret;

	ret = dfi__session_fill_put(session, op, &put);
	if (!ret)
		ret = dfi__table_put(
		    session->server->table, &put, &reply->revision);
	if (!ret && op->follow)
		(void)add_watch(session, request->id, op->key, TABLE_FOLLOW);
	return ret;
}

static void set_value(
    Dfi__Registry__Value *value, const struct table_item *item)
{
	dfi__registry__value__init(value);
	value->key = (char *)item->key;
	value->data.data = (uint8_t *)item->value;
	value->data.len = item->size;
	value->revision = item->revision;
}

static int get(struct session *session, const Dfi__Registry__Request *request,
    Dfi__Registry__Reply *reply)
{
	Dfi__Registry__Reply full = *reply;
	Dfi__Registry__Value value, *values = &value;
	struct table_item item;
	int ret;

	ret = dfi__table_get(session->server->table, request->get->key, &item);
	if (ret)
		return ret;
	set_value(&value, &item);
	full.n_values = 1;
	full.values = &values;
	dfi__session_reply(session, &full);
	return 1;
}

/* One page, with at most as many bytes and values as fit a message. */
struct page {
	size_t n, bytes;
	bool more;
	Dfi__Registry__Value values[PAGE_VALUES_MAX];
	Dfi__Registry__Value *pointers[PAGE_VALUES_MAX];
	uint64_t digests[PAGE_VALUES_MAX];
};

/* Returns whether there was room. */
static bool add_to_page(struct page *page, const struct table_item *item)
{
	page->bytes += strlen(item->key) + item->size + VALUE_OVERHEAD;
	if (page->n == PAGE_VALUES_MAX || page->bytes > PAGE_SIZE) {
		page->more = true;
		return false;
	}
	set_value(&page->values[page->n], item);
	page->pointers[page->n] = &page->values[page->n];
	page->n++;
	return true;
}

static void fill_page(
    struct page *page, const struct table *table, const Dfi__Registry__List *op)
{
	struct table_item item;
	int found = dfi__table_next(table, op->prefix, op->after, &item);

	while (found && add_to_page(page, &item))
		found = dfi__table_step(op->prefix, &item);
}

/* The client compares them with what it has set. */
static void fill_page_own(struct page *page, const struct session *session,
    const Dfi__Registry__List *op)
{
	const struct table *table = session->server->table;
	const char *after = op->after;
	struct table_item item;
	uint64_t *digest;

	while (dfi__table_lease_next(table, session->lease, after, &item)) {
		digest = &page->digests[page->n];
		*digest = dfi__wire_digest(
		    session->client, item.value, item.size);
		item.value = digest;
		item.size = sizeof(*digest);
		if (!add_to_page(page, &item))
			return;
		after = item.key;
	}
}

static int list(struct session *session, const Dfi__Registry__Request *request,
    Dfi__Registry__Reply *reply)
{
	const Dfi__Registry__List *op = request->list;
	Dfi__Registry__Reply full = *reply;
	struct page *page = calloc(1, sizeof(*page));

	if (!page)
		return dfi__fail(-ENOMEM, "no memory for a list of keys");
	if (op->own)
		fill_page_own(page, session, op);
	else
		fill_page(page, session->server->table, op);
	full.n_values = page->n;
	full.values = page->pointers;
	full.more = page->more;
	dfi__session_reply(session, &full);
	free(page);
	return 1;
}

static int delete_key(struct session *session,
    const Dfi__Registry__Request *request, Dfi__Registry__Reply *reply)
{
	struct table *table = session->server->table;
	int ret;

	ret = dfi__table_delete(
	    table, request->delete_->key, request->delete_->revision);
	reply->revision = dfi__table_revision(table);
	return request->delete_->unanswered ? 1 : ret;
}

static void count_unwatched(struct session *session, int followed)
{
	if (followed > 0)
		session->n_follows--;
	else if (followed == 0)
		session->n_watches--;
}

static int watch(struct session *session, const Dfi__Registry__Request *request,
    Dfi__Registry__Reply *reply)
{
	const Dfi__Registry__Watch *op = request->watch;
	struct table *table = session->server->table;
	int ret;

	ret = add_watch(session, request->id, op->prefix,
	    op->follow      ? TABLE_FOLLOW
		: op->exact ? TABLE_KEY
			    : TABLE_PREFIX);
	if (ret)
		return ret;
	reply->revision = dfi__table_revision(table);
	ret = dfi__snapshot_begin(
	    session, request->id, op->prefix, op->exact || op->follow);
	if (ret < 0)
		count_unwatched(
		    session, dfi__table_unwatch(table, session, request->id));
	return ret;
}

static int unwatch(struct session *session,
    const Dfi__Registry__Request *request, Dfi__Registry__Reply *reply)
{
	(void)reply;
	count_unwatched(session,
	    dfi__table_unwatch(
		session->server->table, session, request->unwatch->watch));
	return 1;
}

/* Each returns 0 or an error to reply, or 1 if no reply is due. */
static int (*const operations[])(struct session *session,
    const Dfi__Registry__Request *request, Dfi__Registry__Reply *reply) = {
	[DFI__REGISTRY__REQUEST__OP_HANDSHAKE] = handshake,
	[DFI__REGISTRY__REQUEST__OP_LEASE_GRANT] = lease_grant,
	[DFI__REGISTRY__REQUEST__OP_LEASE_KEEPALIVE] = lease_keepalive,
	[DFI__REGISTRY__REQUEST__OP_LEASE_REVOKE] = lease_revoke,
	[DFI__REGISTRY__REQUEST__OP_PUT] = put,
	[DFI__REGISTRY__REQUEST__OP_GET] = get,
	[DFI__REGISTRY__REQUEST__OP_LIST] = list,
	[DFI__REGISTRY__REQUEST__OP_DELETE] = delete_key,
	[DFI__REGISTRY__REQUEST__OP_WATCH] = watch,
	[DFI__REGISTRY__REQUEST__OP_UNWATCH] = unwatch,
};

#define N_OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* The first request: nothing else is read before the versions agree. */
static void greet(
    struct session *session, const Dfi__Registry__Request *request)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;
	int ret;

	if (request->op_case != DFI__REGISTRY__REQUEST__OP_HANDSHAKE) {
		dfi__session_refuse(session, request->id,
		    dfi__fail(-EPROTO,
			"the client's first request does not say its version: "
			"is it a process of this library?"));
		return;
	}
	ret = dfi__wire_check_versions(
	    WIRE_VERSION, request->handshake->version);
	if (!ret)
		ret = dfi__session_greeted(session, request->handshake);
	if (ret) {
		dfi__session_refuse(session, request->id, ret);
		return;
	}
	reply.id = request->id;
	reply.version = WIRE_VERSION;
	reply.store = session->server->store;
	reply.revision = dfi__table_revision(session->server->table);
	reply.resumable = dfi__session_is_resumable(session);
	dfi__session_reply(session, &reply);
}

bool dfi__session_request_changes(const Dfi__Registry__Request *request)
{
	return request->op_case == DFI__REGISTRY__REQUEST__OP_PUT ||
	    request->op_case == DFI__REGISTRY__REQUEST__OP_DELETE ||
	    request->op_case == DFI__REGISTRY__REQUEST__OP_LEASE_REVOKE;
}

/* err: 0, or an error with its text. */
static void answer(
    struct session *session, Dfi__Registry__Reply *reply, int err)
{
	char text[512];

	if (err < 0) {
		snprintf(text, sizeof(text), "%s", dfi_errmsg());
		reply->error = err;
		reply->text = text;
	}
	dfi__session_reply(session, reply);
}

void dfi__session_decline(
    struct session *session, const Dfi__Registry__Request *request, int err)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;

	if (request->op_case == DFI__REGISTRY__REQUEST__OP_DELETE &&
	    request->delete_->unanswered)
		return;
	reply.id = request->id;
	answer(session, &reply, err);
}

void dfi__session_carry_out(
    struct session *session, const Dfi__Registry__Request *request)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;
	int ret;

	dfi__session_lives(session);
	reply.id = request->id;
	ret = operations[request->op_case](session, request, &reply);
	dfi__turns_notify(session->server);
	if (ret <= 0)
		answer(session, &reply, ret);
}

void dfi__session_request(
    struct session *session, const Dfi__Registry__Request *request)
{
	size_t op = (size_t)request->op_case;

	if (request->id == 0 || op >= N_OPERATIONS || !operations[op]) {
		dfi__session_refuse(session, 0,
		    dfi__fail(-EBADMSG, "the client sent an unknown request"));
		return;
	}
	if (session->past)
		return;
	if (!session->greeted) {
		greet(session, request);
		return;
	}
	dfi__session_carry_out(session, request);
}
