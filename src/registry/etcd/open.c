/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a client. The files are read, and what must not be is
 * refused, before anything is sent.
 */
#include "etcd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "call.h"
#include "keep.h"
#include "lease.h"
#include "restore.h"
#include "security/key_file.h"
#include "security/security.h"
#include "state.h"
#include "stream.h"
#include "watch.h"

/* How long closing waits for the loop. */
#define CLOSE_MS 10000
/* How long a failed opening does. */
#define GIVE_UP_MS 200
#define PASSWORD_MAX 256

static int check_ttl(uint32_t ms)
{
	if (!ms || (ms >= 50 && ms <= 3600000))
		return 0;
	return dfi__fail(
	    -EINVAL, "a lease of %u ms: it may have 50 to 3600000, or 0", ms);
}

/* Keys of members' memory are in the registry: they are a secret. */
static int check_secrecy(
    const struct etcd_endpoints *at, const struct registry_security *security)
{
	if (!at->routable || (at->tls && security->etcd_user))
		return 0;
	return dfi__fail(-EPERM,
	    "registry %s: everybody who reaches it could reach into the memory "
	    "of its members: use https://, enable etcd's authentication "
	    "(etcdctl auth enable), and set DFI_ETCD_USER and "
	    "DFI_ETCD_PASSWORD_FILE; only loopback addresses need none of this",
	    at->address);
}

static int check_security(
    const struct etcd_endpoints *at, const struct registry_security *security)
{
	if (security->key)
		return dfi__fail(-EINVAL,
		    "registry %s: a key file is given (%s), which is for a "
		    "dfi-registry: etcd has users, see DFI_ETCD_USER",
		    at->address, security->key);
	if (!security->cert != !security->private_key)
		return dfi__fail(-EINVAL,
		    "registry %s: a certificate without its private key, or "
		    "the other way round",
		    at->address);
	if (!at->tls && (security->ca || security->cert))
		return dfi__fail(-EINVAL,
		    "registry %s: certificates are given, but it is at http://",
		    at->address);
	if (!security->etcd_user != !security->etcd_password)
		return dfi__fail(-EINVAL,
		    "registry %s: set both of DFI_ETCD_USER and "
		    "DFI_ETCD_PASSWORD_FILE, or none",
		    at->address);
	return check_secrecy(at, security);
}

static int check_private_key(const char *path)
{
	int fd;

	if (!path)
		return 0;
	fd = dfi__secret_file_open(
	    path, "private key for etcd", SECRET_GROUP_FROM_ROOT);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int read_password(struct etcd_client *client, const char *path)
{
	char text[PASSWORD_MAX + 1] = "";
	ssize_t n;
	int fd;

	if (!path)
		return 0;
	fd = dfi__secret_file_open(
	    path, "password for etcd", SECRET_GROUP_FROM_ROOT);
	if (fd < 0)
		return fd;
	n = read(fd, text, PASSWORD_MAX);
	close(fd);
	text[strcspn(text, "\r\n")] = '\0';
	if (n <= 0 || !*text)
		return dfi__fail(-EINVAL,
		    "the password file of etcd's user, %s, has no password in "
		    "its first line",
		    path);
	client->password = strdup(text);
	explicit_bzero(text, sizeof(text));
	return client->password
	    ? 0
	    : dfi__fail(-ENOMEM, "no memory for a client of etcd");
}

/* The environment, where names of files come from, may change. */
static int copy_files(
    struct etcd_client *client, const struct registry_security *security)
{
	const char *from[] = { security->ca, security->cert,
		security->private_key };
	size_t i;

	for (i = 0; i < 3; i++) {
		if (!from[i])
			continue;
		client->file_names[i] = strdup(from[i]);
		if (!client->file_names[i])
			return dfi__fail(
			    -ENOMEM, "no memory for a client of etcd");
		/* Otherwise libcurl's error has no name in it. */
		if (access(from[i], R_OK))
			return dfi__fail(-EINVAL, "registry %s: %s: %s",
			    client->at.address, from[i], strerror(errno));
	}
	client->files = (struct http_files){
		.ca = client->file_names[0],
		.cert = client->file_names[1],
		.private_key = client->file_names[2],
	};
	return check_private_key(security->private_key);
}

static int read_security(
    struct etcd_client *client, const struct registry_security *security)
{
	int ret = check_security(&client->at, security);

	if (!ret)
		ret = copy_files(client, security);
	if (!ret && security->etcd_user) {
		client->user = strdup(security->etcd_user);
		if (!client->user)
			ret = dfi__fail(
			    -ENOMEM, "no memory for a client of etcd");
	}
	return ret ? ret : read_password(client, security->etcd_password);
}

static int draw(struct etcd_client *client)
{
	if (getrandom(&client->id, sizeof(client->id), 0) !=
		sizeof(client->id) ||
	    getrandom(&client->hash_seed, sizeof(client->hash_seed), 0) !=
		sizeof(client->hash_seed))
		return dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	/* Neither "nobody", nor one that has no next. */
	client->id = client->id >> 1 | 1;
	/* Not all clients of a machine begin at the same member. */
	client->endpoint = (unsigned)(client->id >> 1) % client->at.n;
	return 0;
}

static void on_post(void *arg)
{
	struct etcd_client *client = arg;

	etcd_enter(client);
	dfi__operation_start_all(client);
	etcd_exit(client);
}

static void free_client(struct etcd_client *client)
{
	size_t i;

	dfi__etcd_endpoints_free(&client->at);
	for (i = 0; i < 3; i++)
		free(client->file_names[i]);
	free(client->user);
	if (client->password)
		explicit_bzero(client->password, strlen(client->password));
	free(client->password);
	free(client->token);
	pthread_mutex_destroy(&client->entrance);
	pthread_mutex_destroy(&client->lock);
	pthread_cond_destroy(&client->no_caller);
	free(client);
}

/* On the loop's thread. */
static void end(void *arg)
{
	struct etcd_client *client = arg;
	struct etcd_watch *watch;
	struct exchange *exchange;

	etcd_enter(client);
	client->closing = true;
	dfi__loop_unpost(client->base.loop, &client->post);
	dfi__operation_free_all(client);
	while ((exchange = TAILQ_FIRST(&client->exchanges)))
		dfi__exchange_end(exchange);
	dfi__stream_free(client);
	dfi__etcd_restore_end(client);
	dfi__lease_free(client);
	while ((watch = TAILQ_FIRST(&client->watches)))
		dfi__etcd_watch_free(watch);
	dfi__etcd_keep_free_all(client);
	if (client->http)
		dfi__http_free(client->http);
	etcd_exit(client);
	free_client(client);
}

static void destroy(struct etcd_client *client, int64_t deadline)
{
	client->end = (struct loop_post){ .fn = end, .arg = client };
	dfi__loop_end(client->base.loop, &client->end, deadline);
}

static void close_client(struct registry_client *base)
{
	struct etcd_client *client = etcd_of(base);

	if (!dfi__loop_is_current(base->loop))
		dfi__etcd_revoke(base);
	etcd_enter(client);
	client->closing = true;
	snprintf(client->lost_text, sizeof(client->lost_text),
	    "registry %s: the client is closed", client->at.address);
	dfi__operation_fail_all(client, -ENOTCONN);
	etcd_exit(client);
	pthread_mutex_lock(&client->lock);
	while (client->n_callers)
		pthread_cond_wait(&client->no_caller, &client->lock);
	pthread_mutex_unlock(&client->lock);
	destroy(client, deadline_in_ms(CLOSE_MS));
}

static void set_grace(struct registry_client *base, uint32_t ms)
{
	atomic_store(&etcd_of(base)->grace_ms, ms);
}

static const struct registry_ops ops = {
	.revoke = dfi__etcd_revoke,
	.close = close_client,
	.set_grace = set_grace,
	.put = dfi__etcd_put,
	.get = dfi__etcd_get,
	.list = dfi__etcd_list,
	.delete_key = dfi__etcd_delete,
	.renew = dfi__etcd_renew,
	.retire = dfi__etcd_retire,
	.join = dfi__etcd_join,
	.unwatch = dfi__etcd_unwatch,
	.leave = dfi__etcd_leave,
};

static struct etcd_client *new_client(struct loop *loop, uint32_t ttl_ms)
{
	struct etcd_client *client = calloc(1, sizeof(*client));
	pthread_mutexattr_t attr;

	if (!client)
		return NULL;
	client->base = (struct registry_client){ .ops = &ops, .loop = loop };
	client->post = (struct loop_post){ .fn = on_post, .arg = client };
	client->lease.wanted_ms = ttl_ms ? ttl_ms : ETCD_TTL_MS;
	client->grace_ms = CLIENT_GRACE_MS;
	TAILQ_INIT(&client->exchanges);
	TAILQ_INIT(&client->operations);
	TAILQ_INIT(&client->kept);
	TAILQ_INIT(&client->watches);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&client->entrance, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_mutex_init(&client->lock, NULL);
	pthread_cond_init(&client->no_caller, NULL);
	return client;
}

static int begin_entered(struct etcd_client *client)
{
	int ret = dfi__http_new(
	    client->base.loop, &client->files, &client->http);

	if (ret)
		return ret;
	client->heard_at = clock_now_ns();
	if (dfi__lease_init(client) || dfi__etcd_restore_start(client))
		return dfi__fail(-ENOMEM, "no memory for a client of etcd");
	return 0;
}

static int begin(void *arg)
{
	struct etcd_client *client = arg;
	int ret;

	etcd_enter(client);
	ret = begin_entered(client);
	etcd_exit(client);
	return ret;
}

static int fail_late(struct etcd_client *client)
{
	return dfi__fail(-ETIMEDOUT,
	    "registry %s: no answer in time: do its members run, and has it a "
	    "leader?",
	    client->at.address);
}

/* Wait until the loop has got the first lease. */
static int connect_client(struct etcd_client *client, int64_t deadline)
{
	struct waiter opener;
	int ret;

	dfi__waiter_init(&opener);
	client->restore.opener = &opener;
	ret = dfi__loop_call(client->base.loop, begin, client, deadline);
	if (!ret && !dfi__waiter_wait(client, &opener, deadline))
		ret = fail_late(client);
	etcd_enter(client);
	client->restore.opener = NULL;
	etcd_exit(client);
	pthread_cond_destroy(&opener.ended);
	if (!ret && opener.ret)
		ret = dfi__fail(opener.ret, "%s", opener.text);
	return ret;
}

int dfi__etcd_open(struct loop *loop, const char *address,
    const struct registry_security *security, uint32_t lease_ttl_ms,
    int64_t deadline, struct registry_client **out)
{
	static const struct registry_security none;
	struct etcd_client *client;
	int ret = check_ttl(lease_ttl_ms);

	if (ret)
		return ret;
	client = new_client(loop, lease_ttl_ms);
	if (!client)
		return dfi__fail(-ENOMEM, "no memory for a client of etcd");
	ret = dfi__etcd_endpoints_parse(address, &client->at);
	if (!ret)
		ret = read_security(client, security ? security : &none);
	if (!ret)
		ret = draw(client);
	if (ret) {
		free_client(client);
		return ret;
	}
	ret = connect_client(client, deadline);
	if (ret) {
		destroy(client, deadline_in_ms(GIVE_UP_MS));
		return ret;
	}
	*out = &client->base;
	return 0;
}
