/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings of peers are opened and left. It runs in the thread of the ring's
 * writer.
 */
#include "conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "fabric.h"

/* How often a waiting thread checks whether its peer is gone. */
#define CHECK_NS (INT64_C(100) * NS_PER_MS)

/*
 * Return the connection. pending: the owner may still read from the shadow ring
 * or answer; then the remote is freed by its last answer, or with the
 * connection.
 */
static void leave_conn(struct ofi *ofi, struct ofi_remote *remote, bool pending)
{
	struct ofi_message message = { .type = OFI_CLOSE };
	struct ofi_conn *conn = remote->conn;

	dfi__ofi_lock_poll(ofi);
	pthread_mutex_lock(&ofi->table);
	message.to_link = remote->to_link; /* may come late, if not opened */
	/* Under the lock, because the answer may come at once. */
	remote->closing = pending;
	if (pending && remote->opened == 1)
		(void)dfi__ofi_send(conn, &message);
	if (!--conn->n_remotes)
		conn->writer = NULL;
	if (!pending)
		dfi__ofi_free_remote(remote);
	if (ofi_conn_is_unused(conn))
		dfi__ofi_break(conn, NULL);
	/* The control thread frees it. */
	if (atomic_peek(&conn->broken) && !conn->writer)
		dfi__ofi_end_broken(ofi);
	pthread_mutex_unlock(&ofi->table);
	lock_release(&ofi->poll);
}

static int opening_failed(
    const struct ofi_remote *remote, uint32_t ring, int err)
{
	const char *peer = remote->conn->peer;
	struct ofi_location location = dfi__ofi_location(remote->conn->ofi);

	if (err == -ECONNRESET && atomic_observe(&remote->conn->broken))
		return dfi__ofi_lost(remote);
	switch (err) {
	case -EEXIST:
		return dfi__fail(err,
		    "ofi: %s: ring %u at %s has had a writer: a flow runs once",
		    location.text, ring, peer);
	case -EBUSY:
		return dfi__fail(err,
		    "ofi: %s: the connection with %s has the counter open "
		    "already: it may be opened once over each",
		    location.text, peer);
	case -ECONNRESET:
		return dfi__fail(err, "ofi: %s: %s has closed the region",
		    location.text, peer);
	case -ETIMEDOUT:
		return dfi__fail(err,
		    "ofi: %s: %s did not answer the request for ring %u",
		    location.text, peer, ring);
	default:
		return dfi__fail(err, "ofi: %s: %s refused to open ring %u: %s",
		    location.text, peer, ring, strerror(-err));
	}
}

/* Wait for the owner's answer. */
static int await_answer(struct ofi *ofi, const struct ofi_remote *remote,
    const struct wait_limit *wait_limit)
{
	int64_t deadline = wait_limit->deadline;
	bool given_up = false;
	struct timespec until;
	int64_t now;
	int ret;

	pthread_mutex_lock(&ofi->table);
	while (!remote->opened && !given_up) {
		now = clock_now_ns();
		if (now >= deadline)
			break;
		until = deadline_timespec(
		    now + CHECK_NS < deadline ? now + CHECK_NS : deadline);
		pthread_cond_timedwait(&ofi->answered, &ofi->table, &until);
		given_up = wait_limit_given_up(wait_limit);
	}
	ret = remote->opened ? remote->opened : -ETIMEDOUT;
	pthread_mutex_unlock(&ofi->table);
	return ret;
}

/* Whether a connection has rings beside this one, or the peer has made it. */
static bool has_others(const struct ofi_remote *remote)
{
	struct ofi_conn *conn = remote->conn;
	bool others;

	pthread_mutex_lock(&conn->ofi->table);
	others = conn->accepted || conn->n_links > 1;
	pthread_mutex_unlock(&conn->ofi->table);
	return others;
}

/* Ask the owner for the ring, and wait for the answer. */
static int open_ring(struct ofi *ofi, struct ofi_remote *remote,
    const struct region_name *name, uint32_t ring,
    const struct wait_limit *wait_limit)
{
	struct ofi_message message = {
		.type = OFI_OPEN,
		.link = remote->link,
		.key = name->key,
		.key2 = fi_mr_key(ofi->credits),
		.count = remote->layout.ring_size,
		.ring = ring,
	};
	int ret = dfi__ofi_send(remote->conn, &message);

	if (!ret) {
		/* No word is set: the answer is a message, which wakes. */
		dfi__ofi_arm(&ofi->base);
		ret = await_answer(ofi, remote, wait_limit);
		/*
		 * The owner may still open the ring: then it is closed when
		 * the answer comes, as other rings use the connection.
		 */
		if (ret == -ETIMEDOUT && !has_others(remote))
			dfi__ofi_break(remote->conn, "no answer");
	}
	return ret < 0 ? opening_failed(remote, ring, ret) : 0;
}

static bool take_link(struct ofi *ofi, struct ofi_remote *remote)
{
	dfi__ofi_lock_poll(ofi);
	pthread_mutex_lock(&ofi->table);
	remote->link = dfi__ofi_link_take(ofi, remote->conn);
	if (remote->link != NETWORK_NO_LINK)
		dfi__ofi_link(ofi, remote->link)->remote = remote;
	pthread_mutex_unlock(&ofi->table);
	lock_release(&ofi->poll);
	return remote->link != NETWORK_NO_LINK;
}

struct opening {
	const void *writer;
	const struct region_name *name;
	const struct ring_layout *layout;
	uint32_t ring;
	struct send_buffer *send_buffer;
	const struct wait_limit *wait_limit;
};

/* *shared: over a connection of the peer's, which has closed it meanwhile. */
static int try_to_open(struct ofi *ofi, const struct opening *opening,
    bool *shared, struct remote **out)
{
	struct ofi_remote *remote;
	bool broken;
	int ret;

	/* No peer is to blame for that. */
	if (clock_now_ns() >= opening->wait_limit->deadline)
		return dfi__fail(-ETIMEDOUT,
		    "ofi: %s: no time was left to ask %s for ring %u: is this "
		    "host too busy?",
		    dfi__ofi_location(ofi).text, opening->name->address,
		    opening->ring);
	remote = calloc(1, sizeof(*remote));
	if (!remote)
		return dfi__fail(-ENOMEM, "ofi: out of memory");
	remote->base.transport = &ofi->base;
	remote->base.send_buffer = opening->send_buffer;
	remote->layout = *opening->layout;
	remote->link = NETWORK_NO_LINK;
	ret = dfi__ofi_connect(ofi, opening->writer, opening->name->address,
	    *shared, opening->wait_limit, &remote->conn);
	*shared = false;
	if (ret < 0) {
		free(remote);
		return ret;
	}
	remote->base.queue = remote->conn;
	ret = dfi__ofi_create_shadow(ofi, remote);
	if (!ret && !take_link(ofi, remote))
		ret = dfi__fail(-ENOMEM, "ofi: out of memory");
	if (!ret)
		ret = open_ring(ofi, remote, opening->name, opening->ring,
		    opening->wait_limit);
	if (!ret) {
		*out = &remote->base;
		return 0;
	}
	broken = atomic_peek(&remote->conn->broken);
	*shared = broken && remote->conn->accepted;
	leave_conn(ofi, remote, broken || ret == -ETIMEDOUT);
	return ret;
}

int dfi__ofi_remote_open(struct transport *transport, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct send_buffer *send_buffer,
    const struct wait_limit *wait_limit, struct remote **out)
{
	struct opening opening = {
		.writer = writer,
		.name = name,
		.layout = layout,
		.ring = ring,
		.send_buffer = send_buffer,
		.wait_limit = wait_limit,
	};
	struct ofi *ofi = (struct ofi *)transport;
	bool shared = true;
	int ret = try_to_open(ofi, &opening, &shared, out);

	if (ret != -ECONNRESET || !shared)
		return ret;
	/* The peer has closed its connection; one of our own remains. */
	shared = false;
	return try_to_open(ofi, &opening, &shared, out);
}

void dfi__ofi_remote_close(struct remote *base)
{
	struct ofi *ofi = (struct ofi *)base->transport;

	leave_conn(ofi, (struct ofi_remote *)base, true);
}
