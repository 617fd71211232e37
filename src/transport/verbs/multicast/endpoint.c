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

static int fail(const struct verbs_endpoint *endpoint, const char *what)
{
	return dfi__verbs_fail_port(&endpoint->verbs->device, what, errno);
}

static int fail_cm(const struct verbs_endpoint *endpoint, const char *what)
{
	return dfi__verbs_fail_cm(&endpoint->verbs->device, what, errno);
}

static int check_attr(struct verbs_endpoint *endpoint)
{
	const char *group = endpoint->attr.group;
	union ip *address = &endpoint->group_address;
	uint32_t limit = dfi__verbs_multicast_size(&endpoint->verbs->base);
	const char *failed = atomic_observe(&endpoint->verbs->failed);

	if (failed)
		return dfi__fail(-ENODEV, "verbs: %s: %s",
		    dfi__verbs_gid(&endpoint->verbs->device).text, failed);
	if (!dfi__ip_parse_host(group, address) ||
	    !(address->any.sa_family == AF_INET
		    ? IN_MULTICAST(ntohl(address->in.sin_addr.s_addr))
		    : IN6_IS_ADDR_MULTICAST(&address->in6.sin6_addr)))
		return dfi__fail(-EINVAL,
		    "verbs: '%s' is not an address of a multicast group, such "
		    "as 239.1.2.3 or ff15::1:2",
		    group);
	if (endpoint->attr.max_size > limit)
		return dfi__fail(-EMSGSIZE,
		    "verbs: %s: datagrams of up to %u bytes, but its active "
		    "MTU lets %u through",
		    dfi__verbs_port(&endpoint->verbs->device).text,
		    endpoint->attr.max_size, limit);
	return 0;
}

/* Limits where no device restricts the endpoint. */
static const struct ibv_device_attr no_limits = {
	.max_qp_wr = INT32_MAX,
	.max_cqe = INT32_MAX,
};

/* Reduce the wanted number of receives to what the device can hold. */
static void set_sizes(struct verbs_endpoint *endpoint,
    const struct ibv_device_attr *device, uint32_t sends)
{
	uint32_t most = (uint32_t)(device->max_qp_wr < device->max_cqe
		? device->max_qp_wr
		: device->max_cqe - 1);

	endpoint->base.receives = (uint32_t)min_u64(
	    endpoint->attr.receives, most);
	endpoint->base.max_size = endpoint->attr.max_size;
	endpoint->max_sends = (uint32_t)min_u64(VERBS_DATAGRAMS, sends);
	endpoint->receive_size = (uint32_t)align_up(
	    VERBS_GRH + endpoint->attr.receive_size, CACHE_LINE);
}

static uint64_t receives_size(const struct verbs_endpoint *endpoint)
{
	return align_up(
	    (uint64_t)endpoint->base.receives * endpoint->receive_size,
	    CACHE_LINE);
}

/* Memory for receives and headers. */
static uint64_t buffers_size(const struct verbs_endpoint *endpoint)
{
	return align_up(receives_size(endpoint) +
		(uint64_t)endpoint->max_sends * MULTICAST_HEADER_MAX,
	    TRANSPORT_SHADOW_PAGE);
}

static int choose_sizes(struct verbs_endpoint *endpoint)
{
	struct verbs *verbs = endpoint->verbs;
	struct ibv_device_attr device;
	uint32_t wanted = endpoint->attr.receives;

	if (ibv_query_device(verbs->device.context, &device))
		return fail(endpoint, "ibv_query_device");
	set_sizes(endpoint, &device, verbs->device.limits.sends);
	if (endpoint->base.receives < wanted)
		dfi__log(DFI_LOG_INFO,
		    "verbs: %s: %u receives for %u datagrams, so that more may "
		    "be lost: max_qp_wr, max_cqe",
		    dfi__verbs_port(&verbs->device).text,
		    endpoint->base.receives, wanted);
	return 0;
}

uint64_t dfi__verbs_multicast_bytes(
    const struct transport *transport, const struct multicast_attr *attr)
{
	const struct verbs *verbs = (const struct verbs *)transport;
	struct verbs_endpoint endpoint = { .attr = *attr };
	struct ibv_device_attr device;

	if (!verbs || ibv_query_device(verbs->device.context, &device))
		set_sizes(&endpoint, &no_limits, VERBS_DATAGRAMS);
	else
		set_sizes(&endpoint, &device, verbs->device.limits.sends);
	return buffers_size(&endpoint);
}

int dfi__verbs_multicast_room(
    struct transport *transport, const struct multicast_attr *attr)
{
	uint64_t size = dfi__verbs_multicast_bytes(transport, attr);

	return dfi__verbs_room((const struct verbs *)transport, size,
	    size + attr->memory_size, HUGE_PAGES_NEVER);
}

static int map_buffers(struct verbs_endpoint *endpoint, uint64_t size)
{
	struct verbs *verbs = endpoint->verbs;
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return dfi__fail_map(size, "verbs: memory for datagrams");
	dfi__memory_keep_out(at, size, verbs->settings->dump_rings);
	endpoint->buffers = at;
	endpoint->buffers_size = size;
	endpoint->headers = endpoint->buffers + receives_size(endpoint);
	endpoint->buffers_mr = ibv_reg_mr(
	    verbs->pd, at, size, IBV_ACCESS_LOCAL_WRITE);
	return endpoint->buffers_mr
	    ? 0
	    : dfi__verbs_fail_register(&verbs->device, size, errno);
}

static int create_buffers(struct verbs_endpoint *endpoint)
{
	struct verbs *verbs = endpoint->verbs;
	uint64_t size = buffers_size(endpoint);
	struct reservation reservation;
	int ret = dfi__verbs_reserve(
	    verbs, size, size + endpoint->attr.memory_size, &reservation);

	if (ret < 0)
		return ret;
	ret = map_buffers(endpoint, size);
	dfi__reservation_end(&reservation);
	if (ret < 0 || !endpoint->attr.memory)
		return ret;
	/* The device only reads this memory. */
	endpoint->memory_mr = ibv_reg_mr(verbs->pd,
	    (void *)(uintptr_t)endpoint->attr.memory,
	    endpoint->attr.memory_size, 0);
	return endpoint->memory_mr ? 0
				   : dfi__verbs_fail_register(&verbs->device,
					 endpoint->attr.memory_size, errno);
}

static int create_queues(struct verbs_endpoint *endpoint)
{
	struct ibv_context *context = endpoint->verbs->device.context;
	int flags;

	endpoint->timer = file_up(
	    timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (endpoint->timer < 0)
		return fail(endpoint, "timerfd_create");
	endpoint->channel = ibv_create_comp_channel(context);
	if (!endpoint->channel)
		return fail(endpoint, "a completion channel");
	endpoint->channel->fd = file_up(endpoint->channel->fd);
	flags = fcntl(endpoint->channel->fd, F_GETFL);
	if (flags < 0 ||
	    fcntl(endpoint->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return fail(endpoint, "the completion channel");
	endpoint->sends = ibv_create_cq(
	    context, (int)endpoint->max_sends, endpoint, endpoint->channel, 0);
	if (!endpoint->sends)
		return fail(endpoint, "a completion queue");
	endpoint->arrivals = ibv_create_cq(context,
	    (int)endpoint->base.receives + 1, endpoint, endpoint->channel, 0);
	return endpoint->arrivals ? 0 : fail(endpoint, "a completion queue");
}

/* Create an id bound to our address, so that it uses our device. */
static int create_id(struct verbs_endpoint *endpoint)
{
	const struct verbs_device *device = &endpoint->verbs->device;
	union ip address = device->address;
	int ret = dfi__verbs_channel(device, &endpoint->cm);

	if (ret < 0)
		return ret;
	if (rdma_create_id(endpoint->cm, &endpoint->id, endpoint, RDMA_PS_UDP))
		return fail_cm(endpoint, "rdma_create_id");
	dfi__ip_set_port(&address, 0);
	if (dfi__ip_is_link_local(&address))
		address.in6.sin6_scope_id = device->interface;
	if (rdma_bind_addr(endpoint->id, &address.any))
		return fail_cm(endpoint, "rdma_bind_addr");
	if (endpoint->id->verbs != device->context)
		return dfi__fail(-ENODEV, "verbs: %s: it has just been removed",
		    dfi__verbs_gid(device).text);
	return 0;
}

static int create_qp(struct verbs_endpoint *endpoint)
{
	struct ibv_qp_init_attr init = {
		.qp_context = endpoint,
		.send_cq = endpoint->sends,
		.recv_cq = endpoint->arrivals,
		.cap = {
			.max_send_wr = endpoint->max_sends,
			.max_recv_wr = endpoint->base.receives,
			.max_send_sge = VERBS_PARTS,
			.max_recv_sge = 1,
			.max_inline_data = VERBS_INLINE,
		},
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_qp_attr attr = { .qkey = endpoint->attr.key };
	int err;

	if (rdma_create_qp(endpoint->id, endpoint->verbs->pd, &init))
		return fail_cm(endpoint, "a datagram queue pair");
	endpoint->max_inline = init.cap.max_inline_data;
	/* rdma_cm has set a key that all processes know. */
	err = ibv_modify_qp(endpoint->id->qp, &attr, IBV_QP_QKEY);
	return err ? dfi__verbs_fail_port(
			 &endpoint->verbs->device, "a queue pair's key", err)
		   : 0;
}

static int post_receives(struct verbs_endpoint *endpoint)
{
	uint64_t numbers[VERBS_REPOST];
	uint32_t i, k, posted;
	int err;

	for (posted = 0; posted < endpoint->base.receives; posted += k) {
		k = (uint32_t)min_u64(
		    VERBS_REPOST, endpoint->base.receives - posted);
		for (i = 0; i < k; i++)
			numbers[i] = posted + i;
		err = dfi__verbs_endpoint_receive(endpoint, numbers, k);
		if (err)
			return dfi__verbs_fail_port(
			    &endpoint->verbs->device, "posting receives", err);
	}
	return 0;
}

static int joined(
    struct verbs_endpoint *endpoint, const struct rdma_cm_event *event)
{
	struct ibv_ah_attr attr = event->param.ud.ah_attr;

	if (event->event != RDMA_CM_EVENT_MULTICAST_JOIN)
		return dfi__fail(-EHOSTUNREACH,
		    "verbs: %s: joining the multicast group %s: %s (%s)",
		    dfi__verbs_gid(&endpoint->verbs->device).text,
		    endpoint->attr.group, rdma_event_str(event->event),
		    strerror(abs(event->status)));
	endpoint->joined = true;
	endpoint->group.number = event->param.ud.qp_num;
	endpoint->group.ah = ibv_create_ah(endpoint->verbs->pd, &attr);
	return endpoint->group.ah ? 0 : fail_cm(endpoint, "an address handle");
}

static int await_join(struct verbs_endpoint *endpoint, int64_t deadline)
{
	struct pollfd pollfd = { .fd = endpoint->cm->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	int ret;

	while (rdma_get_cm_event(endpoint->cm, &event)) {
		if (errno != EAGAIN && errno != EINTR)
			return fail_cm(endpoint, "rdma_get_cm_event");
		if (poll(&pollfd, 1, deadline_left_ms(deadline)) == 0)
			return dfi__fail(-ETIMEDOUT,
			    "verbs: %s: the multicast group %s could not be "
			    "joined in time",
			    dfi__verbs_gid(&endpoint->verbs->device).text,
			    endpoint->attr.group);
	}
	ret = joined(endpoint, event);
	rdma_ack_cm_event(event);
	return ret;
}

static int join(struct verbs_endpoint *endpoint, int64_t deadline)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
		    RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = endpoint->attr.member
		    ? RDMA_MC_JOIN_FLAG_FULLMEMBER
		    : RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = &endpoint->group_address.any,
	};

	if (rdma_join_multicast_ex(endpoint->id, &attr, endpoint))
		return dfi__fail(errno == ENOMEM ? -ENOMEM : -EHOSTUNREACH,
		    "verbs: %s: joining the multicast group %s: %s",
		    dfi__verbs_gid(&endpoint->verbs->device).text,
		    endpoint->attr.group, strerror(errno));
	return await_join(endpoint, deadline);
}

static void set_address(struct verbs_endpoint *endpoint)
{
	const struct verbs_device *device = &endpoint->verbs->device;
	struct verbs_endpoint_address address = {
		.number = htonl(endpoint->id->qp->qp_num),
	};
	struct ibv_port_attr attr = { .lid = 0 };

	if (!ibv_query_port(device->context, device->port, &attr))
		address.lid = htons(attr.lid);
	/* The GID of our traffic, which error texts also name. */
	(void)inet_pton(AF_INET6, device->gid, address.gid);
	memcpy(endpoint->base.address.bytes, &address, sizeof(address));
}

/* A forked child must not keep the endpoint's descriptors. */
static int close_in_children(const struct verbs_endpoint *endpoint)
{
	int ret = dfi__fork_add(endpoint->cm->fd);

	if (ret < 0)
		return ret;
	ret = dfi__fork_add(endpoint->channel->fd);
	if (ret < 0)
		dfi__fork_remove(endpoint->cm->fd);
	return ret;
}

int dfi__verbs_endpoint_make(struct verbs_endpoint *endpoint, int64_t deadline)
{
	int ret = check_attr(endpoint);

	if (!ret)
		ret = choose_sizes(endpoint);
	if (!ret)
		ret = create_id(endpoint);
	if (!ret)
		ret = create_queues(endpoint);
	if (!ret)
		ret = create_buffers(endpoint);
	if (!ret)
		ret = create_qp(endpoint);
	if (!ret)
		ret = post_receives(endpoint);
	if (!ret)
		ret = join(endpoint, deadline);
	if (!ret)
		ret = close_in_children(endpoint);
	if (!ret)
		set_address(endpoint);
	return ret;
}

void dfi__verbs_endpoint_stop(struct verbs_endpoint *endpoint)
{
	if (endpoint->group.ah)
		ibv_destroy_ah(endpoint->group.ah);
	if (endpoint->joined)
		rdma_leave_multicast(
		    endpoint->id, &endpoint->group_address.any);
	if (endpoint->id && endpoint->id->qp)
		rdma_destroy_qp(endpoint->id);
	if (endpoint->id)
		rdma_destroy_id(endpoint->id);
	if (endpoint->arrivals)
		ibv_destroy_cq(endpoint->arrivals);
	if (endpoint->sends)
		ibv_destroy_cq(endpoint->sends);
	if (endpoint->memory_mr)
		ibv_dereg_mr(endpoint->memory_mr);
	if (endpoint->buffers_mr)
		ibv_dereg_mr(endpoint->buffers_mr);
	if (endpoint->buffers)
		munmap(endpoint->buffers, endpoint->buffers_size);
	endpoint->group.ah = NULL;
	endpoint->joined = false;
	endpoint->id = NULL;
	endpoint->arrivals = endpoint->sends = NULL;
	endpoint->memory_mr = endpoint->buffers_mr = NULL;
	endpoint->buffers = NULL;
}

void dfi__verbs_endpoint_free(struct verbs_endpoint *endpoint)
{
	dfi__verbs_endpoint_stop(endpoint);
	if (endpoint->channel)
		ibv_destroy_comp_channel(endpoint->channel);
	if (endpoint->cm)
		rdma_destroy_event_channel(endpoint->cm);
	if (endpoint->timer >= 0)
		close(endpoint->timer);
	pthread_mutex_destroy(&endpoint->lock);
	free((char *)(uintptr_t)endpoint->attr.group);
	free(endpoint);
}
