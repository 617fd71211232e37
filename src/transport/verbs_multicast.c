/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing multicast ports. A port has a queue pair of its own, and
 * descriptors of its own: rdma_cm's, its completions', and a timer, which the
 * control thread watches. Its queue pair is in the group only if the port is a
 * member; who only sends joins as one that gets nothing.
 */
#include "verbs_multicast.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "../base/bits.h"
#include "../base/error.h"
#include "../base/fork_files.h"
#include "../base/log.h"
#include "../base/loop.h"

static void set_timer(const struct verbs_port *port, int64_t at)
{
	struct itimerspec time = { .it_value.tv_nsec = 0 };

	if (at != DEADLINE_NEVER)
		time.it_value = deadline_timespec(at > 0 ? at : 1);
	/* All is valid; no memory is needed (timerfd_settime(2)). */
	(void)timerfd_settime(port->timer, TFD_TIMER_ABSTIME, &time, NULL);
}

void dfi__verbs_port_fail(struct verbs_port *port, const char *why)
{
	const char *none = NULL;

	/* Pairs with has_failed(): the text. */
	if (!atomic_compare_exchange_strong(&port->failed, &none, why))
		return;
	dfi__log(DFI_LOG_WARN, "verbs: %s: the multicast port of %s: %s",
	    dfi__verbs_gid(&port->verbs->device).text, port->attr.group, why);
	set_timer(port, 0);
}

/* ---- On the control thread ------------------------------------------- */

/* rdma_cm has something to say after the port has joined: only bad news. */
static void on_cm(evutil_socket_t fd, short what, void *arg)
{
	struct verbs_port *port = arg;
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	(void)fd;
	(void)what;
	while (rdma_get_cm_event(port->cm, &event) == 0) {
		type = event->event;
		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			dfi__verbs_port_fail(port, "the device was removed");
		else if (type == RDMA_CM_EVENT_MULTICAST_ERROR)
			dfi__verbs_port_fail(port, rdma_event_str(type));
	}
}

static void on_completion(evutil_socket_t fd, short what, void *arg)
{
	struct verbs_port *port = arg;
	struct ibv_cq *cq;
	void *context;

	(void)fd;
	(void)what;
	while (ibv_get_cq_event(port->channel, &cq, &context) == 0)
		ibv_ack_cq_events(cq, 1);
	/* The kernel has taken the device away: the file stays readable. */
	if (errno != EAGAIN && errno != EINTR) {
		event_del(port->channel_event);
		dfi__verbs_port_fail(port, "the device is gone");
	}
	port->attr.ready(port->attr.arg);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct verbs_port *port = arg;
	uint64_t times;

	(void)what;
	/* Set again meanwhile, it is not due any more. */
	if (read(fd, &times, sizeof(times)) == sizeof(times))
		port->attr.ready(port->attr.arg);
}

static struct event *watch(
    struct verbs_port *port, int fd, event_callback_fn fn)
{
	struct event *event = event_new(dfi__loop_base(port->verbs->loop), fd,
	    EV_READ | EV_PERSIST, fn, port);

	if (event && event_add(event, NULL) < 0) {
		event_free(event);
		event = NULL;
	}
	return event;
}

static int remove_events(void *arg)
{
	struct verbs_port *port = arg;

	if (port->cm_event)
		event_free(port->cm_event);
	if (port->channel_event)
		event_free(port->channel_event);
	if (port->timer_event)
		event_free(port->timer_event);
	port->cm_event = port->channel_event = port->timer_event = NULL;
	return 0;
}

static int add_events(void *arg)
{
	struct verbs_port *port = arg;

	port->cm_event = watch(port, port->cm->fd, on_cm);
	port->channel_event = watch(port, port->channel->fd, on_completion);
	port->timer_event = watch(port, port->timer, on_timer);
	if (port->cm_event && port->channel_event && port->timer_event)
		return 0;
	remove_events(port);
	return dfi__fail(-ENOMEM, "verbs: out of memory");
}

/* ---- Opening --------------------------------------------------------- */

static int fail(const struct verbs_port *port, const char *what)
{
	return dfi__verbs_fail_port(&port->verbs->device, what, errno);
}

static int fail_cm(const struct verbs_port *port, const char *what)
{
	return dfi__verbs_fail_cm(&port->verbs->device, what, errno);
}

uint32_t dfi__verbs_multicast_size(const struct transport *transport)
{
	const struct verbs *verbs = (const struct verbs *)transport;
	struct ibv_port_attr attr;

	if (ibv_query_port(verbs->device.context, verbs->device.port, &attr))
		return 0;
	return UINT32_C(128) << attr.active_mtu;
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

/* As many receives as it can hold of those that are wanted. */
static int choose_sizes(struct verbs_port *port)
{
	struct verbs *verbs = port->verbs;
	struct ibv_device_attr device;
	uint32_t most, wanted = port->attr.receives;

	if (ibv_query_device(verbs->device.context, &device))
		return fail(port, "ibv_query_device");
	most = (uint32_t)(device.max_qp_wr < device.max_cqe
		? device.max_qp_wr
		: device.max_cqe - 1);
	if (wanted > most)
		dfi__log(DFI_LOG_INFO,
		    "verbs: %s: %u receives for %u datagrams, so that more may "
		    "be lost: max_qp_wr, max_cqe",
		    dfi__verbs_port(&verbs->device).text, most, wanted);
	port->base.receives = (uint32_t)min_u64(wanted, most);
	port->base.max_size = port->attr.max_size;
	port->max_sends = (uint32_t)min_u64(
	    VERBS_DATAGRAMS, verbs->device.limits.sends);
	port->receive_size = (uint32_t)align_up(
	    VERBS_GRH + port->attr.receive_size, CACHE_LINE);
	return 0;
}

/* Memory for receives and headers; of no use to a forked child. */
static int create_buffers(struct verbs_port *port)
{
	struct verbs *verbs = port->verbs;
	uint64_t receives = align_up(
	    (uint64_t)port->base.receives * port->receive_size, CACHE_LINE);
	uint64_t size = receives + port->max_sends * MULTICAST_HEADER_MAX;
	void *at;
	int ret = dfi__verbs_lock_room(verbs, size + port->attr.memory_size);

	if (ret < 0)
		return ret;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return fail(port, "memory for datagrams");
	madvise(at, size, MADV_DONTFORK);
	port->buffers = at;
	port->buffers_size = size;
	port->headers = port->buffers + receives;
	port->buffers_mr = ibv_reg_mr(
	    verbs->pd, at, size, IBV_ACCESS_LOCAL_WRITE);
	if (!port->buffers_mr)
		return dfi__verbs_fail_register(&verbs->device, size, errno);
	if (!port->attr.memory)
		return 0;
	/* It is only read. */
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

	port->timer = timerfd_create(
	    CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (port->timer < 0)
		return fail(port, "timerfd_create");
	port->channel = ibv_create_comp_channel(context);
	if (!port->channel)
		return fail(port, "a completion channel");
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

/* Bound to our address, so that it is on our device. */
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
	/* rdma_cm has given it one that all know. */
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
	/* The one of our traffic, which a text has, too. */
	(void)inet_pton(AF_INET6, device->gid, address.gid);
	memcpy(port->base.address.bytes, &address, sizeof(address));
}

/* What a forked child must not keep. */
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

/* ---- Closing --------------------------------------------------------- */

static void free_port(struct verbs_port *port)
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
	if (port->channel)
		ibv_destroy_comp_channel(port->channel);
	if (port->cm)
		rdma_destroy_event_channel(port->cm);
	if (port->timer >= 0)
		close(port->timer);
	if (port->memory_mr)
		ibv_dereg_mr(port->memory_mr);
	if (port->buffers_mr)
		ibv_dereg_mr(port->buffers_mr);
	if (port->buffers)
		munmap(port->buffers, port->buffers_size);
	free((char *)(uintptr_t)port->attr.group);
	free(port);
}

static void port_close(struct multicast_port *base)
{
	struct verbs_port *port = (struct verbs_port *)base;

	dfi__loop_call(port->verbs->loop, remove_events, port);
	dfi__fork_remove(port->cm->fd);
	dfi__fork_remove(port->channel->fd);
	/* Before the queue pair goes: see verbs_event.c. */
	dfi__verbs_unlist_port(port);
	free_port(port);
}

static void port_arm(struct multicast_port *base)
{
	const struct verbs_port *port = (struct verbs_port *)base;

	ibv_req_notify_cq(port->arrivals, 0);
	ibv_req_notify_cq(port->sends, 0);
}

static void port_alarm(struct multicast_port *base, int64_t at)
{
	struct verbs_port *port = (struct verbs_port *)base;

	set_timer(port, at);
	/* It may have failed before, and set the timer. */
	if (atomic_observe(&port->failed))
		set_timer(port, 0);
}

static int peer_open(struct multicast_port *base,
    const struct multicast_address *from, struct multicast_peer **out)
{
	struct verbs_port *port = (struct verbs_port *)base;
	const struct verbs_device *device = &port->verbs->device;
	struct verbs_port_address address;
	struct multicast_peer *peer;
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = device->port,
		.grh = { .sgid_index = (uint8_t)device->gid_index,
		    .hop_limit = 64 },
	};

	memcpy(&address, from->bytes, sizeof(address));
	if (!address.number || address.zero || device->gid_index < 0)
		return dfi__fail(-EBADMSG,
		    "verbs: %s: the address of a multicast port makes no sense",
		    dfi__verbs_gid(device).text);
	memcpy(attr.grh.dgid.raw, address.gid, sizeof(address.gid));
	attr.dlid = ntohs(address.lid);
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	peer->number = ntohl(address.number);
	peer->ah = ibv_create_ah(port->verbs->pd, &attr);
	if (!peer->ah) {
		free(peer);
		return errno == ENOMEM
		    ? fail_cm(port, "an address handle")
		    : dfi__fail(-EHOSTUNREACH,
			  "verbs: %s: an address handle: %s",
			  dfi__verbs_gid(device).text, strerror(errno));
	}
	*out = peer;
	return 0;
}

static void peer_close(struct multicast_peer *peer)
{
	ibv_destroy_ah(peer->ah);
	free(peer);
}

static const struct multicast_ops port_ops = {
	.close = port_close,
	.peer_open = peer_open,
	.peer_close = peer_close,
	.send = dfi__verbs_port_send,
	.room = dfi__verbs_port_room,
	.progress = dfi__verbs_port_progress,
	.arm = port_arm,
	.alarm = port_alarm,
};

static int set_up(struct verbs_port *port, int64_t deadline)
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
	return ret;
}

int dfi__verbs_multicast_open(struct transport *transport,
    const struct multicast_attr *attr, int64_t deadline,
    struct multicast_port **out)
{
	struct verbs_port *port = calloc(1, sizeof(*port));
	int ret;

	if (!port)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	port->base.ops = &port_ops;
	port->verbs = (struct verbs *)transport;
	port->timer = -1;
	port->attr = *attr;
	port->attr.group = strdup(attr->group);
	if (!port->attr.group)
		ret = dfi__fail(-ENOMEM, "verbs: out of memory");
	else
		ret = set_up(port, deadline);
	if (ret < 0) {
		free_port(port);
		return ret;
	}
	set_address(port);
	dfi__verbs_list_port(port);
	ret = dfi__loop_call(port->verbs->loop, add_events, port);
	if (ret < 0) {
		port_close(&port->base);
		return ret;
	}
	*out = &port->base;
	return 0;
}
