/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a datagram endpoint: a queue pair of its own, completion queues,
 * memory to receive in, and rdma_cm's membership of the group. The queue pair
 * is in the group only if the endpoint receives; an endpoint that only sends
 * joins as a sender.
 */
#include "multicast.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/bits.h"
#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/maps.h"
#include "base/memory.h"
#include "base/reservation.h"
#include "base/settings.h"
#include "transport/verbs/data/memory.h"
#include "transport/verbs/device/fail.h"

static int fail(const struct verbs_port *port, const char *what)
{
	return dfi__verbs_fail_port(&port->verbs->device, what, errno);
}

static int fail_cm(const struct verbs_port *port, const char *what)
{
	return dfi__verbs_fail_cm(&port->verbs->device, what, errno);
}

static int check_attr(struct verbs_port *port)
{
	const char *group = port->attr.group;
	union ip *address = &port->group_address;
	uint32_t limit = dfi__verbs_multicast_size(&port->verbs->base);
	const char *failed = atomic_observe(&port->verbs->failed);

	if (failed)
		return dfi__fail(-ENODEV, "verbs: %s: %s",
		    dfi__verbs_gid(&port->verbs->device).text, failed);
	if (!dfi__ip_parse_host(group, address) ||
	    !(address->any.sa_family == AF_INET
		    ? IN_MULTICAST(ntohl(address->in.sin_addr.s_addr))
		    : IN6_IS_ADDR_MULTICAST(&address->in6.sin6_addr)))
		return dfi__fail(-EINVAL,
		    "verbs: '%s' is not an address of a multicast group, such "
		    "as 239.1.2.3 or ff15::1:2",
		    group);
	if (port->attr.max_size > limit)
		return dfi__fail(-EMSGSIZE,
		    "verbs: %s: datagrams of up to %u bytes, but its active "
		    "MTU lets %u through",
		    dfi__verbs_port(&port->verbs->device).text,
		    port->attr.max_size, limit);
	return 0;
}

/* Limits where no device restricts the endpoint. */
static const struct ibv_device_attr no_limits = {
	.max_qp_wr = INT32_MAX,
	.max_cqe = INT32_MAX,
};

/* Reduce the wanted number of receives to what the device can hold. */
static void set_sizes(struct verbs_port *port,
    const struct ibv_device_attr *device, uint32_t sends)
{
	uint32_t most = (uint32_t)(device->max_qp_wr < device->max_cqe
		? device->max_qp_wr
		: device->max_cqe - 1);

	port->base.receives = (uint32_t)min_u64(port->attr.receives, most);
	port->base.max_size = port->attr.max_size;
	port->max_sends = (uint32_t)min_u64(VERBS_DATAGRAMS, sends);
	port->receive_size = (uint32_t)align_up(
	    VERBS_GRH + port->attr.receive_size, CACHE_LINE);
}

static uint64_t receives_size(const struct verbs_port *port)
{
	return align_up(
	    (uint64_t)port->base.receives * port->receive_size, CACHE_LINE);
}

/* Memory for receives and headers. */
static uint64_t buffers_size(const struct verbs_port *port)
{
	return align_up(receives_size(port) +
		(uint64_t)port->max_sends * MULTICAST_HEADER_MAX,
	    TRANSPORT_IMAGE_PAGE);
}

static int choose_sizes(struct verbs_port *port)
{
	struct verbs *verbs = port->verbs;
	struct ibv_device_attr device;
	uint32_t wanted = port->attr.receives;

	if (ibv_query_device(verbs->device.context, &device))
		return fail(port, "ibv_query_device");
	set_sizes(port, &device, verbs->device.limits.sends);
	if (port->base.receives < wanted)
		dfi__log(DFI_LOG_INFO,
		    "verbs: %s: %u receives for %u datagrams, so that more may "
		    "be lost: max_qp_wr, max_cqe",
		    dfi__verbs_port(&verbs->device).text, port->base.receives,
		    wanted);
	return 0;
}

uint64_t dfi__verbs_multicast_bytes(
    const struct transport *transport, const struct multicast_attr *attr)
{
	const struct verbs *verbs = (const struct verbs *)transport;
	struct verbs_port port = { .attr = *attr };
	struct ibv_device_attr device;

	if (!verbs || ibv_query_device(verbs->device.context, &device))
		set_sizes(&port, &no_limits, VERBS_DATAGRAMS);
	else
		set_sizes(&port, &device, verbs->device.limits.sends);
	return buffers_size(&port);
}

int dfi__verbs_multicast_room(
    struct transport *transport, const struct multicast_attr *attr)
{
	uint64_t size = dfi__verbs_multicast_bytes(transport, attr);

	return dfi__verbs_room((const struct verbs *)transport, size,
	    size + attr->memory_size, HUGE_PAGES_NEVER);
}

static int map_buffers(struct verbs_port *port, uint64_t size)
{
	struct verbs *verbs = port->verbs;
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return dfi__fail_map(size, "verbs: memory for datagrams");
	dfi__memory_keep_out(at, size, verbs->settings->dump_rings);
	port->buffers = at;
	port->buffers_size = size;
	port->headers = port->buffers + receives_size(port);
	port->buffers_mr = ibv_reg_mr(
	    verbs->pd, at, size, IBV_ACCESS_LOCAL_WRITE);
	return port->buffers_mr
	    ? 0
	    : dfi__verbs_fail_register(&verbs->device, size, errno);
}

static int create_buffers(struct verbs_port *port)
{
	struct verbs *verbs = port->verbs;
	uint64_t size = buffers_size(port);
	struct reservation reservation;
	int ret = dfi__verbs_reserve(
	    verbs, size, size + port->attr.memory_size, &reservation);

	if (ret < 0)
		return ret;
	ret = map_buffers(port, size);
	dfi__reservation_end(&reservation);
	if (ret < 0 || !port->attr.memory)
		return ret;
	/* The device only reads this memory. */
	port->memory_mr = ibv_reg_mr(verbs->pd,
	    (void *)(uintptr_t)port->attr.memory, port->attr.memory_size, 0);
	return port->memory_mr ? 0
			       : dfi__verbs_fail_register(&verbs->device,
				     port->attr.memory_size, errno);
}

static int create_queues(struct verbs_port *port)
{
	struct ibv_context *context = port->verbs->device.context;
	int flags;

	port->timer = file_up(
	    timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (port->timer < 0)
		return fail(port, "timerfd_create");
	port->channel = ibv_create_comp_channel(context);
	if (!port->channel)
		return fail(port, "a completion channel");
	port->channel->fd = file_up(port->channel->fd);
	flags = fcntl(port->channel->fd, F_GETFL);
	if (flags < 0 ||
	    fcntl(port->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return fail(port, "the completion channel");
	port->sends = ibv_create_cq(
	    context, (int)port->max_sends, port, port->channel, 0);
	if (!port->sends)
		return fail(port, "a completion queue");
	port->arrivals = ibv_create_cq(
	    context, (int)port->base.receives + 1, port, port->channel, 0);
	return port->arrivals ? 0 : fail(port, "a completion queue");
}

/* Create an id bound to our address, so that it uses our device. */
static int create_id(struct verbs_port *port)
{
	const struct verbs_device *device = &port->verbs->device;
	union ip address = device->address;
	int ret = dfi__verbs_channel(device, &port->cm);

	if (ret < 0)
		return ret;
	if (rdma_create_id(port->cm, &port->id, port, RDMA_PS_UDP))
		return fail_cm(port, "rdma_create_id");
	dfi__ip_set_port(&address, 0);
	if (dfi__ip_is_link_local(&address))
		address.in6.sin6_scope_id = device->interface;
	if (rdma_bind_addr(port->id, &address.any))
		return fail_cm(port, "rdma_bind_addr");
	if (port->id->verbs != device->context)
		return dfi__fail(-ENODEV, "verbs: %s: it has just been removed",
		    dfi__verbs_gid(device).text);
	return 0;
}

static int create_qp(struct verbs_port *port)
{
	struct ibv_qp_init_attr init = {
		.qp_context = port,
		.send_cq = port->sends,
		.recv_cq = port->arrivals,
		.cap = {
			.max_send_wr = port->max_sends,
			.max_recv_wr = port->base.receives,
			.max_send_sge = VERBS_PARTS,
			.max_recv_sge = 1,
			.max_inline_data = VERBS_INLINE,
		},
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_qp_attr attr = { .qkey = port->attr.key };
	int err;

	if (rdma_create_qp(port->id, port->verbs->pd, &init))
		return fail_cm(port, "a datagram queue pair");
	port->max_inline = init.cap.max_inline_data;
	/* rdma_cm has set a key that all processes know. */
	err = ibv_modify_qp(port->id->qp, &attr, IBV_QP_QKEY);
	return err ? dfi__verbs_fail_port(
			 &port->verbs->device, "a queue pair's key", err)
		   : 0;
}

static int post_receives(struct verbs_port *port)
{
	uint64_t numbers[VERBS_REPOST];
	uint32_t i, k, posted;
	int err;

	for (posted = 0; posted < port->base.receives; posted += k) {
		k = (uint32_t)min_u64(
		    VERBS_REPOST, port->base.receives - posted);
		for (i = 0; i < k; i++)
			numbers[i] = posted + i;
		err = dfi__verbs_port_receive(port, numbers, k);
		if (err)
			return dfi__verbs_fail_port(
			    &port->verbs->device, "posting receives", err);
	}
	return 0;
}

static int joined(struct verbs_port *port, const struct rdma_cm_event *event)
{
	struct ibv_ah_attr attr = event->param.ud.ah_attr;

	if (event->event != RDMA_CM_EVENT_MULTICAST_JOIN)
		return dfi__fail(-EHOSTUNREACH,
		    "verbs: %s: joining the multicast group %s: %s (%s)",
		    dfi__verbs_gid(&port->verbs->device).text, port->attr.group,
		    rdma_event_str(event->event), strerror(abs(event->status)));
	port->joined = true;
	port->group.number = event->param.ud.qp_num;
	port->group.ah = ibv_create_ah(port->verbs->pd, &attr);
	return port->group.ah ? 0 : fail_cm(port, "an address handle");
}

static int await_join(struct verbs_port *port, int64_t deadline)
{
	struct pollfd pollfd = { .fd = port->cm->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	int ret;

	while (rdma_get_cm_event(port->cm, &event)) {
		if (errno != EAGAIN && errno != EINTR)
			return fail_cm(port, "rdma_get_cm_event");
		if (poll(&pollfd, 1, deadline_left_ms(deadline)) == 0)
			return dfi__fail(-ETIMEDOUT,
			    "verbs: %s: the multicast group %s could not be "
			    "joined in time",
			    dfi__verbs_gid(&port->verbs->device).text,
			    port->attr.group);
	}
	ret = joined(port, event);
	rdma_ack_cm_event(event);
	return ret;
}

static int join(struct verbs_port *port, int64_t deadline)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
		    RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = port->attr.member
		    ? RDMA_MC_JOIN_FLAG_FULLMEMBER
		    : RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = &port->group_address.any,
	};

	if (rdma_join_multicast_ex(port->id, &attr, port))
		return dfi__fail(errno == ENOMEM ? -ENOMEM : -EHOSTUNREACH,
		    "verbs: %s: joining the multicast group %s: %s",
		    dfi__verbs_gid(&port->verbs->device).text, port->attr.group,
		    strerror(errno));
	return await_join(port, deadline);
}

static void set_address(struct verbs_port *port)
{
	const struct verbs_device *device = &port->verbs->device;
	struct verbs_port_address address = {
		.number = htonl(port->id->qp->qp_num),
	};
	struct ibv_port_attr attr = { .lid = 0 };

	if (!ibv_query_port(device->context, device->port, &attr))
		address.lid = htons(attr.lid);
	/* The GID of our traffic, which error texts also name. */
	(void)inet_pton(AF_INET6, device->gid, address.gid);
	memcpy(port->base.address.bytes, &address, sizeof(address));
}

/* A forked child must not keep the endpoint's descriptors. */
static int close_in_children(const struct verbs_port *port)
{
	int ret = dfi__fork_add(port->cm->fd);

	if (ret < 0)
		return ret;
	ret = dfi__fork_add(port->channel->fd);
	if (ret < 0)
		dfi__fork_remove(port->cm->fd);
	return ret;
}

int dfi__verbs_port_make(struct verbs_port *port, int64_t deadline)
{
	int ret = check_attr(port);

	if (!ret)
		ret = choose_sizes(port);
	if (!ret)
		ret = create_id(port);
	if (!ret)
		ret = create_queues(port);
	if (!ret)
		ret = create_buffers(port);
	if (!ret)
		ret = create_qp(port);
	if (!ret)
		ret = post_receives(port);
	if (!ret)
		ret = join(port, deadline);
	if (!ret)
		ret = close_in_children(port);
	if (!ret)
		set_address(port);
	return ret;
}

void dfi__verbs_port_stop(struct verbs_port *port)
{
	if (port->group.ah)
		ibv_destroy_ah(port->group.ah);
	if (port->joined)
		rdma_leave_multicast(port->id, &port->group_address.any);
	if (port->id && port->id->qp)
		rdma_destroy_qp(port->id);
	if (port->id)
		rdma_destroy_id(port->id);
	if (port->arrivals)
		ibv_destroy_cq(port->arrivals);
	if (port->sends)
		ibv_destroy_cq(port->sends);
	if (port->memory_mr)
		ibv_dereg_mr(port->memory_mr);
	if (port->buffers_mr)
		ibv_dereg_mr(port->buffers_mr);
	if (port->buffers)
		munmap(port->buffers, port->buffers_size);
	port->group.ah = NULL;
	port->joined = false;
	port->id = NULL;
	port->arrivals = port->sends = NULL;
	port->memory_mr = port->buffers_mr = NULL;
	port->buffers = NULL;
}

void dfi__verbs_port_free(struct verbs_port *port)
{
	dfi__verbs_port_stop(port);
	if (port->channel)
		ibv_destroy_comp_channel(port->channel);
	if (port->cm)
		rdma_destroy_event_channel(port->cm);
	if (port->timer >= 0)
		close(port->timer);
	pthread_mutex_destroy(&port->lock);
	free((char *)(uintptr_t)port->attr.group);
	free(port);
}
