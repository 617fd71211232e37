/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which transports, and which devices, a context uses: those that serve its own
 * regions, and those by which it reaches the regions of others. They start when
 * an endpoint first needs them.
 */
#include "network_impl.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "flows/descriptor/descriptor.h"
#include "context.h"

/*
 * Texts of errors, one after the other, and the code of the first. wanted: one
 * is of a device that is there, or that the settings name.
 */
struct refusals {
	int err;
	bool wanted;
	char text[ERROR_TEXT_SIZE];
};

/* Add the error that was just set. */
static void refuse(struct refusals *refusals, int err)
{
	size_t used = strlen(refusals->text);

	if (!refusals->err)
		refusals->err = err;
	snprintf(refusals->text + used, sizeof(refusals->text) - used, "%s%s",
	    used ? "; " : "", dfi_errmsg());
}

static int refused(const struct refusals *refusals)
{
	return dfi__fail(refusals->err, "%s", refusals->text);
}

static bool row_is_allowed(
    const struct transport_row *row, enum dfi_transport choice)
{
	return choice == DFI_TRANSPORT_AUTO || row->choice == choice;
}

/* How many devices serve this process: 0, and *n, or the row's error. */
static int count_devices(
    struct network *network, const struct transport_row *row, uint32_t *n)
{
	const struct transport_ops *ops;
	int ret = transport_table(row, &ops);

	if (!ret)
		*n = ops->n_devices ? ops->n_devices(&network->dfi->settings)
				    : 1;
	return ret;
}

static bool is_of_row(
    const struct network_instance *instance, const struct transport_row *row)
{
	return strcmp(instance->transport->ops->name, row->name) == 0;
}

/* Start an instance that serves this process, unless it has started. */
static int start_device(struct network *network,
    const struct transport_row *row, uint32_t device,
    struct transport **transport)
{
	const struct network_instance *instance = network->started;
	unsigned i;

	for (i = 0; i < network->n_started; i++, instance++) {
		if (!is_of_row(instance, row) || instance->device != device)
			continue;
		*transport = instance->transport;
		return 0;
	}
	return dfi__network_start(
	    network, row, network->registry, device, transport);
}

/* All devices of a row, as long as the list is shorter than most. */
static void serve_row(struct network *network, const struct transport_row *row,
    unsigned most, struct network_list *list, struct refusals *refusals)
{
	uint32_t n = 0, i;
	int ret = count_devices(network, row, &n);

	if (ret < 0)
		refuse(refusals, ret);
	for (i = 0; i < n && list->n < most; i++) {
		ret = start_device(network, row, i, &list->at[list->n]);
		if (!ret) {
			list->n++;
			continue;
		}
		refuse(refusals, ret);
		refusals->wanted |= n > 1 || ret != -ENODEV;
	}
}

static int serve(struct dfi *dfi, enum dfi_transport choice, unsigned most,
    struct network_list *list)
{
	const struct transport_row *row = dfi__transports + 1;
	struct network *network = dfi->network;
	struct refusals refusals = { .err = 0 };

	list->n = 0;
	pthread_mutex_lock(&network->start);
	for (; row->name && list->n < most; row++)
		if (row_is_allowed(row, choice))
			serve_row(network, row, most, list, &refusals);
	pthread_mutex_unlock(&network->start);
	snprintf(list->why, sizeof(list->why), "%.*s",
	    (int)sizeof(list->why) - 1, refusals.text);
	if (list->n && refusals.wanted)
		dfi__log(DFI_LOG_WARN, "not each device can be used: %s",
		    refusals.text);
	if (list->n)
		return 0;
	return refusals.err
	    ? refused(&refusals)
	    : dfi__fail(-ENODEV,
		  "this library has no network transport that its "
		  "settings and the flow allow");
}

int dfi__network_open_all(
    struct dfi *dfi, enum dfi_transport choice, struct network_list *list)
{
	return serve(dfi, choice, NETWORK_SERVES, list);
}

void dfi__network_prepare(
    struct dfi *dfi, const struct flow *flow, bool is_target)
{
	enum dfi_transport choice = dfi__network_choice(dfi, flow);
	struct network_list list;

	if (dfi__network_may_be_needed(dfi, flow) && !flow_is_multicast(flow) &&
	    (is_target || choice != DFI_TRANSPORT_AUTO))
		(void)dfi__network_open_all(dfi, choice, &list);
}

int dfi__network_open(
    struct dfi *dfi, enum dfi_transport choice, struct transport **transport)
{
	struct network_list list;
	int ret = serve(dfi, choice, 1, &list);

	if (!ret)
		*transport = list.at[0];
	return ret;
}

int dfi__network_open_multicast(struct dfi *dfi, struct transport **transport)
{
	int ret = dfi__network_open(dfi, DFI_TRANSPORT_VERBS, transport);

	if (!ret && !(*transport)->ops->mcast)
		ret = dfi__fail(-EOPNOTSUPP,
		    "transport %s has no multicast: leave replicate.method 0",
		    (*transport)->ops->name);
	return ret;
}

uint32_t dfi__network_count(struct dfi *dfi, enum dfi_transport choice)
{
	const struct transport_row *row = dfi__transports + 1;
	uint32_t n, sum = 0;

	for (; row->name; row++)
		if (row_is_allowed(row, choice) &&
		    count_devices(dfi->network, row, &n) == 0)
			sum += n;
	return (uint32_t)min_u64(sum ? sum : 1, NETWORK_SERVES);
}

/* ---- To others --------------------------------------------------------- */

/*
 * The instances that reach an address, of those that serve this process, or
 * else the first other one. Returns their number.
 */
static unsigned list_common(struct network *network,
    const struct region_address *address,
    struct transport *common[NETWORK_DEVICES])
{
	const struct network_instance *instance = network->started;
	struct transport *other = NULL, *transport;
	unsigned n = 0, i;

	for (i = 0; i < network->n_started; i++, instance++) {
		transport = instance->transport;
		if (!is_of_row(instance, address->transport) ||
		    !transport->ops->reaches(transport, address->name.address))
			continue;
		if (instance->device != NETWORK_ROUTE)
			common[n++] = transport;
		else if (!other)
			other = transport;
	}
	if (!n && other)
		common[n++] = other;
	return n;
}

/* Start a transport for the device on the route to an address; NULL: none is.
 */
static int start_on_route(struct network *network,
    const struct region_address *address, struct transport **transport)
{
	char route_to[TRANSPORT_ADDRESS_SIZE + 4];
	struct transport *other;
	int ret;

	snprintf(route_to, sizeof(route_to), "tcp:%s", address->name.address);
	ret = dfi__network_start(
	    network, address->transport, route_to, NETWORK_ROUTE, &other);
	if (ret < 0)
		return ret;
	*transport = other;
	if (!other->ops->reaches(other, address->name.address)) {
		dfi__network_stop_last(network);
		*transport = NULL;
	}
	return 0;
}

/*
 * Choose an instance of the address's transport: one whose device reaches it,
 * in turn by ring; else the first one, whose error says why it doesn't. Returns
 * 1 if it reaches the address, or 0.
 */
static int reach(struct network *network, const struct region_address *address,
    uint32_t ring, struct transport **transport)
{
	struct transport *common[NETWORK_DEVICES], *first = NULL, *device;
	struct refusals refusals = { .err = 0 };
	uint32_t n_devices, i;
	unsigned n;
	int ret = count_devices(network, address->transport, &n_devices);

	if (ret < 0)
		return ret;
	for (i = 0; i < n_devices; i++) {
		ret = start_device(network, address->transport, i, &device);
		if (ret < 0)
			refuse(&refusals, ret);
		else if (!first)
			first = device;
	}
	if (!first)
		return refused(&refusals);
	/* The devices that have started are enough. */
	ret = 0;
	n = list_common(network, address, common);
	*transport = n ? common[ring % n] : NULL;
	/* Settings that name several devices name all. */
	if (!n && n_devices == 1)
		ret = start_on_route(network, address, transport);
	if (ret < 0 || *transport)
		return ret < 0 ? ret : 1;
	*transport = first;
	return 0;
}

/* The ways to the addresses of one row: those that are common, and others. */
static void add_row(struct network *network, const struct transport_row *row,
    const struct published_region *published, uint32_t ring,
    struct network_ways *common, struct network_ways *others,
    struct refusals *refusals)
{
	struct network_way here[REGION_MAX_ADDRESSES], way;
	uint32_t n = 0, i;
	int ret;

	for (i = 0; i < published->n_addresses; i++) {
		way.address = region_address_at(published, i);
		if (way.address->transport != row)
			continue;
		ret = reach(network, way.address, ring, &way.transport);
		if (ret < 0)
			refuse(refusals, ret);
		else if (ret)
			here[n++] = way;
		else
			others->at[others->n++] = way;
	}
	for (i = 0; i < n; i++)
		common->at[common->n++] = here[(ring + i) % n];
}

/* Whether a later row that the choice allows has an address. */
static bool has_more(const struct published_region *published,
    enum dfi_transport choice, const struct transport_row *last)
{
	const struct transport_row *row;
	uint32_t i;

	for (i = 0; i < published->n_addresses; i++) {
		row = region_address_at(published, i)->transport;
		if (row > last && row_is_allowed(row, choice))
			return true;
	}
	return false;
}

int dfi__network_ways(struct dfi *dfi, enum dfi_transport choice,
    const struct published_region *published, uint32_t ring,
    const struct transport_row *after, struct network_ways *ways)
{
	const struct transport_row *row = after ? after : dfi__transports;
	struct network_ways others = { .n = 0 };
	struct refusals refusals = { .err = 0 };
	struct network *network = dfi->network;

	ways->n = 0;
	pthread_mutex_lock(&network->start);
	for (row++; row->name && !ways->n; row++) {
		ways->last = row;
		if (row_is_allowed(row, choice))
			add_row(network, row, published, ring, ways, &others,
			    &refusals);
	}
	pthread_mutex_unlock(&network->start);
	ways->more = ways->n && has_more(published, choice, ways->last);
	if (!ways->n) {
		memcpy(ways->at, others.at, sizeof(ways->at));
		ways->n = others.n;
	}
	strcpy(ways->why, refusals.text);
	if (ways->n)
		return 0;
	if (refusals.err)
		return refused(&refusals);
	return dfi__fail(-EHOSTUNREACH,
	    "it is reached over %s only, which the transport that is set here "
	    "excludes: set DFI_TRANSPORT=auto",
	    dfi__region_network(published)->transport->name);
}
