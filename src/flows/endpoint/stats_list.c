/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries the counters of all contexts of a registry. The registry says where
 * they listen. A context queries itself directly.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "registry/client/client.h"
#include "transport/transport.h"
#include "flows/context/context.h"
#include "flows/descriptor/descriptor.h"
#include "stats.h"

/* The time that one context has for its answers. */
#define ANSWER_NS (INT64_C(2) * NS_PER_S)

/* The most endpoints listed of one context. */
#define MAX_ENDPOINTS (1u << 16)

/* The query of one context. */
struct collection {
	struct dfi *dfi;
	struct node node;
	char address[TRANSPORT_ADDRESS_SIZE];
	struct dfi_endpoint_stats *endpoints;
	uint32_t n_endpoints;
	struct dfi_error_info errors[DFI_MAX_ERRORS];
	uint32_t n_errors;
	struct dfi_transport_stats transports[NETWORK_DEVICES];
	uint32_t n_transports;
	char error[512];
	struct stats_page page;
};

static enum host_distance distance(const struct collection *collection)
{
	return dfi__host_distance(
	    &collection->node.at, &collection->dfi->node.at);
}

static int fetch_page(
    struct collection *collection, uint64_t after, int64_t deadline)
{
	struct stats_page *page = &collection->page;
	size_t size;
	void *data;
	int ret;

	if (collection->node.id == collection->dfi->node.id) {
		dfi__stats_read(collection->dfi, after, page);
		return 0;
	}
	ret = collection->dfi->transport->ops->report->fetch(
	    collection->address, after, deadline, &data, &size);
	if (ret < 0)
		return dfi__host_explain(ret, distance(collection));
	ret = dfi__stats_decode(data, size, after, page);
	free(data);
	if (!ret && page->node != collection->node.id)
		ret = dfi__fail(
		    -EBADMSG, "another context answers at its address");
	return ret;
}

static int add_page(struct collection *collection)
{
	const struct stats_page *page = &collection->page;
	uint32_t n = collection->n_endpoints + page->n_endpoints;
	struct dfi_endpoint_stats *endpoints;

	if (n > MAX_ENDPOINTS)
		return dfi__fail(-EBADMSG,
		    "it has more than %u sources and targets", MAX_ENDPOINTS);
	if (!page->n_endpoints)
		return 0;
	endpoints = reallocarray(
	    collection->endpoints, n, sizeof(endpoints[0]));
	if (!endpoints)
		return dfi__fail(-ENOMEM, "dfi_stats_list: out of memory");
	memcpy(endpoints + collection->n_endpoints, page->endpoints,
	    page->n_endpoints * sizeof(endpoints[0]));
	collection->endpoints = endpoints;
	collection->n_endpoints = n;
	return 0;
}

static int collect(struct collection *collection)
{
	int64_t deadline = clock_now_ns() + ANSWER_NS;
	struct stats_page *page = &collection->page;
	uint64_t after = 0;
	int ret;

	do {
		ret = fetch_page(collection, after, deadline);
		if (ret < 0)
			return ret;
		if (!after) {
			memcpy(collection->errors, page->errors,
			    sizeof(page->errors));
			collection->n_errors = page->n_errors;
			memcpy(collection->transports, page->transports,
			    sizeof(page->transports));
			collection->n_transports = page->n_transports;
		}
		ret = add_page(collection);
		if (ret < 0)
			return ret;
		if (page->n_endpoints)
			after = page->ids[page->n_endpoints - 1];
	} while (page->more);
	return 0;
}

/* Whether the context can be queried: 0, or an error with the reason. */
static int check_reach(const struct collection *collection)
{
	if (distance(collection) == HOST_OTHER)
		return dfi__fail(-EHOSTUNREACH, "not on this host");
	if (distance(collection) == HOST_OTHER_NETWORK)
		return dfi__fail(-EHOSTUNREACH, "%s",
		    dfi__host_why_apart(HOST_OTHER_NETWORK));
	if (!collection->address[0])
		return dfi__fail(-EPROTO,
		    "it uses a version of the library without counters");
	return 0;
}

/* Query a context and pass each endpoint to fn. Returns fn's result. */
static int list_node(struct collection *collection,
    const struct node_entries *entries,
    int (*fn)(void *arg, const struct dfi_node_stats *stats), void *arg)
{
	struct dfi_node_stats stats = { .error = NULL };
	int ret;

	collection->n_endpoints = collection->n_errors = 0;
	ret = check_reach(collection);
	if (!ret)
		ret = collect(collection);
	if (ret == -ENOMEM)
		return ret;
	dfi__node_info(
	    collection->dfi->node.id, &collection->node, entries, &stats.node);
	if (ret < 0) {
		snprintf(collection->error, sizeof(collection->error), "%s",
		    dfi_errmsg());
		stats.error = collection->error;
	} else {
		stats.endpoints = collection->endpoints;
		stats.n_endpoints = collection->n_endpoints;
		stats.errors = collection->errors;
		stats.n_errors = collection->n_errors;
		stats.transports = collection->transports;
		stats.n_transports = collection->n_transports;
	}
	return fn(arg, &stats);
}

static int list_nodes(struct dfi *dfi, const struct node_entries *entries,
    int (*fn)(void *arg, const struct dfi_node_stats *stats), void *arg)
{
	struct collection *collection = calloc(1, sizeof(*collection));
	const struct registry_value *node;
	size_t i;
	int ret = 0;

	if (!collection)
		return dfi__fail(-ENOMEM, "dfi_stats_list: out of memory");
	collection->dfi = dfi;
	for (i = 0; !ret && i < entries->n_nodes; i++) {
		node = &entries->nodes[i];
		if (dfi__node_decode(
			node->data, node->size, &collection->node, NULL) == 0 &&
		    dfi__node_is_at(&collection->node, node->key) &&
		    dfi__node_decode_address(
			node->data, node->size, collection->address) == 0)
			ret = list_node(collection, entries, fn, arg);
	}
	free(collection->endpoints);
	free(collection);
	return ret;
}

int dfi_stats_list(struct dfi *dfi,
    int (*fn)(void *arg, const struct dfi_node_stats *stats), void *arg)
{
	struct node_entries entries;
	CONTEXT_USE(dfi, ret);

	if (!ret && !fn)
		ret = dfi__fail(-EINVAL, "dfi_stats_list: fn is NULL");
	if (ret < 0)
		return ret;
	ret = dfi__node_entries(dfi, &entries);
	if (ret < 0)
		return ret;
	ret = list_nodes(dfi, &entries, fn, arg);
	dfi__node_entries_free(&entries);
	return ret;
}
