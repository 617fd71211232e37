/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context's own parts: the registry's client, the transports and the
 * processes. flows/open_context.c opens it, with the parts of the floors above.
 */
#include "context.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <dfi/registry.h>
#include "base/attr.h"
#include "base/error.h"
#include "base/error_list.h"
#include "base/loop.h"
#include "base/maps.h"
#include "base/process.h"
#include "registry/client/client.h"
#include "transport/transport.h"
#include "network.h"
#include "processes.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "DFI supports little-endian machines only"
#endif

#define STRINGIFY(x) #x
#define VERSION_TEXT(major, minor, patch) \
	STRINGIFY(major) "." STRINGIFY(minor) "." STRINGIFY(patch)

const char *dfi_version(void)
{
	return VERSION_TEXT(
	    DFI_VERSION_MAJOR, DFI_VERSION_MINOR, DFI_VERSION_PATCH);
}

/* Whether a name is printable: texts, lists and JSON have it unescaped. */
static bool is_printable(const char *name)
{
	for (; *name; name++)
		if (*name < ' ' || *name > '~')
			return false;
	return true;
}

static int fill_node(struct node *node, const char *name)
{
	if (getrandom(&node->id, sizeof(node->id), 0) != sizeof(node->id))
		return dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	node->pid = (uint32_t)getpid();
	dfi__host_read(&node->at);
	node->pid_space = dfi__process_space();
	node->start = dfi__process_start(node->pid);
	if (gethostname(node->host, sizeof(node->host) - 1) < 0 ||
	    !node->host[0] || !is_printable(node->host))
		strcpy(node->host, "localhost");
	if (!name)
		name = node->host;
	if (!*name || strlen(name) >= sizeof(node->name) || !is_printable(name))
		return dfi__fail(-EINVAL,
		    "dfi_attr.node_name '%s' must have 1 to %zu characters of "
		    "printable ASCII",
		    name, sizeof(node->name) - 1);
	memmove(node->name, name, strlen(name) + 1);
	return 0;
}

int dfi__context_publish(struct dfi *dfi, int64_t deadline)
{
	char key[KEY_SIZE];
	size_t size;
	void *data;
	int ret;

	data = dfi__node_encode(&dfi->node, dfi__network_token(dfi->network),
	    dfi->transport->address, &size);
	if (!data)
		return dfi__fail(-ENOMEM, "dfi_open: out of memory");
	dfi__node_key(key, dfi->node.id);
	ret = dfi__client_create(
	    dfi->registry, key, data, size, CLIENT_LEASED, deadline, NULL);
	free(data);
	return ret;
}

/* The attributes replace the environment's security settings as a whole. */
static struct registry_security registry_security(
    const struct dfi_attr *attr, const struct settings *settings)
{
	struct registry_security security = {
		.key = attr->registry_key,
		.ca = attr->registry_ca,
		.cert = attr->registry_cert,
		.private_key = attr->registry_private_key,
	};

	if (!security.key && !security.ca && !security.cert &&
	    !security.private_key) {
		security.key = settings->registry_key;
		security.ca = settings->registry_ca;
		security.cert = settings->registry_cert;
		security.private_key = settings->registry_private_key;
	}
	security.etcd_user = settings->etcd_user;
	security.etcd_password = settings->etcd_password_file;
	security.insecure = settings->registry_insecure ||
	    (attr->registry_flags & DFI_REGISTRY_INSECURE);
	security.has_user = settings->registry_user != UINT32_MAX;
	security.user = settings->registry_user;
	return security;
}

static uint32_t lease_ms(
    const struct dfi_attr *attr, const struct settings *settings)
{
	if (attr->lease_ttl_ms == DFI_NO_LEASE)
		return 0;
	return attr->lease_ttl_ms ? attr->lease_ttl_ms : settings->lease_ms;
}

void dfi__context_free(struct dfi *dfi)
{
	if (dfi->network)
		dfi__network_free(dfi->network);
	dfi__client_close(dfi->registry);
	if (dfi->processes)
		dfi__processes_free(dfi->processes);
	if (dfi->transport)
		dfi->transport->ops->stop(dfi->transport);
	dfi__handle_free(dfi, sizeof(*dfi));
}

int dfi__context_join(
    struct dfi *dfi, const struct dfi_attr *attr, int64_t deadline)
{
	struct registry_security security = registry_security(
	    attr, &dfi->settings);
	int ret;

	ret = dfi__client_open(dfi->loop, attr->registry, &security,
	    lease_ms(attr, &dfi->settings), deadline, &dfi->registry);
	if (ret < 0)
		return ret;
	dfi__client_set_grace(dfi->registry, dfi->settings.registry_grace_ms);
	ret = dfi__transports[0].ops->start(
	    dfi->loop, &dfi->settings, NULL, &dfi->transport);
	if (!ret)
		ret = dfi__processes_new(dfi, &dfi->processes);
	if (!ret)
		ret = dfi__network_new(dfi, attr->registry, &dfi->network);
	return ret;
}

static int check_attr(const struct dfi_attr *attr)
{
	if (attr->reserved || attr->reserved2)
		return dfi__fail(-E2BIG,
		    "dfi_attr.%s is not 0: set it to 0, or use a newer library "
		    "that knows the member",
		    attr->reserved ? "reserved" : "reserved2");
	if (attr->registry_flags & ~(uint32_t)DFI_REGISTRY_INSECURE)
		return dfi__fail(-EINVAL,
		    "dfi_attr.registry_flags: unknown flags 0x%x",
		    attr->registry_flags);
	return 0;
}

/* Complete the attributes and the settings by each other. */
static int prepare(struct dfi *dfi, struct dfi_attr *attr)
{
	int ret = dfi__settings_load(&dfi->settings);

	if (ret < 0)
		return ret;
	if (!attr->registry)
		attr->registry = dfi->settings.registry;
	if (!attr->registry)
		return dfi__fail(-EINVAL,
		    "no registry is named: set DFI_REGISTRY, or the program "
		    "dfi_attr.registry, to the address of a dfi-registry, "
		    "such as unix:/run/dfi.sock, or to local: within one "
		    "process");
	if (attr->open_timeout_ms)
		dfi->settings.open_timeout_ms = attr->open_timeout_ms;
	return fill_node(&dfi->node, attr->node_name);
}

int dfi__context_new(
    const struct dfi_attr *user, struct dfi_attr *attr, struct dfi **out)
{
	int ret = dfi__attr_load(attr, sizeof(*attr), user, "dfi_attr");
	struct dfi *dfi;

	if (!ret)
		ret = check_attr(attr);
	if (ret < 0)
		return ret;
	dfi = dfi__handle_alloc(sizeof(*dfi));
	if (!dfi)
		return dfi__fail_map(sizeof(*dfi), "dfi_open");
	ret = prepare(dfi, attr);
	if (ret < 0) {
		dfi__handle_free(dfi, sizeof(*dfi));
		return ret;
	}
	*out = dfi;
	return 0;
}

/* The value of n_users after which no user enters. */
#define CLOSING UINT32_MAX

static int fail_closing(void)
{
	return dfi__fail(-EBUSY, "the context is being closed");
}

/*
 * Another thread may close the context between the reads of magic and n_users.
 * The closing thread waits for those that hold the context here.
 */
static int hold(struct dfi *dfi)
{
	uint32_t magic;

	if (dfi && dfi__handle_hold(dfi, CONTEXT_MAGIC))
		return 0;
	magic = dfi ? __atomic_load_n(&dfi->magic, __ATOMIC_RELAXED) : 0;
	return dfi__handle_check_slow(dfi, magic, CONTEXT_MAGIC);
}

int dfi__context_enter(struct dfi *dfi)
{
	int ret = hold(dfi);
	uint32_t n;

	if (ret < 0)
		return ret;
	n = atomic_load(&dfi->n_users);
	do {
		if (n == CLOSING)
			ret = fail_closing();
	} while (
	    !ret && !atomic_compare_exchange_weak(&dfi->n_users, &n, n + 1));
	dfi__handle_release(dfi);
	return ret;
}

void dfi__context_leave(struct dfi *dfi)
{
	atomic_fetch_sub(&dfi->n_users, 1);
}

static int fail_used(uint32_t n)
{
	if (n == CLOSING)
		return fail_closing();
	return dfi__fail(-EBUSY,
	    "dfi_close: %u sources, targets, barriers and calls use the "
	    "context: close or await them first",
	    n);
}

int dfi__context_retire(struct dfi *dfi)
{
	uint32_t n = 0;
	int64_t deadline;
	bool closes;
	int ret = hold(dfi);

	if (ret < 0)
		return ret;
	closes = atomic_compare_exchange_strong(&dfi->n_users, &n, CLOSING);
	dfi__handle_release(dfi);
	if (!closes)
		return fail_used(n);
	deadline = context_deadline(dfi, 0);
	ret = dfi__loop_check(dfi->loop, deadline);
	if (ret < 0) {
		atomic_store(&dfi->n_users, 0);
		return ret;
	}
	dfi__network_leave(dfi->network, deadline);
	dfi__client_revoke(dfi->registry);
	dfi__handle_retire(dfi);
	return 0;
}

int dfi_context_query(struct dfi *dfi,
    int (*fn)(void *arg, const struct dfi_transport_stats *stats), void *arg)
{
	CONTEXT_USE(dfi, ret);

	if (!ret && !fn)
		ret = dfi__fail(-EINVAL, "dfi_context_query: fn is NULL");
	return ret < 0 ? ret : dfi__network_query(dfi->network, fn, arg);
}

int dfi_transport_counter(
    const struct dfi_transport_stats *stats, const char *name, uint64_t *value)
{
	uint32_t i;

	if (!stats || !name || !value)
		return dfi__fail(-EINVAL, "dfi_transport_counter: %s is NULL",
		    !stats      ? "stats"
			: !name ? "name"
				: "value");
	for (i = 0; i < stats->n_counters; i++)
		if (strcmp(stats->counters[i].name, name) == 0) {
			*value = stats->counters[i].value;
			return 0;
		}
	return dfi__fail(-ENOENT, "transport %s has no counter '%s'",
	    stats->transport, name);
}

int dfi__context_wait(const struct dfi *dfi, uint32_t wait, const char *what,
    struct wait_policy *policy)
{
	if (wait > DFI_WAIT_BLOCK)
		return dfi__fail(
		    -EINVAL, "%s.wait %u is no enum dfi_wait", what, wait);
	*policy = dfi__wait_policy(
	    wait == DFI_WAIT_DEFAULT ? dfi->settings.wait : wait);
	return 0;
}
