/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See sync.h. Within one callback a group is collected, stored and carried out,
 * so no other request sees a part of it. The callback syncs the journal once.
 */
#include "sync_impl.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/process.h"
#include "server.h"
#include "session.h"

/* Carrying out notifies for that long; the rest is notified in turns. */
#define NOTIFY_NS (5 * (int64_t)NS_PER_MS)

void dfi__sync_arm(struct sync *sync)
{
	static const struct timeval now = { .tv_sec = 0 };

	/* It fires after the arrivals that are there by then are read. */
	if (!sync->armed && sync->timer && !sync->stopping)
		sync->armed = !evtimer_add(sync->timer, &now);
}

bool dfi__sync_takes(
    const struct session *session, const Dfi__Registry__Message *message)
{
	return session->server->sync && session->greeted && !session->past &&
	    dfi__session_changes(message) && message->request->id;
}

void dfi__sync_enqueue(struct session *session)
{
	struct sync *sync = session->server->sync;

	if (session->syncing)
		return;
	session->syncing = true;
	TAILQ_INSERT_TAIL(&sync->queue, session, sync_link);
	dfi__sync_arm(sync);
}

void dfi__sync_dequeue(struct session *session)
{
	if (session->syncing)
		TAILQ_REMOVE(&session->server->sync->queue, session, sync_link);
	session->syncing = false;
}

struct journal_change dfi__sync_lease_of(const struct session *session)
{
	bool local = session->pid > 0 && session->start;

	return (struct journal_change){
		.type = JOURNAL_GRANT,
		.lease = session->lease,
		.client = session->client,
		.ttl_ms = session->ttl_ms,
		.pid = local ? (uint32_t)session->pid : 0,
		.start = local ? session->start : 0,
		.location = session->server->sync->location,
	};
}

/* It is stored with the keys that are bound to it, and not before. */
void dfi__sync_granted(struct session *session)
{
	struct sync *sync = session->server->sync;
	struct journal_change change;

	if (!sync)
		return;
	change = dfi__sync_lease_of(session);
	if (dfi__journal_add(sync->journal, &change))
		dfi__journal_break(sync->journal, -ENOMEM);
}

static int add_ended(struct sync *sync, uint64_t lease)
{
	size_t room = sync->ended_room ? 2 * sync->ended_room : 64;
	uint64_t *ended;

	if (sync->n_ended == sync->ended_room) {
		ended = realloc(sync->ended, room * sizeof(*ended));
		if (!ended)
			return -ENOMEM;
		sync->ended = ended;
		sync->ended_room = room;
	}
	sync->ended[sync->n_ended++] = lease;
	return 0;
}

void dfi__sync_end_lease(struct server *server, uint64_t lease)
{
	struct sync *sync = server->sync;

	if (!sync || sync->applying) {
		dfi__table_revoke(server->table, lease);
		return;
	}
	/* Its holder is about to go. */
	dfi__table_hand_over(server->table, lease, NULL, INT64_MAX, 0);
	if (sync->stopping)
		return;
	if (!add_ended(sync, lease)) {
		dfi__sync_arm(sync);
		return;
	}
	dfi__table_revoke(server->table, lease);
	dfi__journal_break(sync->journal, -ENOMEM);
}

void dfi__sync_expire(struct server *server)
{
	if (!server->sync) {
		dfi__table_expire(server->table, clock_now_ns());
		return;
	}
	dfi__restored_keep_stopped(server);
	server->sync->expiring = true;
	dfi__sync_arm(server->sync);
}

void dfi__sync_keep_alive(struct server *server)
{
	struct session *session;

	if (!server->sync)
		return;
	TAILQ_FOREACH(session, &server->sync->queue, sync_link)
	{
		dfi__session_lives(session);
	}
}

static void carry_out_end(struct sync *sync, const struct sync_op *op)
{
	struct table *table = sync->server->table;

	if (op->expires)
		dfi__table_expire_lease(table, op->lease);
	else
		dfi__table_revoke(table, op->lease);
	dfi__turns_notify(sync->server);
}

static void carry_out(
    struct sync *sync, const struct sync_op *op, int err, const char *why)
{
	if (!op->session)
		carry_out_end(sync, op);
	else if (err && !op->forced)
		dfi__session_decline(op->session, op->message->request,
		    dfi__fail(err, "%s", why));
	else
		dfi__session_carry_out(op->session, op->message->request);
}

/* err: 0, or why the group is not stored, with the text. */
static void carry_out_all(struct sync *sync, int err)
{
	const struct table *table = sync->server->table;
	int64_t until = clock_now_ns() + NOTIFY_NS;
	char why[ERROR_TEXT_SIZE] = "";
	bool differs = false;
	size_t i;

	if (err)
		snprintf(why, sizeof(why), "%s", dfi_errmsg());
	sync->applying = true;
	for (i = 0; i < sync->n_ops; i++) {
		carry_out(sync, &sync->ops[i], err, why);
		differs |= dfi__table_revision(table) != sync->ops[i].revision;
		if (i % 16 == 0 && clock_now_ns() > until)
			dfi__turns_notify_late(sync->server);
	}
	sync->applying = false;
	/* There was no memory for a change that is stored. */
	if (differs && !err)
		dfi__journal_break(sync->journal, -ENOMEM);
}

static void do_group(struct sync *sync)
{
	int err;

	dfi__sync_collect(sync);
	err = sync->n_ops ? dfi__journal_commit(sync->journal) : 0;
	if (err)
		dfi__log_seldom(
		    &sync->refusal, DFI_LOG_ERROR, "%s", dfi_errmsg());
	carry_out_all(sync, err);
	dfi__sync_clear(sync);
}

static void on_group(evutil_socket_t fd, short what, void *arg)
{
	struct sync *sync = arg;
	bool expired = sync->expiring;

	(void)fd;
	(void)what;
	sync->armed = false;
	/* Until its name is stored, the journal takes no records. */
	if (dfi__journal_is_switching(sync->journal))
		return;
	do_group(sync);
	dfi__server_settle(sync->server);
	if (expired && !sync->expiring)
		dfi__server_next_expiry(sync->server);
	dfi__sync_consider_compaction(sync);
	if (!TAILQ_EMPTY(&sync->queue) || sync->n_ended || sync->expiring)
		dfi__sync_arm(sync);
}

/* 0: unknown. */
static uint64_t read_location(void)
{
	uint64_t space = dfi__process_space();
	struct host host;

	dfi__host_read(&host);
	return host.boot && space ? host.boot ^ space : 0;
}

int dfi__sync_create(struct server *server, const char *path)
{
	struct journal_hooks hooks = {
		.apply = dfi__restored_apply,
		.arg = server,
	};
	struct sync *sync = calloc(1, sizeof(*sync));
	struct journal_files files;
	int ret;

	if (!sync)
		return dfi__fail(
		    -ENOMEM, "no memory for the state of a registry");
	sync->server = server;
	sync->location = read_location();
	TAILQ_INIT(&sync->queue);
	server->sync = sync;
	ret = dfi__journal_directory_open(path, &sync->directory, &files);
	if (!ret)
		ret = dfi__journal_open(&files, &hooks, &sync->journal);
	if (!ret) {
		server->store = dfi__journal_store(sync->journal);
		return 0;
	}
	dfi__sync_destroy(server);
	return ret;
}

int dfi__sync_start(struct server *server, struct event_base *base)
{
	struct sync *sync = server->sync;

	if (!sync)
		return 0;
	sync->timer = evtimer_new(base, on_group, sync);
	if (!sync->timer || dfi__sync_compact_start(sync, base))
		return dfi__fail(-ENOMEM, "no memory for the registry");
	dfi__restored_check(server);
	return 0;
}

void dfi__sync_stop(struct server *server)
{
	struct sync *sync = server->sync;

	if (!sync)
		return;
	sync->stopping = true;
	if (!dfi__journal_is_switching(sync->journal)) {
		while (!TAILQ_EMPTY(&sync->queue))
			dfi__sync_dequeue(TAILQ_FIRST(&sync->queue));
		do_group(sync);
	}
}

void dfi__sync_destroy(struct server *server)
{
	struct sync *sync = server->sync;

	if (!sync)
		return;
	dfi__restored_free(server);
	dfi__sync_compact_stop(sync);
	if (sync->timer)
		event_free(sync->timer);
	dfi__journal_close(sync->journal);
	dfi__journal_directory_close(sync->directory);
	free(sync->ended);
	free(sync->leases);
	free(sync);
	server->sync = NULL;
}
