/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing datagram endpoints, whose parts multicast/port.c makes.
 * An endpoint has descriptors of its own, which the control thread watches:
 * rdma_cm's, its completions', and a timer.
 */
#include "multicast.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <dfi/context.h>
#include "base/error.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/loop.h"
#include "transport/verbs/data/conn.h"
#include "transport/verbs/device/fail.h"

/* How long a close waits for the control thread, which is rarely busy. */
#define CLOSE_MS 1000

static void set_timer(const struct verbs_port *port, int64_t at)
{
	struct itimerspec time = { .it_value.tv_nsec = 0 };

	if (at != DEADLINE_NEVER)
		time.it_value = deadline_timespec(at > 0 ? at : 1);
	/* This cannot fail (timerfd_settime(2)). */
	(void)timerfd_settime(port->timer, TFD_TIMER_ABSTIME, &time, NULL);
}

void dfi__verbs_port_fail(struct verbs_port *port, const char *why)
{
	const char *none = NULL;

	/* Pairs with has_failed(): the text. */
	if (!atomic_compare_exchange_strong(&port->failed, &none, why))
		return;
	dfi__log(DFI_LOG_WARN, "verbs: %s: multicast group %s: %s",
	    dfi__verbs_gid(&port->verbs->device).text, port->attr.group, why);
	set_timer(port, 0);
}

/* ---- All endpoints of a transport -------------------------------------- */

/* No thread holds it while it destroys a queue pair: see events.c. */
static pthread_mutex_t ports_lock = PTHREAD_MUTEX_INITIALIZER;

void dfi__verbs_list_port(struct verbs_port *port)
{
	pthread_mutex_lock(&ports_lock);
	port->next = port->verbs->ports;
	port->verbs->ports = port;
	pthread_mutex_unlock(&ports_lock);
}

void dfi__verbs_unlist_port(struct verbs_port *port)
{
	struct verbs_port **at;

	pthread_mutex_lock(&ports_lock);
	for (at = &port->verbs->ports; *at != port; at = &(*at)->next)
		;
	*at = port->next;
	dfi__verbs_add_counts(&port->verbs->retired_ports, &port->counts);
	pthread_mutex_unlock(&ports_lock);
}

void dfi__verbs_fail_ports(struct verbs *verbs, const struct ibv_qp *qp,
    const struct ibv_comp_channel *channel, const char *why)
{
	struct verbs_port *port;

	pthread_mutex_lock(&ports_lock);
	for (port = verbs->ports; port; port = port->next)
		if ((!qp && !channel) || (qp && port->id->qp == qp) ||
		    (channel && port->channel == channel))
			dfi__verbs_port_fail(port, why);
	pthread_mutex_unlock(&ports_lock);
}

void dfi__verbs_query_ports(struct verbs *verbs, struct verbs_counts *counts,
    struct dfi_transport_stats *stats)
{
	const struct verbs_port *port;

	pthread_mutex_lock(&ports_lock);
	dfi__verbs_add_counts(counts, &verbs->retired_ports);
	for (port = verbs->ports; port; port = port->next) {
		dfi__verbs_add_counts(counts, &port->counts);
		stats->connections++;
		stats->receives += port->base.receives;
		stats->memory_regions += port->memory_mr ? 2 : 1;
	}
	pthread_mutex_unlock(&ports_lock);
}

/* ---- On the control thread ------------------------------------------- */

static void tell_ready(struct verbs_port *port)
{
	pthread_mutex_lock(&port->lock);
	if (!port->closed)
		port->attr.ready(port->attr.arg);
	pthread_mutex_unlock(&port->lock);
}

/* rdma_cm reports something after the endpoint has joined: only errors. */
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
	tell_ready(port);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct verbs_port *port = arg;
	uint64_t times;

	(void)what;
	/* If it was set again meanwhile, it is not due any more. */
	if (read(fd, &times, sizeof(times)) == sizeof(times))
		tell_ready(port);
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

static void finish_close(void *arg)
{
	remove_events(arg);
	dfi__verbs_port_free(arg);
}

/* ---- For users of endpoints ------------------------------------------ */

uint32_t dfi__verbs_multicast_size(const struct transport *transport)
{
	const struct verbs *verbs = (const struct verbs *)transport;
	struct ibv_port_attr attr;

	if (ibv_query_port(verbs->device.context, verbs->device.port, &attr))
		return 0;
	return UINT32_C(128) << attr.active_mtu;
}

void dfi__verbs_port_close(struct multicast_port *base)
{
	struct verbs_port *port = (struct verbs_port *)base;
	int ret;

	pthread_mutex_lock(&port->lock);
	port->closed = true;
	pthread_mutex_unlock(&port->lock);
	ret = dfi__loop_call(
	    port->verbs->loop, remove_events, port, deadline_in_ms(CLOSE_MS));
	if (port->cm)
		dfi__fork_remove(port->cm->fd);
	if (port->channel)
		dfi__fork_remove(port->channel->fd);
	/* Before the queue pair is destroyed: see events.c. */
	dfi__verbs_unlist_port(port);
	if (!ret) {
		dfi__verbs_port_free(port);
		return;
	}
	/* The control thread has not run: it frees the events when it does. */
	dfi__verbs_port_stop(port);
	port->closing.fn = finish_close;
	port->closing.arg = port;
	dfi__loop_post(port->verbs->loop, &port->closing);
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
	/* The endpoint may have failed earlier, and set the timer. */
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
	int err;
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
		err = errno;
		free(peer);
		return err == ENOMEM
		    ? dfi__verbs_fail_cm(device, "an address handle", err)
		    : dfi__fail(-EHOSTUNREACH,
			  "verbs: %s: an address handle: %s",
			  dfi__verbs_gid(device).text, strerror(err));
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
	.close = dfi__verbs_port_close,
	.peer_open = peer_open,
	.peer_close = peer_close,
	.send = dfi__verbs_port_send,
	.room = dfi__verbs_port_room,
	.progress = dfi__verbs_port_progress,
	.arm = port_arm,
	.alarm = port_alarm,
};

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
	pthread_mutex_init(&port->lock, NULL);
	port->attr = *attr;
	port->attr.group = strdup(attr->group);
	if (!port->attr.group)
		ret = dfi__fail(-ENOMEM, "verbs: out of memory");
	else
		ret = dfi__verbs_port_make(port, deadline);
	if (ret < 0) {
		dfi__verbs_port_free(port);
		return ret;
	}
	dfi__verbs_list_port(port);
	ret = dfi__loop_call(port->verbs->loop, add_events, port, deadline);
	if (ret < 0) {
		dfi__verbs_port_close(&port->base);
		return ret;
	}
	*out = &port->base;
	return 0;
}
