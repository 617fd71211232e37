/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a client: the proof that the address demands, a connection, the
 * handshake and the lease, and further attempts if the registry is crowded.
 * Blocks the calling thread until the deadline at most.
 */
#include "remote.h"

#include <errno.h>
#include <poll.h>

#include "registry/wire/address.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork_files.h"
#include "base/loop.h"
#include "call.h"
#include "connect.h"
#include "enter.h"
#include "keys.h"
#include "security/tls.h"
#include "state.h"
#include "watch.h"

/* The pause between two attempts; it doubles each time. */
#define AGAIN_MIN_MS 5
#define AGAIN_MAX_MS 100

static int shake_hands(struct remote_client *client, int64_t deadline)
{
	Dfi__Registry__Handshake handshake = DFI__REGISTRY__HANDSHAKE__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(
	    HANDSHAKE, handshake, &handshake);
	Dfi__Registry__Message *message;
	int ret;

	handshake.version = WIRE_VERSION;
	handshake.client = client->id;
	handshake.connection = ++client->n_connections;
	ret = dfi__client_call(client, &request, deadline, &message);
	if (ret)
		return ret;
	ret = dfi__wire_check_versions(message->reply->version, WIRE_VERSION);
	client->store = message->reply->store;
	client->revision = message->reply->revision;
	dfi__wire_free(message);
	return ret;
}

static int take_lease(
    struct remote_client *client, uint32_t ttl_ms, int64_t deadline)
{
	Dfi__Registry__LeaseGrant grant = DFI__REGISTRY__LEASE_GRANT__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(
	    LEASE_GRANT, lease_grant, &grant);

	grant.ttl_ms = ttl_ms;
	return dfi__client_call(client, &request, deadline, NULL);
}

static int finish_opening(void *arg)
{
	struct remote_client *client = arg;
	int ret;

	dfi__client_enter(client);
	client->open = client->stream;
	ret = client->open
	    ? dfi__client_start_keepalive(client)
	    : dfi__fail(client->lost_err, "%s", client->lost_text);
	dfi__client_exit(client);
	return ret;
}

/* Check what is known of an address before anything is sent to it. */
static int prepare(const char *text, const struct registry_security *security,
    struct address *address, struct tls **tls)
{
	static const struct registry_security none = { .insecure = false };
	int ret = dfi__address_parse(text, address);

	*tls = NULL;
	/* The kernel tells which user is at a Unix socket. */
	if (ret || dfi__address_is_unix(address))
		return ret;
	if (!security)
		security = &none;
	ret = dfi__tls_create(TLS_CLIENT, security, tls);
	if (ret || *tls || security->insecure)
		return ret;
	return dfi__fail(-EPERM,
	    "registry address '%s'%s, and nothing proves who answers there: "
	    "set DFI_REGISTRY_KEY to the registry's key file, or "
	    "DFI_REGISTRY_CA and the like to certificates, or, %s, "
	    "DFI_REGISTRY_INSECURE=1",
	    text,
	    dfi__address_is_routable(address)
		? " is not a loopback address"
		: " is open to every user of this machine",
	    dfi__address_is_routable(address) ? "on a closed test network"
					      : "where all users are trusted");
}

struct opening {
	struct loop *loop;
	const char *address;
	struct address parsed;
	uid_t user;
	struct tls *tls; /* NULL: none, or the client's */
	uint32_t ttl_ms;
	int64_t deadline;
};

/* On the connection, greet and take a lease. */
static int enter_registry(
    struct remote_client *client, int fd, const struct opening *opening)
{
	int ret = dfi__client_start(client, fd, opening->deadline);

	if (!ret)
		ret = shake_hands(client, opening->deadline);
	if (!ret)
		ret = take_lease(client, opening->ttl_ms, opening->deadline);
	return ret ? ret
		   : dfi__loop_call(client->base.loop, finish_opening, client,
			 opening->deadline);
}

static const struct registry_ops ops = {
	.revoke = dfi__remote_revoke,
	.close = dfi__remote_close,
	.set_grace = dfi__remote_set_grace,
	.put = dfi__remote_put,
	.get = dfi__remote_get,
	.list = dfi__remote_list,
	.delete_key = dfi__remote_delete,
	.renew = dfi__remote_renew,
	.retire = dfi__remote_retire,
	.join = dfi__remote_join,
	.unwatch = dfi__remote_unwatch,
	.leave = dfi__remote_leave,
};

/* *again: the registry has closed the connection without an answer. */
static int open_once(
    struct opening *opening, struct registry_client **client, bool *again)
{
	struct remote_client *new = NULL;
	int fd, ret;

	*again = false;
	fd = dfi__connect(opening->address, &opening->parsed, opening->user,
	    opening->deadline);
	if (fd < 0)
		return fd;
	ret = dfi__client_new(opening->loop, opening->address, &new);
	if (ret) {
		dfi__fork_close(fd);
		return ret;
	}
	new->base.ops = &ops;
	new->parsed = opening->parsed;
	new->user = opening->user;
	new->ttl_ms = opening->ttl_ms;
	new->tls = opening->tls;
	ret = enter_registry(new, fd, opening);
	if (!ret) {
		opening->tls = NULL;
		*client = &new->base;
		return 0;
	}
	*again = ret == -ENOTCONN && new->turned_away;
	/* One that was turned away has no stream, which would need it. */
	if (*again)
		new->tls = NULL;
	else
		opening->tls = NULL;
	dfi__client_destroy(new, opening->deadline);
	return ret;
}

/*
 * A registry with too many connections that have proved nothing closes some of
 * them, maybe ours: try again.
 */
static int open_patiently(
    struct opening *opening, struct registry_client **client)
{
	int backoff_ms = AGAIN_MIN_MS, left, ret;
	unsigned n = 0;
	bool again;

	for (;; n++) {
		ret = open_once(opening, client, &again);
		left = deadline_left_ms(opening->deadline);
		if (!again || left == 0)
			break;
		poll(
		    NULL, 0, left > 0 && left < backoff_ms ? left : backoff_ms);
		backoff_ms = backoff_ms < AGAIN_MAX_MS / 2 ? 2 * backoff_ms
							   : AGAIN_MAX_MS;
	}
	if (!again)
		return ret;
	return dfi__fail(-ETIMEDOUT,
	    "registry %s: it has closed %u connections without an answer until "
	    "the time was over: strangers crowd it, or it is no registry",
	    opening->address, n + 1);
}

int dfi__remote_open(struct loop *loop, const char *address,
    const struct registry_security *security, uint32_t lease_ttl_ms,
    int64_t deadline, struct registry_client **client)
{
	struct opening opening = {
		.loop = loop,
		.address = address,
		.user = security && security->has_user ? security->user
						       : NO_USER,
		.ttl_ms = lease_ttl_ms,
		.deadline = deadline,
	};
	int ret;

	ret = prepare(address, security, &opening.parsed, &opening.tls);
	if (!ret)
		ret = open_patiently(&opening, client);
	dfi__tls_destroy(opening.tls);
	return ret;
}
