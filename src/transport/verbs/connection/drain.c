/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a queue pair. Before it is destroyed it becomes an error state,
 * and what was posted to it completes: until then the device may read memory
 * that is freed next, or keep a receive of the shared queue that it has taken;
 * and of what has arrived on it, completions may be dropped.
 */

#include "connection.h"

#include <time.h>
#include "base/atomic.h"
#include "base/log.h"
#include "base/settings.h"
#include "retry.h"
#include "transport/verbs/data/arrive.h"
#include "transport/verbs/data/ring.h"
#include "transport/verbs/device/fail.h"

/* A queue pair in an error state flushes at once, or never. */
#define SENDS_NS (INT64_C(200) * NS_PER_MS)

/*
 * That it has given back all receives, a device reports (InfiniBand o11-5.2.5);
 * soft-RoCE doesn't, and then has none when the sends are flushed.
 */
#define LAST_RECEIVE_NS (INT64_C(20) * NS_PER_MS)

/* The time between two looks while a thread waits. */
#define LOOK_NS (NS_PER_MS / 2)

/*
 * A connection stays open until the writer's queue pair, if it has our
 * settings, has asked again: for two of its retries. Each takes up to twice its
 * share, as devices count in powers of two. Long retries have a limit.
 */
#define SEE_OFF_RETRIES 2
#define SEE_OFF_MOST_NS (INT64_C(2) * NS_PER_S)

/* The last work request, which is flushed after all others. */
static bool post_mark(struct verbs_conn *conn)
{
	struct ibv_send_wr wr = {
		.wr_id = conn->posted + 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (ibv_post_send(conn->qp, &wr, &bad))
		return false; /* no room yet */
	conn->mark = ++conn->posted;
	return true;
}

void dfi__verbs_stop_conn(struct verbs_conn *conn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	conn->stopped = true;
	conn->stopped_at = clock_now_ns();
	/* Nothing can be done about a device that refuses: it is gone. */
	(void)ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE);
	/* Tells the peer; fails if it was the peer who told us. */
	(void)rdma_disconnect(conn->id);
}

/* Take what has completed, however it ended. */
static void flush(struct verbs_conn *conn)
{
	struct ibv_wc wcs[8];
	int i, n;

	if (!conn->posted)
		conn->flushed = true;
	if (!conn->flushed && !conn->mark)
		post_mark(conn);
	while (!conn->flushed) {
		n = ibv_poll_cq(conn->sends, 8, wcs);
		for (i = 0; i < n; i++)
			if (conn->mark && wcs[i].wr_id == conn->mark)
				conn->flushed = true;
		if (n < 0)
			conn->flushed = true; /* the queue itself has failed */
		if (n == 0)
			return;
	}
}

bool dfi__verbs_is_drained(struct verbs_conn *conn)
{
	int64_t since = clock_now_ns() - conn->stopped_at;

	if (atomic_observe(&conn->verbs->failed))
		return true;
	flush(conn);
	if (!conn->flushed) {
		if (since < SENDS_NS)
			return false;
		dfi__log(DFI_LOG_INFO,
		    "verbs: %s: connection with %s: its sends did not end",
		    dfi__verbs_gid(&conn->verbs->device).text, conn->peer);
		conn->flushed = true;
	}
	/* Pairs with dfi__verbs_event(): its last arrivals have completed. */
	return atomic_observe(&conn->gave_back) || since >= LAST_RECEIVE_NS;
}

/* The table lock is held. */
static bool are_drained(const struct verbs *verbs)
{
	struct verbs_conn *conn;
	bool all = true;

	for (conn = verbs->conns; conn; conn = conn->next)
		all = dfi__verbs_is_drained(conn) && all;
	return all;
}

/*
 * Whether a writer whose end mark is here has not gone yet. The acknowledgement
 * to its device may be lost. The device then asks again, and gets an answer
 * only while this queue pair exists.
 */
static bool awaits_writers(struct verbs *verbs)
{
	const struct verbs_link *link;
	bool awaits = false;
	uint32_t i;

	dfi__verbs_lock_poll(verbs);
	dfi__verbs_take(verbs);
	pthread_mutex_lock(&verbs->table);
	for (i = 0; i < verbs->n_links; i++) {
		link = &verbs->links[i];
		awaits |= link->conn && link->export && link->ended &&
		    !atomic_peek(&link->conn->broken);
	}
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
	return awaits;
}

void dfi__verbs_see_off(struct verbs *verbs, int64_t deadline)
{
	int64_t retries_ns = (int64_t)verbs->settings->verbs_retry_ms *
	    NS_PER_MS * SEE_OFF_RETRIES / VERBS_RETRIES;
	int64_t until = clock_now_ns() +
	    (retries_ns < SEE_OFF_MOST_NS ? retries_ns : SEE_OFF_MOST_NS);
	struct timespec look = { .tv_nsec = LOOK_NS };

	if (until > deadline)
		until = deadline;
	while (!atomic_observe(&verbs->failed) && awaits_writers(verbs) &&
	    clock_now_ns() < until)
		nanosleep(&look, NULL);
}

void dfi__verbs_drain_all(struct verbs *verbs)
{
	struct verbs_conn *conn;
	struct timespec until;

	pthread_mutex_lock(&verbs->table);
	for (conn = verbs->conns; conn; conn = conn->next)
		if (!conn->stopped)
			dfi__verbs_stop_conn(conn);
	while (!are_drained(verbs)) {
		until = deadline_timespec(clock_now_ns() + LOOK_NS);
		pthread_cond_timedwait(&verbs->answered, &verbs->table, &until);
	}
	pthread_mutex_unlock(&verbs->table);
}
