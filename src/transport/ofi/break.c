/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that end. Whoever notices marks the connection and goes on; the
 * control thread then tells all that depend on it. TCP notices nothing where
 * nothing is sent, so each end sends signs of life, and gives up on a peer that
 * sends none.
 */
#include "conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/error.h"
#include "base/log.h"
#include "base/wait.h"
#include "fabric.h"

/* How many signs of life a peer sends in the time that it has for one. */
#define BEATS 4

/* How long the end waits for peers, and how often it looks. */
#define SEE_OFF_NS (INT64_C(2) * NS_PER_S)
#define LOOK_NS (NS_PER_MS / 2)

void dfi__ofi_break(struct ofi_conn *conn, const char *why)
{
	struct ofi *ofi = conn->ofi;

	if (atomic_exchange(&conn->breaking, true))
		return;
	if (why) {
		snprintf(conn->why, sizeof(conn->why), "%s: %s",
		    dfi__ofi_location(ofi).text, why);
		atomic_fetch_add(&ofi->n_broken, 1);
	}
	/* Pairs with dfi__ofi_why(): the text. */
	atomic_publish(&conn->broken, true);
	if (conn->peer[0])
		dfi__log(DFI_LOG_INFO, "ofi: connection with %s: %s",
		    conn->peer, why ? conn->why : "the peer has gone");
	dfi__ofi_end_broken(ofi);
}

void dfi__ofi_end_broken(struct ofi *ofi)
{
	atomic_set(&ofi->breaks, true);
	dfi__ofi_wake(ofi);
}

const char *dfi__ofi_why(const struct ofi_conn *conn)
{
	return atomic_observe(&conn->broken) && conn->why[0] ? conn->why : NULL;
}

int dfi__ofi_lost(const struct ofi_remote *remote)
{
	const char *why = dfi__ofi_why(remote->conn);

	return dfi__fail(-ECONNRESET, "ofi: the connection with %s broke: %s",
	    remote->conn->peer, why ? why : "the peer has gone");
}

static void lose_ring(struct ofi_link *link)
{
	struct ofi_export *export = link->export;
	const struct ofi_conn *conn = link->conn;
	uint32_t ring = link->ring;
	bool written;

	/* Words have no writer. */
	if (!export->layout.n_slots) {
		(void)dfi__ofi_leave_export(link);
		return;
	}
	export->n_links++; /* keeps it */
	written = dfi__ofi_leave_export(link);
	network_ring_lose(&export->rings[ring], &export->base, export->region,
	    conn->why, conn->node, written);
	dfi__ofi_put_export(export);
}

static void lose_remote(struct ofi_remote *remote)
{
	atomic_publish(&remote->base.lost, true);
	if (!remote->opened)
		remote->opened = -ECONNRESET;
	wait_wake_fenced((_Atomic uint32_t *)(void *)(remote->base.ring +
	    remote->layout.wait_offset));
}

/*
 * Tell all that depend on a broken connection. Its endpoint is closed, unless
 * it still has a writer. Both locks are held.
 */
static void lose_links(struct ofi_conn *conn)
{
	struct ofi *ofi = conn->ofi;
	struct ofi_link *link;
	uint32_t i;

	for (i = 0; i < ofi->n_links; i++) {
		link = &ofi->links[i];
		if (link->conn != conn)
			continue;
		if (link->export) {
			lose_ring(link);
			dfi__ofi_link_free(link);
		} else if (!link->remote) {
			dfi__ofi_link_free(link);
		} else if (!link->remote->closing) {
			lose_remote(link->remote);
		} else if (!conn->ep) {
			dfi__ofi_free_remote(link->remote);
		}
	}
}

/* Close the endpoints that nobody uses, so that nothing moves on them. */
static void close_broken(struct ofi *ofi)
{
	struct ofi_conn *conn;

	for (conn = ofi->conns; conn; conn = conn->next)
		/* Pairs with dfi__ofi_break(): the reason. */
		if (atomic_observe(&conn->broken) && !conn->writer && conn->ep)
			dfi__ofi_close_conn(conn);
}

/*
 * What has arrived is taken before: with it comes what the peer sent before it
 * went, its end mark among it. What ends with an endpoint is taken before its
 * connection is freed, of which it is a part.
 */
void dfi__ofi_handle_breaks(struct ofi *ofi)
{
	struct ofi_conn *conn, *next;

	dfi__ofi_lock_poll(ofi);
	dfi__ofi_take(ofi);
	pthread_mutex_lock(&ofi->table);
	close_broken(ofi);
	pthread_mutex_unlock(&ofi->table);
	dfi__ofi_take(ofi);
	pthread_mutex_lock(&ofi->table);
	for (conn = ofi->conns; conn; conn = next) {
		next = conn->next;
		if (!atomic_observe(&conn->broken))
			continue;
		lose_links(conn);
		if (!conn->ep && !conn->n_links)
			dfi__ofi_free_conn(conn);
	}
	pthread_cond_broadcast(&ofi->answered);
	pthread_mutex_unlock(&ofi->table);
	lock_release(&ofi->poll);
}

void dfi__ofi_lose_all(struct ofi *ofi)
{
	struct ofi_conn *conn;

	dfi__ofi_lock_poll(ofi);
	pthread_mutex_lock(&ofi->table);
	for (conn = ofi->conns; conn; conn = conn->next) {
		dfi__ofi_break(
		    conn, "the application has closed its descriptors");
		lose_links(conn);
	}
	pthread_cond_broadcast(&ofi->answered);
	pthread_mutex_unlock(&ofi->table);
	lock_release(&ofi->poll);
}

/* ---- Signs of life ----------------------------------------------------- */

uint32_t dfi__ofi_beat_ms(const struct ofi *ofi)
{
	uint32_t ms = ofi->settings->ofi_timeout_ms / BEATS;

	return ms ? ms : 1;
}

/*
 * Whether nothing came for the whole time. Looks are a quarter of it apart, so
 * the fourth one finds that out though the timer is not exact.
 */
static bool is_unheard(const struct ofi_conn *conn, int64_t now)
{
	uint32_t ms = conn->ofi->settings->ofi_timeout_ms;
	int64_t slack = (int64_t)ms * NS_PER_MS / BEATS / 8;

	return now - conn->heard_at > (int64_t)ms * NS_PER_MS - slack;
}

static void look_after(struct ofi_conn *conn, int64_t now)
{
	static const struct ofi_message beat = { .type = OFI_BEAT };
	uint32_t ms = conn->ofi->settings->ofi_timeout_ms;
	char why[120];

	if (conn->state != OFI_ESTABLISHED || atomic_peek(&conn->broken))
		return;
	if (conn->heard != conn->heard_seen) {
		conn->heard_seen = conn->heard;
		conn->heard_at = now;
	} else if (is_unheard(conn, now)) {
		snprintf(why, sizeof(why),
		    "nothing came for %u ms (DFI_OFI_TIMEOUT): the network is "
		    "cut, or the process stopped",
		    ms);
		dfi__ofi_break(conn, why);
		return;
	}
	if (conn->sent_seen == atomic_peek(&conn->sent))
		(void)dfi__ofi_send(conn, &beat);
	conn->sent_seen = atomic_peek(&conn->sent);
}

void dfi__ofi_beat(struct ofi *ofi)
{
	int64_t period = (int64_t)dfi__ofi_beat_ms(ofi) * NS_PER_MS;
	int64_t now = clock_now_ns();
	int64_t missed = ofi->beat_due ? now - ofi->beat_due : 0;
	struct ofi_conn *conn;

	ofi->beat_due = now + period;
	dfi__ofi_lock_poll(ofi);
	pthread_mutex_lock(&ofi->table);
	for (conn = ofi->conns; conn; conn = conn->next) {
		/*
		 * This process has not looked, and its peers may have stood
		 * still as well: that time does not count.
		 */
		if (missed > period)
			conn->heard_at += missed;
		if (conn->heard_at > now)
			conn->heard_at = now;
		look_after(conn, now);
	}
	pthread_mutex_unlock(&ofi->table);
	lock_release(&ofi->poll);
}

/* ---- The end ----------------------------------------------------------- */

/*
 * Whether a writer whose end mark is here has not gone yet, or a ring of a peer
 * that was left is not confirmed: both ends may still send.
 */
static bool awaits_peers(struct ofi *ofi)
{
	const struct ofi_link *link;
	bool awaits = false;
	uint32_t i;

	dfi__ofi_lock_poll(ofi);
	dfi__ofi_take(ofi);
	pthread_mutex_lock(&ofi->table);
	for (i = 0; i < ofi->n_links; i++) {
		link = &ofi->links[i];
		awaits |= link->conn && !atomic_peek(&link->conn->broken) &&
		    ((link->export && link->ended) ||
			(link->remote && link->remote->closing));
	}
	pthread_mutex_unlock(&ofi->table);
	lock_release(&ofi->poll);
	return awaits;
}

void dfi__ofi_see_off(struct ofi *ofi, int64_t deadline)
{
	int64_t until = clock_now_ns() + SEE_OFF_NS;
	struct timespec look = { .tv_nsec = LOOK_NS };

	if (until > deadline)
		until = deadline;
	while (awaits_peers(ofi) && clock_now_ns() < until)
		nanosleep(&look, NULL);
}
