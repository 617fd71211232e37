/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that break. Whoever notices marks the connection and goes on; the
 * control thread then tells all that depend on it.
 */

#include "connection.h"

#include <event2/event.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/error.h"
#include "base/files.h"
#include "base/loop.h"
#include "base/wait.h"
#include "transport/verbs/data/arrive.h"
#include "transport/verbs/data/message.h"
#include "transport/verbs/data/ring.h"
#include "transport/verbs/device/fail.h"

/* How often accepted connections, and all arrivals, are looked at. */
#define SWEEP_US 500000

/* How often those that end are, if nothing is reported. */
#define DRAIN_LOOK_US 2000

static void lose_ring(struct verbs_link *link)
{
	struct verbs_export *export = link->export;
	const struct verbs_conn *conn = link->conn;
	uint32_t ring = link->ring;
	bool written;

	/* Words have no writer. */
	if (!export->layout.n_slots) {
		(void)dfi__verbs_leave_export(link);
		return;
	}
	export->n_links++; /* keeps it */
	written = dfi__verbs_leave_export(link);
	network_ring_lose(&export->rings[ring], &export->base, export->region,
	    conn->why, conn->node, written);
	dfi__verbs_put_export(export);
}

/* A ring of ours lost its writer; or one that we write, its owner. */
static void lose_link(struct verbs_link *link)
{
	struct verbs_export *export = link->export;
	struct verbs_remote *remote = link->remote;

	if (export)
		lose_ring(link);
	if (!remote) {
		*link = (struct verbs_link){ .conn = NULL };
		return;
	}
	atomic_publish(&remote->base.lost, true);
	if (!remote->opened)
		remote->opened = -ECONNRESET;
	wait_wake_fenced((_Atomic uint32_t *)(void *)(remote->base.ring +
	    remote->layout.wait_offset));
	if (remote->closing)
		dfi__verbs_free_remote(remote);
}

/*
 * Let the queue pairs that go take nothing more, and the peers know. A
 * connection that has a writer stays as it is: what the peer has acknowledged
 * may still complete. Whether one is still to drain.
 */
static bool stop_broken(struct verbs *verbs)
{
	const char *failed = atomic_observe(&verbs->failed);
	struct verbs_conn *conn;
	bool wait = false;

	pthread_mutex_lock(&verbs->table);
	for (conn = verbs->conns; conn; conn = conn->next) {
		if (failed)
			dfi__verbs_break(conn, failed);
		/* Pairs with mark(): the reason. */
		if (!atomic_observe(&conn->broken) || conn->writer)
			continue;
		if (!conn->stopped)
			dfi__verbs_stop_conn(conn);
		conn->drained = dfi__verbs_is_drained(conn);
		wait = wait || !conn->drained;
	}
	pthread_mutex_unlock(&verbs->table);
	return wait;
}

/*
 * Tell all that depend on broken connections, and free those nobody uses. What
 * has arrived on them is taken before, after they were drained: with it comes
 * what the peer sent before it went, its end mark among it.
 */
static void handle_breaks(struct verbs *verbs)
{
	struct timeval soon = { .tv_usec = DRAIN_LOOK_US };
	struct verbs_conn *conn, *next;
	uint32_t i;
	bool wait;

	dfi__verbs_lock_poll(verbs);
	wait = stop_broken(verbs);
	dfi__verbs_take(verbs);
	pthread_mutex_lock(&verbs->table);
	for (conn = verbs->conns; conn; conn = next) {
		next = conn->next;
		if (!atomic_observe(&conn->broken))
			continue;
		/* One that broke since then has its turn: it has woken us. */
		if (!conn->drained && !conn->writer)
			continue;
		for (i = 0; i < verbs->n_links; i++)
			if (verbs->links[i].conn == conn)
				lose_link(&verbs->links[i]);
		if (!conn->writer)
			dfi__verbs_free_conn(conn);
	}
	pthread_cond_broadcast(&verbs->answered);
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
	if (wait)
		evtimer_add(verbs->drain_timer, &soon);
}

static void on_drain(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	handle_breaks(arg);
}

static void on_breaks(evutil_socket_t fd, short what, void *arg)
{
	uint64_t count;

	(void)what;
	if (read((int)fd, &count, sizeof(count)) == sizeof(count))
		handle_breaks(arg);
}

/* A peer may write rings here, so that somebody waits for what comes. */
static void mark_read(struct verbs *verbs)
{
	const struct verbs_link *link;
	struct verbs_conn *conn;
	uint32_t i;

	for (conn = verbs->conns; conn; conn = conn->next)
		conn->read = false;
	for (i = 0; i < verbs->n_links; i++) {
		link = &verbs->links[i];
		if (link->conn && link->export && link->export->layout.n_slots)
			link->conn->read = true;
	}
}

/*
 * Nobody waits for the credits and answers that go out on connections that were
 * accepted; so this is where it is noticed that they don't arrive. If none went
 * out for a while, a probe does: a link that is down may break what is in use,
 * but not what is kept for later.
 */
static void look_after(struct verbs_conn *conn)
{
	if (!conn->accepted || atomic_peek(&conn->broken) ||
	    dfi__verbs_poll_sends(conn))
		return;
	dfi__verbs_pay(conn);
	if (conn->read && conn->posted == conn->swept)
		dfi__verbs_probe(conn);
	conn->swept = conn->posted;
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct verbs *verbs = arg;
	struct verbs_conn *conn;

	(void)fd;
	(void)what;
	dfi__verbs_lock_poll(verbs);
	/* Arrivals for endpoints that don't look have taken receives. */
	dfi__verbs_take(verbs);
	pthread_mutex_lock(&verbs->table);
	mark_read(verbs);
	for (conn = verbs->conns; conn; conn = conn->next)
		look_after(conn);
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
}

int dfi__verbs_breaks_watch(struct verbs *verbs)
{
	struct event_base *base = dfi__loop_base(verbs->loop);
	struct timeval period = { .tv_usec = SWEEP_US };

	verbs->breaks_event = event_new(
	    base, verbs->breaks, EV_READ | EV_PERSIST, on_breaks, verbs);
	verbs->sweep_timer = event_new(base, -1, EV_PERSIST, on_sweep, verbs);
	verbs->drain_timer = evtimer_new(base, on_drain, verbs);
	if (!verbs->breaks_event || !verbs->sweep_timer ||
	    !verbs->drain_timer || event_add(verbs->breaks_event, NULL) < 0 ||
	    event_add(verbs->sweep_timer, &period) < 0)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	return 0;
}

void dfi__verbs_breaks_quiet(struct verbs *verbs)
{
	if (verbs->breaks_event)
		event_free(verbs->breaks_event);
	if (verbs->sweep_timer)
		event_free(verbs->sweep_timer);
	if (verbs->drain_timer)
		event_free(verbs->drain_timer);
	verbs->breaks_event = verbs->sweep_timer = verbs->drain_timer = NULL;
}

int dfi__verbs_breaks_start(struct verbs *verbs)
{
	verbs->breaks = file_up(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (verbs->breaks < 0)
		return dfi__verbs_fail_os(NULL, "eventfd", errno);
	return 0;
}

void dfi__verbs_breaks_stop(struct verbs *verbs)
{
	close(verbs->breaks);
}
