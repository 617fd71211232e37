/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings of peers are opened, over a connection that there is or a new one, and
 * left. It runs in the thread of the ring's writer.
 */
#include "connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/error.h"
#include "transport/verbs/data/arrive.h"
#include "transport/verbs/data/memory.h"
#include "transport/verbs/data/message.h"
#include "transport/verbs/device/fail.h"

int dfi__verbs_remote_room(
    struct transport *transport, uint64_t size, uint64_t locked)
{
	const struct verbs *verbs = (const struct verbs *)transport;

	return dfi__verbs_room(
	    verbs, size, locked, verbs->settings->huge_pages);
}

/*
 * Return the connection, and free the remote; if it was opened, only when the
 * owner has answered that it gives no more credits.
 */
static void leave_conn(
    struct verbs *verbs, struct verbs_remote *remote, bool opened)
{
	struct verbs_message message = { .type = VERBS_CLOSE };
	struct verbs_conn *conn = remote->conn;

	/*
	 * The shadow ring is freed below, and the queue pair may still send
	 * from it.
	 */
	if (opened && conn->completed < remote->last)
		(void)dfi__verbs_poll_sends(conn);
	if (opened && conn->completed < remote->last)
		dfi__verbs_break(conn, "a ring was left in the middle");
	dfi__verbs_lock_poll(verbs);
	pthread_mutex_lock(&verbs->table);
	message.link = remote->link;
	message.to_link = remote->to_link; /* may come late, if not opened */
	/* Under the lock, because the answer may come at once. */
	remote->closing = opened && !dfi__verbs_send(conn, &message, false);
	if (!--conn->n_remotes)
		conn->writer = NULL;
	if (!remote->closing || atomic_peek(&remote->base.lost))
		dfi__verbs_free_remote(remote);
	/* The control thread frees it. */
	if (atomic_peek(&conn->broken) && !conn->writer)
		dfi__verbs_breaks_wake(verbs);
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
}

static int opening_failed(
    const struct verbs_remote *remote, uint32_t ring, int err)
{
	const char *peer = remote->conn->peer;
	struct verbs_location location = dfi__verbs_gid(
	    &remote->conn->verbs->device);

	if (err == -ECONNRESET && atomic_observe(&remote->conn->broken))
		return dfi__verbs_lost(remote);
	switch (err) {
	case -EEXIST:
		return dfi__fail(err,
		    "verbs: %s: ring %u at %s has had a writer: a flow runs "
		    "once",
		    location.text, ring, peer);
	case -EBUSY:
		return dfi__fail(err,
		    "verbs: %s: the connection with %s has the counter open "
		    "already: it may be opened once over each",
		    location.text, peer);
	case -ECONNRESET:
		return dfi__fail(err, "verbs: %s: %s has closed the region",
		    location.text, peer);
	case -ETIMEDOUT:
		return dfi__fail(err,
		    "verbs: %s: %s did not answer the request for ring %u",
		    location.text, peer, ring);
	default:
		return dfi__fail(err,
		    "verbs: %s: %s refused to open ring %u: %s", location.text,
		    peer, ring, strerror(-err));
	}
}

/* How often a waiting thread checks whether its request has failed. */
#define ANSWER_CHECK_NS (INT64_C(100) * NS_PER_MS)

/*
 * Whether the owner has refused the ring, or the ring may be used: that of a
 * word only when nothing is under way that soft-RoCE could mix up with an
 * addition (data/counter.c).
 */
static bool is_answered(const struct verbs_remote *remote)
{
	return remote->opened < 0 ||
	    (remote->opened &&
		(remote->layout.n_slots || verbs_is_quiet(remote->conn)));
}

/*
 * Without an answer the connection ends, and all its rings with it. So where
 * there are others, a process whose target has gone gets this time to answer.
 */
#define LAST_ANSWER_NS NS_PER_S

static int64_t answer_deadline(const struct verbs_remote *remote,
    const struct wait_limit *wait_limit, int64_t now)
{
	return remote->conn->n_remotes > 1 &&
		now + LAST_ANSWER_NS < wait_limit->deadline
	    ? now + LAST_ANSWER_NS
	    : now;
}

/*
 * Wait for the owner's answer. The request may find that the connection is
 * broken.
 */
static int await_answer(struct verbs *verbs, const struct verbs_remote *remote,
    const struct wait_limit *wait_limit)
{
	int64_t deadline = wait_limit->deadline;
	bool given_up = false;
	struct timespec until;
	int64_t now;
	int ret;

	pthread_mutex_lock(&verbs->table);
	while (!is_answered(remote)) {
		now = clock_now_ns();
		if (now >= deadline)
			break;
		until = deadline_timespec(now + ANSWER_CHECK_NS < deadline
			? now + ANSWER_CHECK_NS
			: deadline);
		pthread_cond_timedwait(&verbs->answered, &verbs->table, &until);
		(void)dfi__verbs_poll_sends(remote->conn);
		if (given_up || !wait_limit_given_up(wait_limit))
			continue;
		given_up = true;
		deadline = answer_deadline(remote, wait_limit, clock_now_ns());
	}
	ret = is_answered(remote) ? remote->opened : -ETIMEDOUT;
	pthread_mutex_unlock(&verbs->table);
	return ret;
}

/* How often a waiting thread looks for completions. */
#define ROOM_LOOK_NS NS_PER_MS

/*
 * Writes of the writer's other rings may be under way; the request must not
 * take the room of their next ones. -ECONNRESET: the connection broke.
 */
static int await_room(
    const struct verbs_remote *remote, const struct wait_limit *wait_limit)
{
	struct verbs_conn *conn = remote->conn;
	struct verbs *verbs = conn->verbs;
	struct timespec until;

	while (!verbs_has_room(conn)) {
		if (atomic_peek(&conn->broken) || dfi__verbs_poll_sends(conn))
			return -ECONNRESET;
		if (verbs_has_room(conn))
			break;
		if (clock_now_ns() >= wait_limit->deadline ||
		    wait_limit_given_up(wait_limit))
			return -ETIMEDOUT;
		until = deadline_timespec(clock_now_ns() + ROOM_LOOK_NS);
		pthread_mutex_lock(&verbs->table);
		pthread_cond_timedwait(&verbs->answered, &verbs->table, &until);
		pthread_mutex_unlock(&verbs->table);
	}
	return 0;
}

/* Ask the owner for the ring, and wait for the answer. */
static int open_ring(struct verbs *verbs, struct verbs_remote *remote,
    const struct region_name *name, uint32_t ring,
    const struct wait_limit *wait_limit)
{
	struct verbs_message message = {
		.type = VERBS_OPEN,
		.link = remote->link,
		.key = name->key,
		.address = (uintptr_t)remote->base.ring,
		.size = remote->layout.ring_size,
		.rkey = remote->shadow.mr->rkey,
		.ring = ring,
	};
	int ret = await_room(remote, wait_limit);

	if (ret < 0)
		return opening_failed(remote, ring, ret);
	ret = dfi__verbs_send(remote->conn, &message, !remote->layout.n_slots);
	/* No word is set: the answer is a message, which wakes in any case. */
	dfi__verbs_arm(&verbs->base);
	if (!ret) {
		ret = await_answer(verbs, remote, wait_limit);
		/*
		 * The owner may still open the ring, and write credits into the
		 * shadow ring that is freed now. Its answer may find another
		 * ring at the link. So the connection ends.
		 */
		if (ret == -ETIMEDOUT)
			dfi__verbs_break(remote->conn, "no answer");
	}
	return ret < 0 ? opening_failed(remote, ring, ret) : 0;
}

static uint32_t take_link(struct verbs *verbs, struct verbs_remote *remote)
{
	uint32_t number;

	dfi__verbs_receives_need(verbs, TRANSPORT_RING_RECEIVES);
	dfi__verbs_lock_poll(verbs);
	pthread_mutex_lock(&verbs->table);
	number = dfi__verbs_link_take(verbs, remote->conn);
	if (number != NETWORK_NO_LINK)
		verbs->links[number].remote = remote;
	else
		dfi__verbs_receives_spare(verbs, TRANSPORT_RING_RECEIVES);
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
	return number;
}

/*
 * Once, over a connection that there is or a new one. *stale: it was one that
 * had been used before, and was found broken now.
 */
static int open_once(struct verbs *verbs, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct send_buffer *send_buffer,
    const struct wait_limit *wait_limit, bool *stale, struct remote **out)
{
	struct verbs_remote *remote = calloc(1, sizeof(*remote));
	bool used;
	int ret;

	*stale = false;
	if (!remote)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	remote->base.transport = &verbs->base;
	remote->base.send_buffer = send_buffer;
	remote->layout = *layout;
	remote->link = NETWORK_NO_LINK;
	ret = dfi__verbs_connect(
	    verbs, writer, name->address, wait_limit, &remote->conn);
	if (ret < 0) {
		free(remote);
		return ret;
	}
	remote->base.queue = remote->conn;
	/* By others; this writer's rings would be lost with it. */
	used = remote->conn->posted && remote->conn->n_remotes == 1;
	ret = dfi__verbs_create_shadow(verbs, remote);
	if (ret < 0)
		goto leave;
	remote->link = take_link(verbs, remote);
	if (remote->link == NETWORK_NO_LINK) {
		ret = dfi__fail(-ENOMEM, "verbs: out of memory");
		goto leave;
	}
	ret = open_ring(verbs, remote, name, ring, wait_limit);
	if (ret < 0)
		goto leave;
	*out = &remote->base;
	return 0;

leave:
	*stale = used && ret == -ECONNRESET &&
	    atomic_peek(&remote->conn->broken);
	leave_conn(verbs, remote, false);
	return ret;
}

/*
 * A connection that lay idle may have broken without anybody noticing. Its end
 * says nothing about the peer: a new one does.
 */
int dfi__verbs_remote_open(struct transport *transport, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct send_buffer *send_buffer,
    const struct wait_limit *wait_limit, struct remote **out)
{
	struct verbs *verbs = (struct verbs *)transport;
	char broke[256];
	bool stale, again = false;
	int ret = layout->n_slots ? 0 : dfi__verbs_check_atomics(verbs);

	if (ret < 0)
		return ret;
	for (;;) {
		ret = open_once(verbs, writer, name, layout, ring, send_buffer,
		    wait_limit, &stale, out);
		if (!stale)
			break;
		again = true;
		snprintf(broke, sizeof(broke), "%s", dfi_errmsg());
	}
	/* It may have had us as the writer, and not know that we are gone. */
	if (ret == -EEXIST && again)
		return dfi__fail(-ECONNRESET, "%s", broke);
	return ret;
}

void dfi__verbs_remote_close(struct remote *base)
{
	struct verbs *verbs = (struct verbs *)base->transport;

	leave_conn(verbs, (struct verbs_remote *)base, true);
}
