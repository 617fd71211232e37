/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a context: the control thread, the registry connection
 * and the transport, in this order.
 */
#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "../base/attr.h"
#include "../base/error.h"
#include "../base/loop.h"
#include "../registry/client.h"
#include "../transport/transport.h"

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

static int fill_node(struct node *node, const char *name)
{
	if (getrandom(&node->id, sizeof(node->id), 0) != sizeof(node->id))
		return dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	node->pid = (uint32_t)getpid();
	if (gethostname(node->host, sizeof(node->host) - 1) < 0)
		strcpy(node->host, "localhost");
	if (!name)
		name = node->host;
	if (!*name || strlen(name) >= sizeof(node->name))
		return dfi__fail(-EINVAL,
		    "dfi_attr.node_name must have 1 to %zu characters",
		    sizeof(node->name) - 1);
	memmove(node->name, name, strlen(name) + 1);
	return 0;
}

static int publish_node(struct dfi *dfi, int64_t deadline)
{
	char key[KEY_SIZE];
	size_t size;
	void *data;
	int ret;

	data = dfi__node_encode(&dfi->node, &size);
	if (!data)
		return dfi__fail(-ENOMEM, "dfi_open: out of memory");
	dfi__node_key(key, dfi->node.id);
	ret = dfi__client_create(
	    dfi->registry, key, data, size, CLIENT_LEASED, deadline, NULL);
	free(data);
	return ret;
}

static int join(struct dfi *dfi, const char *registry, uint32_t lease_ttl_ms)
{
	int64_t deadline = deadline_in_ms(dfi->open_timeout_ms);
	int ret;

	ret = dfi__loop_start("dfi-control", &dfi->loop);
	if (ret < 0)
		return ret;
	ret = dfi__client_open(
	    dfi->loop, registry, lease_ttl_ms, deadline, &dfi->registry);
	if (ret < 0)
		goto stop_loop;
	ret = dfi__shm_ops.start(dfi->loop, &dfi->settings, &dfi->transport);
	if (ret < 0)
		goto close_client;
	ret = publish_node(dfi, deadline);
	if (ret < 0)
		goto stop_transport;
	return 0;

stop_transport:
	dfi->transport->ops->stop(dfi->transport);
close_client:
	dfi__client_close(dfi->registry);
stop_loop:
	dfi__loop_stop(dfi->loop);
	return ret;
}

int dfi_open(const struct dfi_attr *user, struct dfi **out)
{
	struct dfi_attr attr;
	const char *registry;
	struct dfi *dfi;
	int ret;

	if (!out)
		return dfi__fail(-EINVAL, "dfi_open: dfi is NULL");
	ret = dfi__attr_load(&attr, sizeof(attr), user, "dfi_attr");
	if (!ret && attr.reserved)
		ret = dfi__fail(-EINVAL, "dfi_attr.reserved is not 0");
	if (ret < 0)
		return ret;
	dfi = dfi__handle_alloc(sizeof(*dfi));
	if (!dfi)
		return dfi__fail(-ENOMEM, "dfi_open: out of memory");
	ret = dfi__settings_load(&dfi->settings);
	if (ret < 0)
		goto free_dfi;
	registry = attr.registry ? attr.registry : dfi->settings.registry;
	if (!registry) {
		ret = dfi__fail(-EINVAL,
		    "no registry is named: set dfi_attr.registry or "
		    "DFI_REGISTRY to the address of a dfi-registry, such as "
		    "unix:/run/dfi.sock");
		goto free_dfi;
	}
	ret = fill_node(&dfi->node, attr.node_name);
	if (ret < 0)
		goto free_dfi;
	dfi->open_timeout_ms = attr.open_timeout_ms
	    ? attr.open_timeout_ms
	    : dfi->settings.open_timeout_ms;
	ret = join(dfi, registry, attr.lease_ttl_ms);
	if (ret < 0)
		goto free_dfi;
	dfi->magic = CONTEXT_MAGIC;
	*out = dfi;
	return 0;

free_dfi:
	dfi__handle_free(dfi, sizeof(*dfi));
	return ret;
}

int dfi_close(struct dfi *dfi)
{
	uint32_t n;
	int ret = context_check(dfi);

	if (ret < 0)
		return ret;
	n = atomic_load(&dfi->n_endpoints);
	if (n)
		return dfi__fail(-EBUSY,
		    "dfi_close: %u sources and targets are open: close them "
		    "first",
		    n);
	dfi__client_close(dfi->registry);
	dfi->transport->ops->stop(dfi->transport);
	dfi__loop_stop(dfi->loop);
	dfi__handle_free(dfi, sizeof(*dfi));
	return 0;
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
