/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device, and which address of this host, the transport uses. rdma_cm
 * binds only to addresses that belong to an RDMA device.
 */
#include "device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/files.h"
#include "base/settings.h"
#include "fail.h"

/* Why none of the addresses so far can be used. */
struct reasons {
	char text[512];
	size_t used;
};

static void add_reason(
    struct reasons *reasons, const struct verbs_device *device, const char *why)
{
	bool known = device->name[0];
	int n = snprintf(reasons->text + reasons->used,
	    sizeof(reasons->text) - reasons->used, "%s%s%s%s: %s",
	    reasons->used ? "; " : "", device->address_text,
	    known ? " on " : "", known ? dfi__verbs_gid(device).text : "", why);

	if (n > 0)
		reasons->used += (size_t)n;
	if (reasons->used >= sizeof(reasons->text))
		reasons->used = sizeof(reasons->text) - 1;
}

const char *dfi__verbs_limits(
    const struct ibv_device_attr *attr, struct verbs_limits *limits)
{
	int sends = attr->max_qp_wr < attr->max_cqe ? attr->max_qp_wr
						    : attr->max_cqe;
	/* A completion queue that overflows is lost. */
	int receives = attr->max_srq_wr < attr->max_cqe ? attr->max_srq_wr
							: attr->max_cqe - 1;

	if (attr->max_srq < 1 || attr->max_srq_sge < 1)
		return "it has no shared receive queues (max_srq, max_srq_sge)";
	if (attr->max_sge < VERBS_PARTS)
		return "its work requests take one part of memory (max_sge)";
	if (sends < VERBS_LEAST)
		return "its queue pairs or completion queues hold fewer than "
		       "64 work requests (max_qp_wr, max_cqe)";
	if (receives < VERBS_LEAST)
		return "its shared receive queues or completion queues hold "
		       "fewer than 64 work requests (max_srq_wr, max_cqe)";
	limits->sends = sends < VERBS_SENDS ? (uint32_t)sends : VERBS_SENDS;
	limits->receives = receives < VERBS_MAX_RECEIVES ? (uint32_t)receives
							 : VERBS_MAX_RECEIVES;
	limits->reads = attr->max_qp_rd_atom > 0 &&
	    attr->max_qp_init_rd_atom > 0;
	limits->atomics = limits->reads && attr->atomic_cap != IBV_ATOMIC_NONE;
	return NULL;
}

/*
 * The GID of traffic from an address: over Ethernet the one of RoCE v2 for that
 * address, otherwise the first one of the port.
 */
static void find_gid(
    const struct ibv_port_attr *port, struct verbs_device *device)
{
	bool ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;
	struct in6_addr wanted = dfi__ip_as_v6(&device->address);
	struct ibv_gid_entry entry;
	int32_t i;

	device->gid_index = -1;
	for (i = 0; i < port->gid_tbl_len; i++) {
		if (ibv_query_gid_ex(
			device->context, device->port, (uint32_t)i, &entry, 0))
			continue;
		if (ethernet &&
		    (entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
			memcmp(entry.gid.raw, &wanted, sizeof(wanted)) != 0))
			continue;
		inet_ntop(
		    AF_INET6, entry.gid.raw, device->gid, sizeof(device->gid));
		device->gid_index = i;
		return;
	}
}

/* Fill *device from a bound id. Returns NULL, or why it can't be used. */
static const char *look(struct rdma_cm_id *id, struct verbs_device *device)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	if (!id->verbs)
		return "not an address of an RDMA device";
	device->port = id->port_num;
	device->context = id->verbs;
	snprintf(device->name, sizeof(device->name), "%s",
	    ibv_get_device_name(id->verbs->device));
	if (ibv_query_port(id->verbs, id->port_num, &port))
		return "its port can't be queried";
	find_gid(&port, device);
	if (port.state != IBV_PORT_ACTIVE)
		return "its port is not active";
	if (ibv_query_device(id->verbs, &attr))
		return "it can't be queried";
	return dfi__verbs_limits(&attr, &device->limits);
}

static const char *try_address(
    struct rdma_event_channel *channel, struct verbs_device *device)
{
	union ip to = device->address;
	struct rdma_cm_id *id;
	const char *why;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return "no rdma_cm (is rdma_ucm loaded?)";
	if (!rdma_bind_addr(id, &to.any))
		why = look(id, device);
	else if (errno == EACCES || errno == EPERM)
		why = "no permission to open /dev/infiniband/uverbs*";
	else
		why = "not an address of an RDMA device";
	rdma_destroy_id(id);
	return why;
}

/* The order of addresses: routable ones first, then IPv4 before IPv6. */
static unsigned rank(const union ip *ip)
{
	if (ip->any.sa_family == AF_INET)
		return 0;
	return dfi__ip_is_link_local(ip) ? 2 : 1;
}
#define N_RANKS 3

static bool names_address(const char *list, uint32_t n, const union ip *ip)
{
	char text[IP_TEXT_SIZE];
	union ip wanted;
	size_t size;
	const char *part = setting_part(list, n, &size);

	snprintf(text, sizeof(text), "%.*s", (int)size, part);
	return dfi__ip_parse_host(text, &wanted) &&
	    dfi__ip_same_host(&wanted, ip);
}

static bool names_device(const char *list, uint32_t n, const char *name)
{
	size_t size;
	const char *part = setting_part(list, n, &size);

	return strlen(name) == size && memcmp(part, name, size) == 0;
}

static bool is_wanted(const struct settings *settings, const union ip *ip)
{
	uint32_t n = setting_count(settings->verbs_address), i;

	for (i = 0; i < n; i++)
		if (names_address(settings->verbs_address, i, ip))
			return true;
	return !n;
}

static bool is_named(const struct settings *settings, const char *name)
{
	uint32_t n = setting_count(settings->verbs_device), i;

	for (i = 0; i < n; i++)
		if (names_device(settings->verbs_device, i, name))
			return true;
	return !n;
}

static int try_interface(struct rdma_event_channel *channel,
    const struct ifaddrs *interface, const union ip *ip,
    const struct settings *settings,
    int (*fn)(void *arg, const struct verbs_candidate *candidate), void *arg)
{
	struct verbs_candidate candidate = {
		.device = { .address = *ip,
		    .interface = if_nametoindex(interface->ifa_name),
		    .gid_index = -1 },
		.interface = interface->ifa_name,
		.loopback = interface->ifa_flags & IFF_LOOPBACK,
		.wanted = is_wanted(settings, ip),
	};
	struct verbs_device *device = &candidate.device;
	union ip mask;

	dfi__ip_set_port(&device->address, 0);
	dfi__ip_host_text(ip, device->address_text);
	candidate.why = try_address(channel, device);
	if (dfi__ip_copy(interface->ifa_netmask, &mask))
		device->network_bits = dfi__ip_mask_bits(&mask);
	if (!candidate.why && !is_named(settings, device->name))
		candidate.why = "not the device that DFI_VERBS_DEVICE names";
	return fn(arg, &candidate);
}

static int try_interfaces(struct rdma_event_channel *channel,
    const struct ifaddrs *interfaces, const struct settings *settings,
    int (*fn)(void *arg, const struct verbs_candidate *candidate), void *arg)
{
	const struct ifaddrs *interface;
	union ip ip;
	unsigned i;
	int ret = 0;

	for (i = 0; i < N_RANKS; i++)
		for (interface = interfaces; !ret && interface;
		     interface = interface->ifa_next)
			if (dfi__ip_copy(interface->ifa_addr, &ip) &&
			    (interface->ifa_flags & IFF_UP) && rank(&ip) == i)
				ret = try_interface(
				    channel, interface, &ip, settings, fn, arg);
	return ret;
}

/*
 * rdma-core keeps open devices in static memory, which a forked child can't
 * use.
 */
static int check_process(void)
{
	static _Atomic pid_t first;
	pid_t none = 0;

	if (!atomic_compare_exchange_strong(&first, &none, getpid()) &&
	    none != getpid())
		return dfi__fail(-EOWNERDEAD,
		    "verbs: process %d used RDMA before it forked this one: "
		    "start another program (exec), or set DFI_TRANSPORT=shm",
		    (int)none);
	return 0;
}

static int no_rdma_cm(int err)
{
	int ret = dfi__verbs_check_files("/dev/infiniband/rdma_cm", err);

	return ret ? ret
		   : dfi__fail(-ENODEV,
			 "verbs: no RDMA on this host: "
			 "/dev/infiniband/rdma_cm: %s (load the kernel module "
			 "rdma_ucm)",
			 strerror(err));
}

static int try_all(const struct settings *settings,
    int (*fn)(void *arg, const struct verbs_candidate *candidate), void *arg)
{
	struct rdma_event_channel *channel;
	struct ifaddrs *interfaces;
	int ret;

	channel = rdma_create_event_channel();
	if (!channel)
		return no_rdma_cm(errno);
	if (getifaddrs(&interfaces) < 0) {
		ret = dfi__verbs_fail_os(NULL, "getifaddrs", errno);
		rdma_destroy_event_channel(channel);
		return ret;
	}
	ret = try_interfaces(channel, interfaces, settings, fn, arg);
	freeifaddrs(interfaces);
	rdma_destroy_event_channel(channel);
	return ret;
}

int dfi__verbs_candidates(const struct settings *settings,
    int (*fn)(void *arg, const struct verbs_candidate *candidate), void *arg)
{
	int ret = check_process();

	/* libibverbs reads the list of drivers once, as far as it can. */
	if (!ret)
		ret = dfi__verbs_check_files("looking for RDMA devices", 0);
	if (ret < 0)
		return ret;
	/* rdma_cm opens all devices. */
	dfi__files_take_standard();
	ret = try_all(settings, fn, arg);
	dfi__files_free_standard();
	return ret;
}

bool dfi__verbs_preferred(const char *route_to, union ip *preferred)
{
	static const char tcp[] = "tcp:";
	union ip to;

	return route_to && strncmp(route_to, tcp, strlen(tcp)) == 0 &&
	    dfi__ip_parse(route_to + strlen(tcp), &to) &&
	    dfi__ip_route(&to, preferred);
}

uint32_t dfi__verbs_n_devices(const struct settings *settings)
{
	uint32_t n = setting_count(settings->verbs_address
		? settings->verbs_address
		: settings->verbs_device);

	return n ? n : 1;
}

/* The best candidate so far, and why others can't be used. */
struct choice {
	const struct settings *settings;
	uint32_t number;
	struct verbs_device *device;
	bool any, prefers;
	union ip preferred;
	struct reasons reasons;
};

/* Whether the settings mean this one by that number. */
static bool is_number(
    const struct choice *choice, const struct verbs_device *device)
{
	const struct settings *settings = choice->settings;

	if (settings->verbs_address)
		return names_address(
		    settings->verbs_address, choice->number, &device->address);
	return !settings->verbs_device ||
	    names_device(settings->verbs_device, choice->number, device->name);
}

/* Returns 1 if no better one can follow. */
static int consider(void *arg, const struct verbs_candidate *candidate)
{
	const struct verbs_device *device = &candidate->device;
	struct choice *choice = arg;
	bool best;

	if (!candidate->wanted)
		return 0;
	if (!candidate->why && is_number(choice, device)) {
		best = !choice->prefers ||
		    dfi__ip_same_host(&choice->preferred, &device->address);
		if (!choice->any || best)
			*choice->device = *device;
		choice->any = true;
		return best;
	}
	/* The loopback address never becomes a candidate. */
	if (!candidate->loopback)
		add_reason(&choice->reasons, device,
		    candidate->why ? candidate->why
				   : "named as another one of the list");
	return 0;
}

/* " NAME" of a list with several, else "". */
static const char *of_list(
    const struct settings *settings, uint32_t number, char text[64])
{
	const char *list = settings->verbs_address ? settings->verbs_address
						   : settings->verbs_device;
	const char *part;
	size_t size;

	text[0] = '\0';
	if (setting_count(list) > 1) {
		part = setting_part(list, number, &size);
		snprintf(text, 64, " %.*s", (int)size, part);
	}
	return text;
}

int dfi__verbs_choose(const struct settings *settings, uint32_t number,
    const char *route_to, struct verbs_device *device)
{
	char name[64];
	struct choice choice = {
		.settings = settings,
		.number = number,
		.device = device,
		.reasons = { .text = "this host has no such address" },
	};
	int ret;

	choice.prefers = dfi__verbs_preferred(route_to, &choice.preferred);
	ret = dfi__verbs_candidates(settings, consider, &choice);
	if (ret < 0)
		return ret;
	if (choice.any)
		return 0;
	ret = dfi__verbs_check_files("no usable RDMA device", 0);
	return ret ? ret
		   : dfi__fail(-ENODEV, "verbs: no usable RDMA device%s: %s",
			 of_list(settings, number, name), choice.reasons.text);
}

int dfi__verbs_channel(
    const struct verbs_device *device, struct rdma_event_channel **out)
{
	struct rdma_event_channel *channel;
	int flags, ret, err;

	dfi__files_take_standard();
	channel = rdma_create_event_channel();
	err = errno;
	dfi__files_free_standard();
	if (!channel)
		return dfi__verbs_fail_port(
		    device, "rdma_create_event_channel", err);
	flags = fcntl(channel->fd, F_GETFL);
	if (flags < 0 || fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		ret = dfi__verbs_fail_port(device, "fcntl", errno);
		rdma_destroy_event_channel(channel);
		return ret;
	}
	*out = channel;
	return 0;
}
