/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Membership: each context publishes a random token with its node's entry. It
 * proves to a peer that it knows this token when it connects to or accepts the
 * peer. The peer looks the token up in its node table (node_table.h). So only
 * processes that may read the registry can make a queue pair.
 */
#include "network_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/clock.h"
#include "base/error.h"
#include "registry/client/client.h"
#include "context.h"

static bool is_local(const char *registry)
{
	static const char *const local[] = { "local:", "unix:", "tcp:127.",
		"tcp:[::1]", "etcd:http://", "etcd:https://127.",
		"etcd:https://[::1]", "etcd:https://localhost:" };
	size_t i;

	for (i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if (strncmp(registry, local[i], strlen(local[i])) == 0)
			return true;
	return false;
}

/*
 * The registry as "tcp:ADDRESS:PORT", whose route tells which of this host's
 * addresses others reach: of an etcd, its first endpoint. Or any other text.
 */
static char *route_to(const char *registry)
{
	static const char etcd[] = "etcd:http";
	const char *host = strstr(registry, "://");
	char *route;

	if (strncmp(registry, etcd, strlen(etcd)) != 0 || !host)
		return strdup(registry);
	host += strlen("://");
	return asprintf(&route, "tcp:%.*s", (int)strcspn(host, ",/"), host) < 0
	    ? NULL
	    : route;
}

int dfi__network_new(
    struct dfi *dfi, const char *registry, struct network **out)
{
	struct network *network = calloc(1, sizeof(*network));

	if (!network)
		return dfi__fail(-ENOMEM, "dfi_open: out of memory");
	if (getrandom(network->token, sizeof(network->token), 0) !=
	    sizeof(network->token)) {
		free(network);
		return dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	}
	network->dfi = dfi;
	network->registry_is_local = is_local(registry);
	network->registry = route_to(registry);
	if (!network->registry) {
		free(network);
		return dfi__fail(-ENOMEM, "dfi_open: out of memory");
	}
	pthread_mutex_init(&network->start, NULL);
	pthread_mutex_init(&network->lock, NULL);
	*out = network;
	return 0;
}

void dfi__network_leave(struct network *network, int64_t deadline)
{
	struct transport *transport;
	unsigned i;

	for (i = network->n_started; i > 0; i--) {
		transport = network->started[i - 1].transport;
		if (transport->ops->leave)
			transport->ops->leave(transport, deadline);
	}
}

void dfi__network_stop_last(struct network *network)
{
	struct transport *last =
	    network->started[--network->n_started].transport;

	last->ops->stop(last);
}

void dfi__network_free(struct network *network)
{
	/* Once the transports have stopped, no peer connects any more. */
	while (network->n_started)
		dfi__network_stop_last(network);
	dfi__client_unwatch(network->watch);
	dfi__node_table_free(&network->nodes);
	pthread_mutex_destroy(&network->lock);
	pthread_mutex_destroy(&network->start);
	free(network->registry);
	free(network);
}

const uint8_t *dfi__network_token(const struct network *network)
{
	return network->token;
}

enum dfi_transport dfi__network_choice(
    const struct dfi *dfi, const struct flow *flow)
{
	return flow->transport ? flow->transport : dfi->settings.transport;
}

bool dfi__network_may_be_needed(const struct dfi *dfi, const struct flow *flow)
{
	enum dfi_transport choice = dfi__network_choice(dfi, flow);

	return transport_is_network(choice) ||
	    (!transport_is_memory(choice) && !dfi->network->registry_is_local);
}

static void on_event(void *arg, const struct registry_event *event)
{
	struct network *network = arg;

	pthread_mutex_lock(&network->lock);
	if (event->type == REGISTRY_PUT)
		dfi__node_table_put(
		    &network->nodes, event->key, event->data, event->size);
	else if (event->type == REGISTRY_DELETE)
		dfi__node_table_delete(&network->nodes, event->key);
	pthread_mutex_unlock(&network->lock);
}

static bool find_token(
    void *arg, uint64_t node, uint8_t token[MEMBER_TOKEN_SIZE])
{
	struct network *network = arg;
	bool known;

	pthread_mutex_lock(&network->lock);
	known = dfi__node_table_token(&network->nodes, node, token);
	pthread_mutex_unlock(&network->lock);
	return known;
}

int dfi__network_start(struct network *network, const struct transport_row *row,
    const char *route_to, uint32_t device, struct transport **transport)
{
	struct dfi *dfi = network->dfi;
	struct member self = {
		.route_to = route_to,
		.device = device == NETWORK_ROUTE ? 0 : device,
		.node = dfi->node.id,
		.find = find_token,
		.arg = network,
	};
	const struct transport_ops *ops;
	int ret = transport_table(row, &ops);

	if (!ret && network->n_started == NETWORK_DEVICES)
		ret = dfi__fail(-EMFILE,
		    "%s: this process uses as many devices as it may, %u",
		    row->name, NETWORK_DEVICES);
	if (!ret && !network->watch)
		ret = dfi__client_watch(dfi->registry, "nodes/", on_event,
		    network, deadline_in_ms(dfi->settings.open_timeout_ms),
		    &network->watch);
	if (ret < 0)
		return ret;
	memcpy(self.token, network->token, sizeof(self.token));
	ret = ops->start(dfi->loop, &dfi->settings, &self, transport);
	if (!ret)
		network->started[network->n_started++] =
		    (struct network_instance){ *transport, device };
	return ret;
}

const char *dfi__network_name(void)
{
	return dfi__transports[1].name ? dfi__transports[1].name : "a network";
}

void dfi__network_why_none(
    enum dfi_transport choice, char *why, size_t why_size)
{
	if (transport_is_memory(choice))
		snprintf(why, why_size,
		    "its transport is %s: set DFI_TRANSPORT=auto there",
		    dfi__transports[0].name);
	else
		snprintf(
		    why, why_size, "its registry serves its own host only");
}

int dfi__network_serves(
    const struct transport *transport, const struct flow *flow)
{
	if (transport->ops->footer_sides & FOOTER_SIDE(flow->footer_side))
		return 0;
	return dfi__fail(-EPROTO,
	    "transport %s can't write segments with footers %s their payload, "
	    "as the flow has them: create it with a library that puts them %s",
	    transport->ops->name,
	    flow->footer_side == FOOTER_BEHIND ? "behind" : "in front of",
	    flow->footer_side == FOOTER_BEHIND ? "in front" : "behind");
}

/* The start lock is held. */
static unsigned list(const struct network *network,
    struct transport *transports[NETWORK_DEVICES])
{
	unsigned i;

	for (i = 0; i < network->n_started; i++)
		transports[i] = network->started[i].transport;
	return i;
}

/* False: this transport counts nothing. */
static bool query(
    struct transport *transport, struct dfi_transport_stats *stats)
{
	if (!transport->ops->query)
		return false;
	*stats = (struct dfi_transport_stats){ .is_known = 1 };
	snprintf(stats->transport, sizeof(stats->transport), "%s",
	    transport->ops->name);
	transport->ops->query(transport, stats);
	return true;
}

int dfi__network_query(struct network *network,
    int (*fn)(void *arg, const struct dfi_transport_stats *stats), void *arg)
{
	struct transport *transports[NETWORK_DEVICES];
	struct dfi_transport_stats stats;
	unsigned n, i;
	int ret = 0;

	pthread_mutex_lock(&network->start);
	n = list(network, transports);
	pthread_mutex_unlock(&network->start);
	for (i = 0; !ret && i < n; i++)
		if (query(transports[i], &stats))
			ret = fn(arg, &stats);
	return ret;
}

uint32_t dfi__network_query_now(
    struct network *network, struct dfi_transport_stats stats[NETWORK_DEVICES])
{
	struct transport *transports[NETWORK_DEVICES];
	uint32_t n, i, n_stats = 0;

	if (pthread_mutex_trylock(&network->start) != 0)
		return 0;
	n = list(network, transports);
	pthread_mutex_unlock(&network->start);
	for (i = 0; i < n; i++)
		n_stats += query(transports[i], &stats[n_stats]);
	return n_stats;
}
