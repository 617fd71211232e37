/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connecting side: it runs in the thread that opens a source. A connection
 * that its writer has left is kept for the next one.
 */

#include "connection.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "base/atomic.h"
#include "base/error.h"
#include "base/files.h"
#include "handshake.h"
#include "transport/verbs/data/arrive.h"
#include "transport/verbs/data/conn.h"
#include "transport/verbs/device/fail.h"

/*
 * rdma_cm wants a limit for each step, and 0 is not one. Our limit is the
 * deadline. To resolve an address, Linux asks for the neighbour before it
 * listens for the answer. It may miss a quick answer, and then looks again only
 * at the limit. So an address is resolved in short parts.
 */
#define RESOLVE_MS 10000
#define RESOLVE_PART_MS 100

/* A peer may not know yet that we are a member. */
#define RETRY_REFUSED_NS (INT64_C(20) * NS_PER_MS)

/* Whether to wait on: 0, or an error. */
static int check_wait_limit(const struct verbs *verbs, const char *peer,
    const struct wait_limit *wait_limit)
{
	if (wait_limit_given_up(wait_limit))
		return dfi__fail(-ECONNRESET,
		    "verbs: %s: %s is gone, as the registry says",
		    dfi__verbs_gid(&verbs->device).text, peer);
	if (clock_now_ns() >= wait_limit->deadline)
		return dfi__fail(-ETIMEDOUT,
		    "verbs: %s: no answer from %s: is it reachable over RDMA?",
		    dfi__verbs_gid(&verbs->device).text, peer);
	return 0;
}

/* The event of a resolved address may open another device. */
static int get_event(
    struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	int ret, err;

	dfi__files_take_standard();
	ret = rdma_get_cm_event(channel, event);
	err = errno;
	dfi__files_free_standard();
	errno = err;
	return ret;
}

/* Wait for the next event of a channel: 0 and the event, or an error. */
static int next_event(const struct verbs *verbs,
    struct rdma_event_channel *channel, const char *peer,
    const struct wait_limit *wait_limit, struct rdma_cm_event **event)
{
	struct pollfd pollfd = { .fd = channel->fd, .events = POLLIN };
	int ret;

	/* There may be none after all: librdmacm keeps some for itself. */
	while (get_event(channel, event)) {
		if (errno != EAGAIN && errno != EINTR)
			return dfi__verbs_fail_cm(
			    &verbs->device, "rdma_get_cm_event", errno);
		if (poll(&pollfd, 1, wait_limit_look_ms(wait_limit)) > 0)
			continue;
		ret = check_wait_limit(verbs, peer, wait_limit);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Wait for a step of connecting. -EAGAIN, without a text: an address is still
 * not resolved. */
static int await(struct verbs *verbs, struct rdma_event_channel *channel,
    const char *peer, const struct wait_limit *wait_limit,
    enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	int ret = next_event(verbs, channel, peer, wait_limit, &event);

	if (ret < 0)
		return ret;
	if (event->event == RDMA_CM_EVENT_ESTABLISHED)
		ret = dfi__verbs_accepted(verbs, event,
		    ((struct verbs_conn *)event->id->context)->nonce, peer);
	else if (event->event == wanted)
		ret = 0;
	else if (event->event == RDMA_CM_EVENT_REJECTED)
		ret = dfi__verbs_refused(verbs, event, peer);
	else if (event->event == RDMA_CM_EVENT_ADDR_ERROR &&
	    event->status == -ETIMEDOUT)
		ret = -EAGAIN;
	else if (event->event == RDMA_CM_EVENT_CONNECT_ERROR)
		/* Accepted, but then our queue pair couldn't be made ready:
		 * rdma_cm forgets the connection when the peer gives it up. */
		ret = dfi__fail(-ECONNRESET,
		    "verbs: %s: the connection to %s broke while it was made: "
		    "is its process gone?",
		    dfi__verbs_gid(&verbs->device).text, peer);
	else
		ret = dfi__fail(-EHOSTUNREACH,
		    "verbs: %s: connecting to %s: %s (%s)",
		    dfi__verbs_gid(&verbs->device).text, peer,
		    rdma_event_str(event->event),
		    strerror(
			event->status < 0 ? -event->status : event->status));
	rdma_ack_cm_event(event);
	return ret;
}

/*
 * The kernel's routes say which device to use, unless the settings do. A
 * link-local peer is on the network of our device.
 */
static int resolve_address(struct verbs *verbs, struct rdma_cm_id *id,
    const char *peer, const struct wait_limit *wait_limit)
{
	const struct settings *settings = verbs->settings;
	union ip from = verbs->device.address, to;
	bool set = settings->verbs_device || settings->verbs_address;

	if (!dfi__ip_parse(peer, &to))
		return dfi__fail(
		    -EBADMSG, "verbs: '%s' is not an address", peer);
	if (dfi__ip_is_link_local(&to))
		to.in6.sin6_scope_id = verbs->device.interface;
	set = set && from.any.sa_family == to.any.sa_family;
	if (rdma_resolve_addr(
		id, set ? &from.any : NULL, &to.any, RESOLVE_PART_MS))
		return dfi__fail(errno == ENOMEM ? -ENOMEM : -EHOSTUNREACH,
		    "verbs: no RDMA device is on the route to %s: %s (this "
		    "context uses %s at %s)",
		    peer, strerror(errno), dfi__verbs_gid(&verbs->device).text,
		    verbs->device.address_text);
	return await(
	    verbs, id->channel, peer, wait_limit, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static int resolve(struct verbs *verbs, struct rdma_cm_id *id, const char *peer,
    const struct wait_limit *wait_limit)
{
	int parts = RESOLVE_MS / RESOLVE_PART_MS, ret;

	while (
	    (ret = resolve_address(verbs, id, peer, wait_limit)) == -EAGAIN) {
		ret = check_wait_limit(verbs, peer, wait_limit);
		if (!ret && !--parts)
			ret = dfi__fail(-EHOSTUNREACH,
			    "verbs: %s: connecting to %s: nobody answers to "
			    "its address",
			    dfi__verbs_gid(&verbs->device).text, peer);
		if (ret < 0)
			return ret;
	}
	if (ret < 0)
		return ret;
	if (rdma_resolve_route(id, RESOLVE_MS))
		return dfi__verbs_fail_cm(
		    &verbs->device, "rdma_resolve_route", errno);
	return await(
	    verbs, id->channel, peer, wait_limit, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static int connect_id(struct verbs *verbs, struct rdma_cm_id *id,
    const char *peer, const struct wait_limit *wait_limit,
    struct verbs_conn **out)
{
	struct handshake greeting = { .magic = 0 };
	struct rdma_conn_param param = dfi__verbs_conn_param(verbs, &greeting);
	struct verbs_conn *conn;
	int ret = resolve(verbs, id, peer, wait_limit);

	if (ret < 0)
		return ret;
	conn = dfi__verbs_new_conn(verbs, id, false);
	if (!conn)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	*out = conn;
	snprintf(conn->peer, sizeof(conn->peer), "%s", peer);
	ret = dfi__verbs_create_qp(conn);
	if (ret < 0)
		return ret;
	ret = dfi__verbs_send_handshake(verbs, id, &greeting);
	if (ret < 0)
		return ret;
	conn->nonce = greeting.nonce;
	if (rdma_connect(id, &param))
		return dfi__verbs_fail_cm(
		    &verbs->device, "rdma_connect", errno);
	ret = await(
	    verbs, id->channel, peer, wait_limit, RDMA_CM_EVENT_ESTABLISHED);
	if (ret < 0)
		return ret;
	dfi__verbs_tune(conn);
	if (rdma_migrate_id(id, verbs->cm))
		return dfi__verbs_fail_cm(
		    &verbs->device, "rdma_migrate_id", errno);
	return 0;
}

/*
 * Add to the error text of ret that the settings led off the route, if they
 * did: that may be the reason.
 */
static int explain(const struct verbs *verbs, const char *peer, int ret)
{
	const struct settings *settings = verbs->settings;
	bool by_device = settings->verbs_device;
	char text[IP_TEXT_SIZE];
	union ip to, from;

	if ((!by_device && !settings->verbs_address) ||
	    !dfi__ip_parse(peer, &to) || !dfi__ip_route(&to, &from) ||
	    dfi__ip_same_host(&from, &verbs->device.address))
		return ret;
	dfi__ip_host_text(&from, text);
	return dfi__fail_within(ret,
	    "verbs: the route to %s is from %s, but %s=%s is set (unset it, or "
	    "set DFI_VERBS_ADDRESS=%s)",
	    peer, text, by_device ? "DFI_VERBS_DEVICE" : "DFI_VERBS_ADDRESS",
	    by_device ? settings->verbs_device : settings->verbs_address, text);
}

/* Connect once, over a channel of our own, so that waiting is simple. */
static int connect_once(struct verbs *verbs, const char *peer,
    const struct wait_limit *wait_limit, struct verbs_conn **out)
{
	struct rdma_event_channel *channel;
	struct verbs_conn *conn = NULL;
	struct rdma_cm_id *id;
	int ret;

	ret = dfi__verbs_channel(&verbs->device, &channel);
	if (ret < 0)
		return ret;
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) {
		ret = dfi__verbs_fail_cm(
		    &verbs->device, "rdma_create_id", errno);
		goto destroy_channel;
	}
	ret = connect_id(verbs, id, peer, wait_limit, &conn);
	if (ret == -EHOSTUNREACH || ret == -ETIMEDOUT || ret == -ECONNREFUSED)
		ret = explain(verbs, peer, ret);
	if (!ret)
		*out = conn;
	else if (conn)
		dfi__verbs_destroy_conn(
		    conn); /* it isn't listed; no lock is held */
	else
		rdma_destroy_id(id);
destroy_channel:
	rdma_destroy_event_channel(channel);
	return ret;
}

/* A connection of that writer, or of nobody, that has room for one more. */
static struct verbs_conn *find_of(
    const struct verbs *verbs, const void *writer, const char *peer)
{
	struct verbs_conn *conn;

	for (conn = verbs->conns; conn; conn = conn->next)
		if (!conn->accepted && !atomic_peek(&conn->broken) &&
		    conn->writer == writer &&
		    conn->n_remotes < verbs_most_remotes(conn) &&
		    strcmp(conn->peer, peer) == 0)
			break;
	return conn;
}

/* This writer's own, or else one that nobody uses. Both locks are not needed,
 * the table is. */
static struct verbs_conn *take_idle(
    struct verbs *verbs, const void *writer, const char *peer)
{
	struct verbs_conn *conn;

	pthread_mutex_lock(&verbs->table);
	conn = find_of(verbs, writer, peer);
	if (!conn)
		conn = find_of(verbs, NULL, peer);
	if (conn) {
		conn->writer = writer;
		conn->n_remotes++;
	}
	pthread_mutex_unlock(&verbs->table);
	return conn;
}

int dfi__verbs_connect(struct verbs *verbs, const void *writer,
    const char *address, const struct wait_limit *wait_limit,
    struct verbs_conn **out)
{
	const char *failed = atomic_observe(&verbs->failed);
	struct verbs_conn *conn;
	struct timespec until;
	int ret;

	if (failed)
		return dfi__fail(-EIO,
		    "verbs: %s has failed (%s): close the context and open "
		    "another",
		    dfi__verbs_port(&verbs->device).text, failed);
	conn = take_idle(verbs, writer, address);
	while (!conn) {
		ret = connect_once(verbs, address, wait_limit, &conn);
		if (!ret)
			break;
		if (ret != -EACCES ||
		    clock_now_ns() + RETRY_REFUSED_NS >= wait_limit->deadline ||
		    wait_limit_given_up(wait_limit))
			return ret;
		/* The registry may just not have told the peer of us yet. */
		until = deadline_timespec(clock_now_ns() + RETRY_REFUSED_NS);
		pthread_mutex_lock(&verbs->table);
		pthread_cond_timedwait(&verbs->answered, &verbs->table, &until);
		pthread_mutex_unlock(&verbs->table);
		conn = NULL;
	}
	if (!conn->writer) {
		dfi__verbs_lock_poll(verbs);
		pthread_mutex_lock(&verbs->table);
		conn->writer = writer;
		conn->n_remotes = 1;
		conn->next = verbs->conns;
		verbs->conns = conn;
		pthread_mutex_unlock(&verbs->table);
		lock_release(&verbs->poll);
	}
	*out = conn;
	return 0;
}
