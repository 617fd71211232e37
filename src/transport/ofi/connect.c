/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections are made, and the connecting side waits for the answer in the
 * thread that opens a source. Rings of one writer at one process share a
 * connection, and a writer there may use it for rings of this process. The end
 * that made it closes it after the last ring.
 */
#include "conn.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "fabric.h"

/* A peer may not know yet that we are a member. */
#define RETRY_REFUSED_NS (INT64_C(20) * NS_PER_MS)

/* How long the peer may take to open a ring on a connection that it has made.
 */
#define SHARE_NS (INT64_C(5) * NS_PER_MS)

/* How often a waiting thread checks whether its peer is gone. */
#define CHECK_NS (INT64_C(100) * NS_PER_MS)

static int bind_all(struct ofi_conn *conn)
{
	struct ofi *ofi = conn->ofi;
	int ret = fi_ep_bind(conn->ep, &ofi->eq->fid, 0);

	if (!ret)
		ret = fi_ep_bind(conn->ep, &ofi->cq->fid,
		    FI_TRANSMIT | FI_SELECTIVE_COMPLETION);
	if (!ret)
		ret = fi_ep_bind(conn->ep, &ofi->cq->fid, FI_RECV);
	return ret ? ret : fi_enable(conn->ep);
}

static int post_receives(struct ofi_conn *conn)
{
	ssize_t ret = 0;
	int i;

	for (i = 0; !ret && i < OFI_RECEIVES; i++) {
		conn->receives[i].conn = conn;
		conn->receives[i].message = &conn->messages[i];
		ret = fi_recv(conn->ep, &conn->messages[i],
		    sizeof(conn->messages[i]), NULL, 0, &conn->receives[i]);
	}
	return (int)ret;
}

/* What it has posted is to end with it. The poll lock is held if accepted. */
static void end_new(struct ofi_conn *conn)
{
	struct ofi *ofi = conn->ofi;

	if (!conn->accepted)
		dfi__ofi_lock_poll(ofi);
	pthread_mutex_lock(&ofi->table);
	dfi__ofi_list_conn(conn);
	dfi__ofi_break(conn, NULL);
	pthread_mutex_unlock(&ofi->table);
	if (!conn->accepted)
		lock_release(&ofi->poll);
}

int dfi__ofi_new_conn(
    struct ofi *ofi, struct fi_info *info, bool accepted, struct ofi_conn **out)
{
	struct ofi_conn *conn = calloc(1, sizeof(*conn));
	int ret;

	if (!conn)
		return dfi__fail(-ENOMEM, "ofi: out of memory");
	conn->ofi = ofi;
	conn->accepted = accepted;
	conn->writes.conn = conn;
	conn->fd = -1;
	dfi__files_take_standard();
	ret = fi_endpoint(ofi->domain, info, &conn->ep, conn);
	dfi__files_free_standard();
	if (!ret)
		ret = bind_all(conn);
	if (!ret)
		ret = post_receives(conn);
	if (!ret) {
		*out = conn;
		return 0;
	}
	ret = dfi__ofi_fail(ofi, "an endpoint", ret);
	if (conn->ep)
		end_new(conn);
	else
		free(conn);
	return ret;
}

void dfi__ofi_list_conn(struct ofi_conn *conn)
{
	conn->next = conn->ofi->conns;
	conn->ofi->conns = conn;
}

void dfi__ofi_own_conn(struct ofi_conn *conn)
{
	union ip local, peer;
	size_t local_size = sizeof(local), peer_size = sizeof(peer);

	if (!fi_getname(&conn->ep->fid, &local, &local_size) &&
	    !fi_getpeer(conn->ep, &peer, &peer_size))
		conn->fd = dfi__ofi_own_socket(&local, &peer);
}

void dfi__ofi_close_conn(struct ofi_conn *conn)
{
	if (conn->fd >= 0)
		dfi__fork_remove(conn->fd);
	conn->fd = -1;
	/* Another file may get its number. The control thread looks again. */
	dfi__ofi_descriptors_leave(conn->ofi);
	dfi__ofi_wake(conn->ofi);
	if (conn->ep)
		(void)fi_close(&conn->ep->fid);
	conn->ep = NULL;
}

void dfi__ofi_free_conn(struct ofi_conn *conn)
{
	struct ofi_conn **at = &conn->ofi->conns;

	while (*at && *at != conn)
		at = &(*at)->next;
	if (*at)
		*at = conn->next;
	free(conn);
}

static int check_wait(const struct ofi *ofi, const char *peer,
    const struct wait_limit *wait_limit)
{
	if (wait_limit_given_up(wait_limit))
		return dfi__fail(-ECONNRESET,
		    "ofi: %s: %s is gone, as the registry says",
		    dfi__ofi_location(ofi).text, peer);
	if (clock_now_ns() >= wait_limit->deadline)
		return dfi__fail(-ETIMEDOUT,
		    "ofi: %s: no answer from %s: does a firewall drop packets "
		    "to it?",
		    dfi__ofi_location(ofi).text, peer);
	return 0;
}

/* Wait until the event queue has an answer. */
static int await_answer(
    struct ofi_conn *conn, const struct wait_limit *wait_limit)
{
	struct ofi *ofi = conn->ofi;
	struct timespec until;
	int ret = 0;

	pthread_mutex_lock(&ofi->table);
	while (!ret && conn->state == OFI_CONNECTING) {
		until = deadline_timespec(clock_now_ns() + CHECK_NS);
		pthread_cond_timedwait(&ofi->answered, &ofi->table, &until);
		if (conn->state == OFI_CONNECTING)
			ret = check_wait(ofi, conn->peer, wait_limit);
	}
	pthread_mutex_unlock(&ofi->table);
	return ret;
}

struct handshake_self dfi__ofi_handshake(const struct ofi *ofi)
{
	return (struct handshake_self){
		.name = "ofi",
		.over = "libfabric",
		.magic = OFI_HANDSHAKE_MAGIC,
		.version = OFI_HANDSHAKE_VERSION,
		.member = &ofi->self,
	};
}

static int fail_refused(const struct ofi_conn *conn)
{
	struct handshake_self self = dfi__ofi_handshake(conn->ofi);
	const char *location = dfi__ofi_location(conn->ofi).text;

	if (conn->error == ECONNREFUSED || conn->error == ECONNRESET)
		return dfi__handshake_refused(&self, conn->answer,
		    conn->answer_size, fi_strerror(conn->error), location,
		    conn->peer);
	return dfi__fail(-EHOSTUNREACH, "ofi: %s: connecting to %s: %s",
	    location, conn->peer, fi_strerror(conn->error));
}

/* Send the request with our proof, and check the peer's. */
static int shake_hands(struct ofi_conn *conn, const union ip *peer,
    const struct wait_limit *wait_limit)
{
	struct ofi *ofi = conn->ofi;
	struct handshake_self self = dfi__ofi_handshake(ofi);
	struct handshake_path path = {
		.to = &peer->any,
		.port = htons(dfi__ip_port(peer)),
	};
	struct handshake handshake;
	union ip from;
	int ret;

	if (dfi__ip_route(peer, &from))
		path.from = &from.any;
	ret = dfi__handshake_greet(&self, &path, &handshake);
	if (ret < 0)
		return ret;
	ret = fi_connect(conn->ep, peer, &handshake, sizeof(handshake));
	if (ret)
		return dfi__fail(-EHOSTUNREACH, "ofi: %s: connecting to %s: %s",
		    dfi__ofi_location(ofi).text, conn->peer, fi_strerror(-ret));
	dfi__ofi_arm(&ofi->base);
	ret = await_answer(conn, wait_limit);
	if (!ret && conn->state == OFI_REFUSED)
		ret = fail_refused(conn);
	if (!ret)
		dfi__ofi_own_conn(conn);
	if (!ret)
		ret = dfi__handshake_accepted(&self, &path, conn->answer,
		    conn->answer_size, handshake.nonce,
		    dfi__ofi_location(ofi).text, conn->peer);
	return ret;
}

/* An endpoint to a peer, made apart. */
struct new_conn {
	struct ofi *ofi;
	const union ip *peer;
	struct ofi_conn *conn;
};

static int make_conn(void *arg)
{
	struct new_conn *new = arg;
	struct fi_info *info;
	int ret = dfi__ofi_info(new->ofi, new->peer, &info);

	if (ret < 0)
		return ret;
	ret = dfi__ofi_new_conn(new->ofi, info, false, &new->conn);
	fi_freeinfo(info);
	return ret;
}

/* The peer's id, which its answer has proved. */
static uint64_t answered_by(const struct ofi_conn *conn)
{
	struct handshake answer;

	memcpy(&answer, conn->answer, sizeof(answer));
	return answer.node;
}

static int connect_once(struct ofi *ofi, const void *writer,
    const char *address, const struct wait_limit *wait_limit,
    struct ofi_conn **out)
{
	union ip peer;
	struct new_conn new = { .ofi = ofi, .peer = &peer };
	struct ofi_conn *conn;
	int ret;

	if (!dfi__ip_parse(address, &peer))
		return dfi__fail(
		    -EBADMSG, "ofi: '%s' is not an address", address);
	ret = dfi__ofi_apart(make_conn, &new);
	if (ret < 0)
		return ret;
	conn = new.conn;
	snprintf(conn->peer, sizeof(conn->peer), "%s", address);
	snprintf(conn->listens_at, sizeof(conn->listens_at), "%s", address);
	conn->writer = writer;
	conn->n_remotes = 1;
	dfi__ofi_lock_poll(ofi);
	pthread_mutex_lock(&ofi->table);
	dfi__ofi_list_conn(conn);
	pthread_mutex_unlock(&ofi->table);
	lock_release(&ofi->poll);
	ret = shake_hands(conn, &peer, wait_limit);
	pthread_mutex_lock(&ofi->table);
	if (!ret) {
		conn->node = answered_by(conn);
		conn->state = OFI_ESTABLISHED;
		conn->heard_at = clock_now_ns();
	} else {
		conn->writer = NULL;
		conn->n_remotes = 0;
	}
	pthread_mutex_unlock(&ofi->table);
	if (!ret) {
		*out = conn;
	} else {
		/* The control thread frees it. */
		dfi__ofi_break(conn, NULL);
		dfi__ofi_end_broken(ofi);
	}
	return ret;
}

/* A connection of this writer to the peer. */
static struct ofi_conn *take_own(
    struct ofi *ofi, const void *writer, const char *peer)
{
	struct ofi_conn *conn;

	pthread_mutex_lock(&ofi->table);
	for (conn = ofi->conns; conn; conn = conn->next)
		if (conn->writer == writer && !atomic_peek(&conn->broken) &&
		    strcmp(conn->listens_at, peer) == 0) {
			conn->n_remotes++;
			break;
		}
	pthread_mutex_unlock(&ofi->table);
	return conn;
}

/* ---- Connections of both directions ------------------------------------ */

/*
 * A connection that the peer at the other end of conn has made, and on which
 * no writer of this process sends. in_use: the peer has a ring open on it, so
 * it has checked our proof.
 */
static struct ofi_conn *find_accepted(const struct ofi_conn *conn, bool in_use)
{
	struct ofi_conn *at;

	for (at = conn->ofi->conns; at; at = at->next)
		if (at->accepted && !at->writer && at->node == conn->node &&
		    !atomic_peek(&at->broken) && (at->n_links || !in_use))
			return at;
	return NULL;
}

/*
 * The one that the peer is about to use, if both have connected to each other
 * at once: the end with the greater id gives way, and waits for that.
 */
static struct ofi_conn *await_accepted(const struct ofi_conn *conn)
{
	struct ofi *ofi = conn->ofi;
	int64_t until = clock_now_ns() + SHARE_NS;
	struct timespec limit = deadline_timespec(until);
	struct ofi_conn *found;

	while (!(found = find_accepted(conn, true)) &&
	    ofi->self.node > conn->node && find_accepted(conn, false) &&
	    clock_now_ns() < until)
		pthread_cond_timedwait(&ofi->answered, &ofi->table, &limit);
	return found;
}

/*
 * TCP acknowledges data with the data of the other direction: with a connection
 * for each, a round trip takes half as long again. So a new connection gives
 * way to one that the peer has made. Returns the one to use.
 */
static struct ofi_conn *share(struct ofi_conn *made)
{
	struct ofi *ofi = made->ofi;
	struct ofi_conn *shared;

	/* No word is set: what the peer sends is a message, which wakes. */
	dfi__ofi_arm(&ofi->base);
	pthread_mutex_lock(&ofi->table);
	shared = await_accepted(made);
	/* The peer may have begun to use the new one meanwhile. */
	if (shared && !made->n_links) {
		memcpy(shared->listens_at, made->listens_at,
		    sizeof(shared->listens_at));
		shared->writer = made->writer;
		shared->n_remotes = 1;
		made->writer = NULL;
		made->n_remotes = 0;
	} else {
		shared = made;
	}
	pthread_mutex_unlock(&ofi->table);
	if (shared != made) {
		dfi__ofi_break(made, NULL);
		dfi__ofi_end_broken(ofi);
	}
	return shared;
}

int dfi__ofi_connect(struct ofi *ofi, const void *writer, const char *address,
    bool may_share, const struct wait_limit *wait_limit, struct ofi_conn **out)
{
	struct timespec until;
	int ret;

	*out = take_own(ofi, writer, address);
	while (!*out) {
		ret = connect_once(ofi, writer, address, wait_limit, out);
		if (!ret && may_share)
			*out = share(*out);
		if (!ret)
			break;
		if (ret != -EACCES ||
		    clock_now_ns() + RETRY_REFUSED_NS >= wait_limit->deadline ||
		    wait_limit_given_up(wait_limit))
			return ret;
		/* The registry may just not have notified the peer of us yet.
		 */
		until = deadline_timespec(clock_now_ns() + RETRY_REFUSED_NS);
		pthread_mutex_lock(&ofi->table);
		pthread_cond_timedwait(&ofi->answered, &ofi->table, &until);
		pthread_mutex_unlock(&ofi->table);
	}
	return 0;
}
