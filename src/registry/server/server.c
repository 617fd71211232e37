/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry as a whole: start, stop, accepting clients, expiring leases.
 * session.c serves clients, and table.c has the data. Everything but start and
 * stop runs on the registry's own loop thread.
 */
#include "server.h"

#include <dfi/registry.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/accept.h"
#include "base/attr.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/user.h"
#include "pending_auth.h"
#include "session.h"
#include "sync.h"
#include "security/tls.h"

/* An expiry this late means that the registry itself was stopped. */
#define STALL_NS (NS_PER_S / 2)
/* Bytes of all outputs that are always allowed. */
#define MAX_QUEUED_LEAST ((size_t)16 << 20)
/* Connections without TLS that have not greeted. */
#define STRANGERS_MAX 1024
/* As long as a client waits for its peers to come back. */
#define GRACE_MS 10000

uint32_t dfi__server_loop_ms = 10000;

struct dfi_registry {
	struct server server;
	pid_t pid;
};

static void set_expiry(struct server *server, int64_t next)
{
	struct timeval delay;
	int64_t left;

	if (next == server->expiry_due)
		return;
	server->expiry_due = next;
	if (next == INT64_MAX) {
		evtimer_del(server->expiry_timer);
		return;
	}
	left = next - clock_now_ns();
	/* Rounded up, so that the lease is due when the timer fires. */
	left = left > 0 ? (left + 999) / 1000 : 0;
	delay.tv_sec = left / 1000000;
	delay.tv_usec = left % 1000000;
	evtimer_add(server->expiry_timer, &delay);
}

void dfi__server_next_expiry(struct server *server)
{
	server->expiry_due = 0;
	set_expiry(server, dfi__table_next_expiry(server->table));
}

/* If the timer fires for a lease that has gone, it looks for the next one. */
void dfi__server_arm_expiry(struct server *server, int64_t expiry)
{
	if (expiry < server->expiry_due)
		set_expiry(server, expiry);
}

static void on_expiry(evutil_socket_t fd, short what, void *arg)
{
	struct server *server = arg;
	int64_t now = clock_now_ns();
	struct session *session;

	(void)fd;
	(void)what;
	/*
	 * While the registry was stopped, it could not read the keepalives that
	 * wait in the sockets now: stopped is not dead.
	 */
	if (now - server->expiry_due > STALL_NS)
		dfi__table_renew_all(server->table, now);
	/*
	 * Clients whose requests wait unread for their turn are not dead
	 * either.
	 */
	TAILQ_FOREACH(session, &server->turns.behind, behind_link)
	{
		dfi__session_lives(session);
	}
	dfi__sync_keep_alive(server);
	dfi__sync_expire(server);
	dfi__server_settle(server);
	/* With a journal, once that is stored. */
	if (server->sync)
		server->expiry_due = INT64_MAX;
	else
		dfi__server_next_expiry(server);
}

static void admit(struct server *server, int fd)
{
	server->accept_failing = false;
	if (server->pending_auth)
		dfi__pending_auth_admit(server->pending_auth, fd);
	else
		dfi__session_open(server, fd);
	dfi__server_settle(server);
}

/* A connection that has proved nothing is closed for one that waits. */
static void accept_failed(struct server *server, int err)
{
	bool evicted = dfi__pending_auth_evict(server->pending_auth) ||
	    dfi__session_evict(server);

	dfi__server_settle(server);
	if (evicted)
		return;
	if (!server->accept_failing)
		dfi__log(DFI_LOG_ERROR,
		    "registry %s: a client can't be accepted: %s",
		    server->listen.text, strerrordesc_np(err));
	server->accept_failing = true;
	dfi__accept_pause(server->acceptor);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct server *server = arg;
	int i, new = 0;

	(void)fd;
	(void)what;
	for (i = 0; i < ACCEPTS_PER_TURN && new >= 0; i++) {
		new = dfi__accept_next(server->acceptor);
		if (new >= 0)
			admit(server, new);
	}
	if (new < 0 && new != -EAGAIN)
		accept_failed(server, -new);
}

static void free_events(struct server *server)
{
	dfi__accept_stop(server->acceptor);
	if (server->expiry_timer)
		event_free(server->expiry_timer);
	dfi__turns_stop(server);
}

static int attach(void *arg)
{
	struct server *server = arg;
	struct event_base *base = dfi__loop_base(server->loop);

	server->expiry_timer = evtimer_new(base, on_expiry, server);
	server->acceptor = dfi__accept_start(
	    base, server->listen.fd, on_readable, server);
	if (server->expiry_timer && server->acceptor &&
	    !dfi__turns_start(server, base))
		return dfi__sync_start(server, base);
	return dfi__fail(-ENOMEM, "no memory for the registry");
}

static void disconnect_all(struct server *server)
{
	struct session *session = NULL;

	while (!TAILQ_EMPTY(&server->live) || !TAILQ_EMPTY(&server->closing)) {
		session = TAILQ_FIRST(&server->live);
		if (!session)
			session = TAILQ_FIRST(&server->closing);
		dfi__session_doom(session, NULL);
	}
	if (session)
		dfi__server_settle(server);
}

/* All parts but the loop. */
static void free_registry(struct dfi_registry *registry)
{
	struct server *server = &registry->server;

	dfi__pending_auth_destroy(server->pending_auth);
	dfi__sync_stop(server);
	disconnect_all(server);
	dfi__sync_destroy(server);
	free_events(server);
	dfi__listen_close(&server->listen);
	dfi__table_destroy(server->table);
	dfi__visitors_free(&server->strangers);
	free(registry);
}

/* On the loop's thread. */
static void end(void *arg)
{
	free_registry(arg);
}

static int create_table(
    struct server *server, const struct dfi_registry_attr *attr)
{
	struct table_limits limits = {
		.max_keys = attr->max_keys ? attr->max_keys : 65536,
		.max_bytes = attr->max_bytes ? attr->max_bytes : 64 << 20,
		.max_leases = server->max_connections,
		.max_lease_keys = attr->max_client_keys ? attr->max_client_keys
							: 16384,
		.max_watches = attr->max_watches ? attr->max_watches : 16384,
	};
	struct table_hooks hooks = {
		.arg = server,
		.expired = dfi__session_expired,
	};

	server->max_untold = limits.max_bytes;
	server->turns.max_queued = 4 * server->max_output;
	if (server->turns.max_queued < MAX_QUEUED_LEAST)
		server->turns.max_queued = MAX_QUEUED_LEAST;
	return dfi__table_create(&limits, &hooks, &server->table);
}

/* Check whether the address may be served; warns if that is unwise. */
static int check_exposure(const struct address *address,
    const struct registry_security *security, const char *text)
{
	bool proved = security->key || security->ca;

	if (security->insecure && proved)
		return dfi__fail(-EINVAL,
		    "registry address '%s': insecure, and a key or a "
		    "certificate authority: it is either the one or the other",
		    text);
	if (security->insecure && !dfi__address_is_unix(address)) {
		dfi__log(DFI_LOG_WARN,
		    "registry %s: INSECURE: whoever reaches this address can "
		    "read and change what the members' memory holds; only for "
		    "a closed test network, or loopback where all users are "
		    "trusted",
		    text);
		return 0;
	}
	if (dfi__address_is_unix(address) || proved)
		return 0;
	return dfi__fail(-EPERM,
	    "registry address '%s'%s: whoever reaches it could read and change "
	    "what the members' memory holds; give it a key (made by "
	    "'dfi-registry keygen FILE'), or a certificate, its private key "
	    "and a certificate authority for its clients, or %s say --insecure "
	    "(DFI_REGISTRY_INSECURE)",
	    text,
	    dfi__address_is_routable(address)
		? " is not a loopback address"
		: " is open to every user of this machine",
	    dfi__address_is_routable(address)
		? "on a closed test network"
		: "take a Unix socket, or, where all users are trusted,");
}

/* Read what clients must prove; *tls is NULL if nothing. */
static int read_security(const struct dfi_registry_attr *attr, struct tls **tls)
{
	struct registry_security security = {
		.key = attr->key,
		.ca = attr->ca,
		.cert = attr->cert,
		.private_key = attr->private_key,
		.insecure = attr->flags & DFI_REGISTRY_INSECURE,
	};
	const char *text = attr->listen ? attr->listen : "unix:@";
	struct address address;
	int ret;

	if (attr->listen) {
		ret = dfi__address_parse(text, &address);
		if (!ret)
			ret = check_exposure(&address, &security, text);
		if (ret)
			return ret;
	}
	ret = dfi__tls_create(TLS_SERVER, &security, tls);
	if (!ret && *tls && (!attr->listen || dfi__address_is_unix(&address))) {
		dfi__tls_destroy(*tls);
		ret = dfi__fail(-EINVAL,
		    "registry address '%s': a Unix socket takes no key and no "
		    "certificate: the kernel tells who its clients are",
		    text);
	}
	return ret;
}

/* Without a state directory, a registry remembers nothing of another one. */
static int draw_store(struct server *server)
{
	if (getrandom(&server->store, sizeof(server->store), 0) !=
	    sizeof(server->store))
		return dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	server->store |= 1;
	return 0;
}

/* All parts but the loop. */
static int open_parts(
    struct server *server, const struct dfi_registry_attr *attr)
{
	struct tls *tls;
	int ret;

	TAILQ_INIT(&server->live);
	TAILQ_INIT(&server->closing);
	TAILQ_INIT(&server->doomed);
	TAILQ_INIT(&server->unsent);
	server->expiry_due = INT64_MAX;
	server->max_connections = attr->max_connections ? attr->max_connections
							: 4096;
	server->max_output = attr->max_output ? attr->max_output : 16 << 20;
	server->n_users = attr->n_users;
	if (attr->n_users)
		memcpy(server->users, attr->users,
		    attr->n_users * sizeof(server->users[0]));
	ret = read_security(attr, &tls);
	if (ret)
		return ret;
	ret = tls ? dfi__pending_auth_create(server, tls, &server->pending_auth)
		  : 0;
	if (ret) {
		dfi__tls_destroy(tls);
		return ret;
	}
	ret = dfi__visitors_init(&server->strangers, STRANGERS_MAX);
	if (!ret)
		ret = create_table(server, attr);
	if (ret)
		goto err_pending_auth;
	server->grace_ms = attr->grace_ms ? attr->grace_ms : GRACE_MS;
	ret = attr->state ? dfi__sync_create(server, attr->state)
			  : draw_store(server);
	if (ret)
		goto err_table;
	ret = dfi__listen_open(
	    attr->listen, server->n_users ? 0666 : 0600, &server->listen);
	if (!ret)
		return 0;
	dfi__sync_destroy(server);
err_table:
	dfi__table_destroy(server->table);
err_pending_auth:
	dfi__visitors_free(&server->strangers);
	dfi__pending_auth_destroy(server->pending_auth);
	return ret;
}

/* On failure frees the registry, or has the loop's thread do so. */
static int start(
    struct dfi_registry *registry, const struct dfi_registry_attr *attr)
{
	int64_t deadline = deadline_in_ms(dfi__server_loop_ms);
	struct server *server = &registry->server;
	int ret = open_parts(server, attr);

	if (ret) {
		free(registry);
		return ret;
	}
	ret = dfi__loop_start_until("dfi-registry", deadline, &server->loop);
	if (ret) {
		free_registry(registry);
		return ret;
	}
	ret = dfi__loop_call(server->loop, attach, server, deadline);
	if (ret)
		dfi__loop_finish(server->loop, end, registry, deadline);
	return ret;
}

static int check_users(const struct dfi_registry_attr *attr)
{
	uint32_t i;

	if (!attr->n_users)
		return 0;
	if (attr->n_users > DFI_MAX_REGISTRY_USERS)
		return dfi__fail(-EINVAL,
		    "dfi_registry_attr.n_users %u is more than %d",
		    attr->n_users, DFI_MAX_REGISTRY_USERS);
	if (!attr->users)
		return dfi__fail(-EINVAL, "dfi_registry_attr.users is NULL");
	for (i = 0; i < attr->n_users; i++)
		if (!dfi__user_is_mapped(attr->users[i]))
			return dfi__fail(-EINVAL,
			    "dfi_registry_attr.users: user %u can't be allowed "
			    "here: it stands for all users that this process's "
			    "user namespace does not map",
			    attr->users[i]);
	if (attr->listen && strncmp(attr->listen, "unix:", 5) != 0)
		return dfi__fail(-EINVAL,
		    "registry address '%s': users are known at a Unix socket "
		    "only: use a key or certificates",
		    attr->listen);
	return 0;
}

int dfi_registry_start(
    const struct dfi_registry_attr *attr, struct dfi_registry **registry)
{
	struct dfi_registry_attr loaded;
	struct dfi_registry *new;
	int ret;
	CANCEL_POINT;

	if (!registry)
		return dfi__fail(
		    -EINVAL, "dfi_registry_start: registry is NULL");
	ret = dfi__attr_load(
	    &loaded, sizeof(loaded), attr, "dfi_registry_attr");
	if (ret)
		return ret;
	ret = check_users(&loaded);
	if (ret)
		return ret;
	if (loaded.flags & ~(uint32_t)DFI_REGISTRY_INSECURE)
		return dfi__fail(-EINVAL,
		    "dfi_registry_attr: unknown flags 0x%x", loaded.flags);
	if (loaded.reserved)
		return dfi__fail(-E2BIG,
		    "dfi_registry_attr.reserved is not 0: set it to 0, or use "
		    "a newer library");
	new = calloc(1, sizeof(*new));
	if (!new)
		return dfi__fail(-ENOMEM, "no memory for a registry");
	new->pid = getpid();
	ret = start(new, &loaded);
	if (ret)
		return ret;
	dfi__log(DFI_LOG_INFO, "registry %s: started", new->server.listen.text);
	*registry = new;
	return 0;
}

const char *dfi_registry_address(const struct dfi_registry *registry)
{
	if (!registry) {
		dfi__fail(-EINVAL, "dfi_registry_address: registry is NULL");
		return NULL;
	}
	return registry->server.listen.text;
}

int dfi_registry_stop(struct dfi_registry *registry)
{
	struct server *server;
	int ret;
	CANCEL_POINT;

	if (!registry)
		return 0;
	server = &registry->server;
	if (registry->pid != getpid())
		return dfi__fail(-EOWNERDEAD,
		    "registry %s belongs to process %ld, the parent of this "
		    "one",
		    server->listen.text, (long)registry->pid);
	ret = dfi__loop_check(
	    server->loop, deadline_in_ms(dfi__server_loop_ms));
	if (!ret)
		dfi__loop_finish(server->loop, end, registry,
		    deadline_in_ms(dfi__server_loop_ms));
	return ret;
}
