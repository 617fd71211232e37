/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which changes are in a sync group. They are written down before they are
 * carried out. So each is checked here against the table as it is, and all of a
 * group are independent of each other: none concerns the key of another, nor a
 * lease that another ends. What depends on the group, or fails because of it,
 * waits for the next one. Therefore the revision that each change will have is
 * known.
 */
#include "sync_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "server.h"
#include "session.h"

#define GROUP_BYTES ((size_t)1 << 20)
#define GROUP_NS (5 * (int64_t)NS_PER_MS)
#define SESSION_OPS 64

/* The change waits for the next group. */
#define LATER 1

/* NULL: no memory. */
static struct sync_lease *lease_of(struct sync *sync, uint64_t lease)
{
	size_t room = sync->leases_room ? 2 * sync->leases_room : 64, i;
	struct sync_lease *leases;

	for (i = 0; i < sync->n_leases; i++)
		if (sync->leases[i].lease == lease)
			return &sync->leases[i];
	if (sync->n_leases == sync->leases_room) {
		leases = realloc(sync->leases, room * sizeof(*leases));
		if (!leases) {
			dfi__fail(-ENOMEM, "no memory for a registry change");
			return NULL;
		}
		sync->leases = leases;
		sync->leases_room = room;
	}
	sync->leases[sync->n_leases] = (struct sync_lease){ .lease = lease };
	return &sync->leases[sync->n_leases++];
}

static bool ends(const struct sync *sync, uint64_t lease)
{
	size_t i;

	for (i = 0; i < sync->n_leases; i++)
		if (sync->leases[i].lease == lease)
			return sync->leases[i].ends;
	return false;
}

static struct sync_op *new_op(struct sync *sync)
{
	struct sync_op *op = &sync->ops[sync->n_ops];

	*op = (struct sync_op){ .session = NULL };
	return op;
}

static void take(struct sync *sync, struct sync_op *op)
{
	op->revision = sync->revision;
	sync->n_ops++;
}

/* Write down the end of a lease. */
static int plan_end(struct sync *sync, uint64_t lease)
{
	struct journal_change change = {
		.type = JOURNAL_END,
		.lease = lease,
	};
	struct sync_lease *plan = lease_of(sync, lease);
	size_t n_keys;
	int ret;

	if (!plan)
		return -ENOMEM;
	if (plan->ends)
		return 0;
	ret = dfi__table_lease_keys(sync->server->table, lease, &n_keys);
	if (ret)
		return ret;
	change.revision = sync->revision + (uint64_t)plan->n_keys + n_keys;
	ret = dfi__journal_add(sync->journal, &change);
	if (ret)
		return ret;
	plan->ends = true;
	sync->revision = change.revision;
	return 0;
}

/* A lease ends in any case: without memory, the journal must be made anew. */
static void force_end(struct sync *sync, uint64_t lease)
{
	if (plan_end(sync, lease) == -ENOMEM)
		dfi__journal_break(sync->journal, -ENOMEM);
}

static bool is_full(const struct sync *sync)
{
	return sync->n_ops == SYNC_OPS ||
	    dfi__journal_added(sync->journal) >= GROUP_BYTES;
}

static void collect_end(struct sync *sync, uint64_t lease, bool expires)
{
	struct sync_op *op = new_op(sync);

	if (ends(sync, lease))
		return;
	op->lease = lease;
	op->expires = expires;
	op->forced = true;
	force_end(sync, lease);
	take(sync, op);
}

static void collect_ends(struct sync *sync)
{
	const struct table *table = sync->server->table;
	uint64_t lease = 0;
	size_t n = 0;

	while (n < sync->n_ended && !is_full(sync))
		collect_end(sync, sync->ended[n++], false);
	sync->n_ended -= n;
	if (sync->n_ended)
		memmove(sync->ended, sync->ended + n,
		    sync->n_ended * sizeof(sync->ended[0]));
	while (sync->expiring && !is_full(sync)) {
		lease = dfi__table_due(table, lease, sync->now);
		if (lease)
			collect_end(sync, lease, true);
		else
			sync->expiring = false;
	}
}

/* Take the change of a key, unless the group has one of it. */
static int take_key(struct sync *sync, struct sync_op *op, const char *key,
    const struct journal_change *change)
{
	int ret;

	op->leaf.text = key;
	op->leaf.size = (uint32_t)strlen(key);
	if (dfi__tree_find(&sync->keys, key, op->leaf.size))
		return LATER;
	ret = dfi__tree_insert(&sync->keys, &op->leaf);
	if (ret)
		return ret;
	ret = dfi__journal_add(sync->journal, change);
	if (ret)
		dfi__tree_remove(&sync->keys, &op->leaf);
	else
		sync->revision = change->revision;
	return ret;
}

static int collect_put(struct sync *sync, const struct session *session,
    struct sync_op *op, const Dfi__Registry__Put *request)
{
	const struct table *table = sync->server->table;
	struct sync_lease *from = NULL, *to = NULL;
	struct table_item old = { .lease = 0 };
	struct journal_change change;
	struct table_put put;
	bool exists;
	int ret;

	ret = dfi__session_fill_put(session, request, &put);
	if (!ret)
		ret = dfi__table_check_put(table, &put, &sync->plan);
	if (ret)
		return ret;
	exists = !dfi__table_get(table, put.key, &old);
	if (ends(sync, put.lease) || ends(sync, old.lease))
		return LATER;
	if ((put.lease && !lease_of(sync, put.lease)) ||
	    (old.lease && !lease_of(sync, old.lease)))
		return -ENOMEM;
	change = (struct journal_change){
		.type = JOURNAL_PUT,
		.revision = sync->revision + 1,
		.lease = put.lease,
		.client = put.owner,
		.key = put.key,
		.key_size = strlen(put.key),
		.value = put.value,
		.size = put.size,
	};
	ret = take_key(sync, op, put.key, &change);
	if (ret)
		return ret;
	to = put.lease ? lease_of(sync, put.lease) : NULL;
	from = old.lease ? lease_of(sync, old.lease) : NULL;
	if (to)
		to->n_keys++;
	if (from)
		from->n_keys--;
	sync->plan.n_keys += !exists;
	sync->plan.n_leased += to != NULL;
	sync->plan.bytes += put.size + change.key_size;
	return 0;
}

static int collect_delete(
    struct sync *sync, struct sync_op *op, const Dfi__Registry__Delete *request)
{
	struct journal_change change = {
		.type = JOURNAL_DELETE,
		.revision = sync->revision + 1,
		.key = request->key,
		.key_size = strlen(request->key),
	};
	struct table_item item;
	int ret;

	ret = dfi__table_check_delete(
	    sync->server->table, request->key, request->revision, &item);
	if (ret)
		return ret;
	if (ends(sync, item.lease))
		return LATER;
	if (item.lease && !lease_of(sync, item.lease))
		return -ENOMEM;
	op->forced = item.lease;
	ret = take_key(sync, op, request->key, &change);
	if (!ret && item.lease)
		lease_of(sync, item.lease)->n_keys--;
	return ret;
}

/* Of the session's own lease, or of those of its client's other ones. */
static int collect_revoke(
    struct sync *sync, struct session *session, struct sync_op *op, bool past)
{
	struct session *other;

	if (!past && !session->lease)
		return dfi__fail(-ENOENT, "the connection has no lease");
	op->forced = true;
	if (!past) {
		force_end(sync, session->lease);
		return 0;
	}
	for (other = dfi__session_before(session); other;
	     other = dfi__session_before(other))
		if (other->lease)
			force_end(sync, other->lease);
	return 0;
}

static int collect(struct sync *sync, struct session *session,
    struct sync_op *op, const Dfi__Registry__Request *request)
{
	int ret = dfi__journal_check(sync->journal);

	switch (request->op_case) {
	case DFI__REGISTRY__REQUEST__OP_LEASE_REVOKE:
		return collect_revoke(
		    sync, session, op, request->lease_revoke->past);
	case DFI__REGISTRY__REQUEST__OP_DELETE:
		if (!ret ||
		    dfi__table_is_leased(
			sync->server->table, request->delete_->key))
			return collect_delete(sync, op, request->delete_);
		return ret;
	default:
		return ret ? ret : collect_put(sync, session, op, request->put);
	}
}

/* Collect the change that the session has held: 0, or LATER. */
static int collect_held(struct sync *sync, struct session *session)
{
	const Dfi__Registry__Request *request = session->held->request;
	struct sync_op *op = new_op(sync);
	int ret;

	if (is_full(sync))
		return LATER;
	ret = collect(sync, session, op, request);
	/* Maybe it fails only because of the group. */
	if (ret == LATER || (ret && sync->n_ops))
		return LATER;
	if (ret) {
		dfi__session_decline(session, request, ret);
		dfi__wire_free(session->held);
	} else {
		op->session = session;
		op->message = session->held;
		take(sync, op);
	}
	session->held = NULL;
	return 0;
}

/* Get the next message of a session that has held none. */
static void hold_next(struct session *session)
{
	int ret = dfi__session_next(session, &session->held);

	if (ret <= 0)
		session->held = NULL;
	/* It is refused after what came before. */
	if (ret < 0)
		session->read_error = ret;
}

/* Returns whether the session has no more changes for now. */
static bool collect_session(struct sync *sync, struct session *session)
{
	int n = 0;

	dfi__session_lives(session);
	while (session->held && dfi__session_changes(session->held)) {
		if (session->past) {
			dfi__wire_free(session->held);
			session->held = NULL;
		} else if (n++ == SESSION_OPS || collect_held(sync, session)) {
			return false;
		}
		hold_next(session);
	}
	return true;
}

static void collect_requests(struct sync *sync)
{
	struct session *session = TAILQ_FIRST(&sync->queue), *next;

	for (; session; session = next) {
		next = TAILQ_NEXT(session, sync_link);
		if (collect_session(sync, session)) {
			dfi__sync_dequeue(session);
			dfi__turns_enqueue(session);
		}
		if (is_full(sync) || clock_now_ns() - sync->now > GROUP_NS)
			break;
	}
}

void dfi__sync_collect(struct sync *sync)
{
	sync->now = clock_now_ns();
	sync->revision = dfi__table_revision(sync->server->table);
	collect_ends(sync);
	collect_requests(sync);
}

void dfi__sync_clear(struct sync *sync)
{
	size_t i;

	for (i = 0; i < sync->n_ops; i++) {
		if (sync->ops[i].leaf.text)
			dfi__tree_remove(&sync->keys, &sync->ops[i].leaf);
		dfi__wire_free(sync->ops[i].message);
	}
	sync->n_ops = sync->n_leases = 0;
	sync->plan = (struct table_plan){ .n_keys = 0 };
}
