/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See turns.h. Clients that are behind go on in turn, each with the rest of its
 * requests or of its snapshot. Watches are notified of changes at once if that
 * takes at most a millisecond, otherwise in turns, in the order of the changes.
 *
 * The output that clients have not read is bounded. From half of the bound on
 * (full), changes and snapshots wait. If clients then read, all go on. If they
 * do not, or if the bound is reached, the clients with the most unread output
 * are disconnected.
 *
 * This file never blocks, nor reads what is sent.
 */
#include "turns.h"

#include <event2/event.h>
#include <malloc.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "server.h"
#include "session.h"

#define SLICE_NS (5 * (int64_t)NS_PER_MS)
/* Work of a request is done at once if it takes no longer than that. */
#define AT_ONCE_NS ((int64_t)NS_PER_MS)
/* Steps of the table between two looks at the clock. */
#define NOTIFY_STEPS 64
#define PRESSURE_MS 500
#define TRIM_MS 500
#define TRIM_BYTES ((size_t)16 << 20)
#define TRIM_CALM ((size_t)1 << 20)

static void arm(struct turns *turns)
{
	static const struct timeval now = { .tv_sec = 0 };

	/* Set it at the next look at arrivals, not before. */
	if (turns->armed || turns->running || !turns->timer)
		return;
	turns->armed = !evtimer_add(turns->timer, &now);
	turns->armed_at = clock_now_ns();
}

int64_t dfi__turns_until(const struct server *server)
{
	const struct turns *turns = &server->turns;
	int64_t until = clock_now_ns() + AT_ONCE_NS;
	int64_t turn = turns->armed_at + SLICE_NS;

	/* Many clients with little work each must not delay the turn. */
	return turns->armed && turn < until ? turn : until;
}

void dfi__turns_enqueue(struct session *session)
{
	struct turns *turns = &session->server->turns;

	if (session->behind || session->doomed)
		return;
	session->behind = true;
	TAILQ_INSERT_TAIL(&turns->behind, session, behind_link);
	arm(turns);
}

void dfi__turns_dequeue(struct session *session)
{
	if (session->behind)
		TAILQ_REMOVE(
		    &session->server->turns.behind, session, behind_link);
	session->behind = false;
}

bool dfi__turns_may_change(const struct server *server)
{
	return dfi__table_untold_bytes(server->table) <= server->max_untold;
}

void dfi__turns_account(struct server *server, size_t added, size_t removed)
{
	static const struct timeval soon = { .tv_usec = PRESSURE_MS * 1000 };
	struct turns *turns = &server->turns;
	bool full;

	turns->queued += added;
	turns->queued -= removed;
	turns->taken += removed;
	turns->moved += added;
	full = turns->queued > turns->max_queued / 2;
	if (full == turns->full)
		return;
	turns->full = full;
	turns->taken = 0;
	if (full) {
		evtimer_add(turns->pressure, &soon);
	} else {
		evtimer_del(turns->pressure);
		turns->again = true;
		arm(turns);
	}
}

/* Returns whether there is more. */
static bool notify_some(struct table *table)
{
	struct table_notice notice;
	size_t n = 0;

	while (dfi__table_notice(table, NOTIFY_STEPS, &n, &notice))
		dfi__session_notify(&notice);
	return n >= NOTIFY_STEPS;
}

/* until 0: a while from now. Returns whether there is more to notify. */
static bool notify_until(struct server *server, int64_t until)
{
	while (!server->turns.full) {
		if (!notify_some(server->table))
			return false;
		if (!until)
			until = clock_now_ns() + AT_ONCE_NS;
		else if (clock_now_ns() >= until)
			break;
	}
	return dfi__table_untold_bytes(server->table);
}

void dfi__turns_notify(struct server *server)
{
	struct turns *turns = &server->turns;

	if (turns->late || !dfi__table_untold_bytes(server->table))
		return;
	turns->late = notify_until(server, 0);
	if (turns->late)
		arm(turns);
}

void dfi__turns_notify_late(struct server *server)
{
	if (server->turns.late || !dfi__table_untold_bytes(server->table))
		return;
	server->turns.late = true;
	arm(&server->turns);
}

static void free_doomed(struct server *server)
{
	struct session *session;

	while ((session = TAILQ_FIRST(&server->doomed))) {
		TAILQ_REMOVE(&server->doomed, session, link);
		dfi__session_free(session);
	}
}

static void doom_largest(
    struct server *server, struct session_list *list, size_t least)
{
	struct session *session = TAILQ_FIRST(list), *next;

	for (; session; session = next) {
		next = TAILQ_NEXT(session, link);
		if (session->queued >= least)
			dfi__session_doom(session,
			    "it does not read: %zu bytes wait for it, and %zu "
			    "for all clients, of at most %zu (4 x max_output)",
			    session->queued, server->turns.queued,
			    server->turns.max_queued);
	}
}

static size_t largest(const struct session_list *list)
{
	const struct session *session;
	size_t most = 0;

	TAILQ_FOREACH(session, list, link)
	{
		if (session->queued > most)
			most = session->queued;
	}
	return most;
}

/* Disconnect those with most unread output, until there is room again. */
static void shed(struct server *server)
{
	size_t most, other;

	while (server->turns.full) {
		most = largest(&server->live);
		other = largest(&server->closing);
		most = other > most ? other : most;
		if (!most)
			return;
		doom_largest(server, &server->live, (most + 1) / 2);
		doom_largest(server, &server->closing, (most + 1) / 2);
		free_doomed(server);
	}
}

static size_t kept(const struct server *server)
{
	return server->turns.queued + dfi__table_bytes(server->table) +
	    dfi__table_untold_bytes(server->table);
}

/* The process keeps freed memory, which other processes may need. */
static void see_to_memory(struct server *server)
{
	static const struct timeval soon = { .tv_usec = TRIM_MS * 1000 };
	struct turns *turns = &server->turns;
	size_t now = kept(server);

	if (now > turns->peak)
		turns->peak = now;
	if (turns->peak - now < TRIM_BYTES ||
	    evtimer_pending(turns->trim, NULL))
		return;
	turns->moved = 0;
	evtimer_add(turns->trim, &soon);
}

void dfi__server_settle(struct server *server)
{
	struct session *session;

	do {
		dfi__turns_notify(server);
		dfi__session_refuse_expired(server);
		free_doomed(server);
		while ((session = TAILQ_FIRST(&server->unsent)))
			dfi__session_flush(session);
		if (server->turns.queued > server->turns.max_queued)
			shed(server);
		/* Keys of the disconnected ended: notify others. */
	} while (!server->turns.late && !server->turns.full &&
	    dfi__table_untold_bytes(server->table));
	see_to_memory(server);
}

/* Returns whether any of them made progress. */
static bool serve_behind(struct server *server, int64_t until)
{
	struct turns *turns = &server->turns;
	struct session *session, *last;
	bool served = false;

	last = TAILQ_LAST(&turns->behind, turn_list);
	while ((session = TAILQ_FIRST(&turns->behind))) {
		dfi__turns_dequeue(session);
		served |= dfi__session_go_on(session);
		if (session == last || clock_now_ns() >= until)
			break;
	}
	return served;
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct server *server = arg;
	struct turns *turns = &server->turns;
	int64_t start = clock_now_ns();
	uint64_t notified = dfi__table_notified(server->table);
	bool served;

	(void)fd;
	(void)what;
	turns->armed = turns->again = false;
	turns->running = true;
	served = serve_behind(server, start + SLICE_NS);
	if (turns->late)
		turns->late = notify_until(server, clock_now_ns() + SLICE_NS);
	dfi__server_settle(server);
	turns->running = false;
	/*
	 * A client that could not go on waits for further notifications, or
	 * until outputs shrink, which sets the timer.
	 */
	served |= notified != dfi__table_notified(server->table);
	if (turns->again || (turns->late && !turns->full) ||
	    (served && !TAILQ_EMPTY(&turns->behind)))
		arm(turns);
}

/* Outputs are full for a while: check whether clients read. */
static void on_pressure(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval soon = { .tv_usec = PRESSURE_MS * 1000 };
	struct server *server = arg;
	struct turns *turns = &server->turns;

	(void)fd;
	(void)what;
	if (turns->taken < turns->max_queued / 8)
		shed(server);
	turns->taken = 0;
	if (turns->full)
		evtimer_add(turns->pressure, &soon);
	dfi__server_settle(server);
}

static void on_trim(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval soon = { .tv_usec = TRIM_MS * 1000 };
	struct server *server = arg;
	struct turns *turns = &server->turns;

	(void)fd;
	(void)what;
	/* It takes milliseconds, and a busy registry needs the memory soon. */
	if (turns->moved > TRIM_CALM) {
		turns->moved = 0;
		evtimer_add(turns->trim, &soon);
		return;
	}
	malloc_trim(0);
	turns->peak = kept(server);
}

int dfi__turns_start(struct server *server, struct event_base *base)
{
	struct turns *turns = &server->turns;

	TAILQ_INIT(&turns->behind);
	turns->timer = evtimer_new(base, on_turn, server);
	turns->pressure = evtimer_new(base, on_pressure, server);
	turns->trim = evtimer_new(base, on_trim, server);
	if (turns->timer && turns->pressure && turns->trim)
		return 0;
	dfi__turns_stop(server);
	return dfi__fail(-ENOMEM, "no memory for the registry");
}

static void end_timer(struct event **timer)
{
	if (*timer)
		event_free(*timer);
	*timer = NULL;
}

void dfi__turns_stop(struct server *server)
{
	end_timer(&server->turns.timer);
	end_timer(&server->turns.pressure);
	end_timer(&server->turns.trim);
}
