/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing datagram endpoints, whose parts multicast/endpoint.c
 * makes. An endpoint has descriptors of its own, which the control thread
 * watches: rdma_cm's, its completions', and a timer.
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

static void set_timer(const struct verbs_endpoint *endpoint, int64_t at)
{
	struct itimerspec time = { .it_value.tv_nsec = 0 };

	if (at != DEADLINE_NEVER)
		time.it_value = deadline_timespec(at > 0 ? at : 1);
	/* This cannot fail (timerfd_settime(2)). */
	(void)timerfd_settime(endpoint->timer, TFD_TIMER_ABSTIME, &time, NULL);
}

void dfi__verbs_endpoint_fail(struct verbs_endpoint *endpoint, const char *why)
{
	const char *none = NULL;

	/* Pairs with has_failed(): the text. */
	if (!atomic_compare_exchange_strong(&endpoint->failed, &none, why))
		return;
	dfi__log(DFI_LOG_WARN, "verbs: %s: multicast group %s: %s",
	    dfi__verbs_gid(&endpoint->verbs->device).text, endpoint->attr.group,
	    why);
	set_timer(endpoint, 0);
}

/* ---- All endpoints of a transport -------------------------------------- */

/* No thread holds it while it destroys a queue pair: see events.c. */
static pthread_mutex_t endpoints_lock = PTHREAD_MUTEX_INITIALIZER;

void dfi__verbs_list_endpoint(struct verbs_endpoint *endpoint)
{
	pthread_mutex_lock(&endpoints_lock);
	endpoint->next = endpoint->verbs->endpoints;
	endpoint->verbs->endpoints = endpoint;
	pthread_mutex_unlock(&endpoints_lock);
}

void dfi__verbs_unlist_endpoint(struct verbs_endpoint *endpoint)
{
	struct verbs_endpoint **at;

	pthread_mutex_lock(&endpoints_lock);
	for (at = &endpoint->verbs->endpoints; *at != endpoint;
	     at = &(*at)->next)
		;
	*at = endpoint->next;
	dfi__verbs_add_counts(
	    &endpoint->verbs->retired_endpoints, &endpoint->counts);
	pthread_mutex_unlock(&endpoints_lock);
}

void dfi__verbs_fail_endpoints(struct verbs *verbs, const struct ibv_qp *qp,
    const struct ibv_comp_channel *channel, const char *why)
{
	struct verbs_endpoint *endpoint;

	pthread_mutex_lock(&endpoints_lock);
	for (endpoint = verbs->endpoints; endpoint; endpoint = endpoint->next)
		if ((!qp && !channel) || (qp && endpoint->id->qp == qp) ||
		    (channel && endpoint->channel == channel))
			dfi__verbs_endpoint_fail(endpoint, why);
	pthread_mutex_unlock(&endpoints_lock);
}

void dfi__verbs_query_endpoints(struct verbs *verbs,
    struct verbs_counts *counts, struct dfi_transport_stats *stats)
{
	const struct verbs_endpoint *endpoint;

	pthread_mutex_lock(&endpoints_lock);
	dfi__verbs_add_counts(counts, &verbs->retired_endpoints);
	for (endpoint = verbs->endpoints; endpoint; endpoint = endpoint->next) {
		dfi__verbs_add_counts(counts, &endpoint->counts);
		stats->connections++;
		stats->receives += endpoint->base.receives;
		stats->memory_regions += endpoint->memory_mr ? 2 : 1;
	}
	pthread_mutex_unlock(&endpoints_lock);
}

/* ---- On the control thread ------------------------------------------- */

static void call_ready(struct verbs_endpoint *endpoint)
{
	pthread_mutex_lock(&endpoint->lock);
	if (!endpoint->closed)
		endpoint->attr.ready(endpoint->attr.arg);
	pthread_mutex_unlock(&endpoint->lock);
}

/* rdma_cm reports something after the endpoint has joined: only errors. */
static void on_cm(evutil_socket_t fd, short what, void *arg)
{
	struct verbs_endpoint *endpoint = arg;
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	(void)fd;
	(void)what;
	while (rdma_get_cm_event(endpoint->cm, &event) == 0) {
		type = event->event;
		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			dfi__verbs_endpoint_fail(
			    endpoint, "the device was removed");
		else if (type == RDMA_CM_EVENT_MULTICAST_ERROR)
			dfi__verbs_endpoint_fail(
			    endpoint, rdma_event_str(type));
	}
}

static void on_completion(evutil_socket_t fd, short what, void *arg)
{
	struct verbs_endpoint *endpoint = arg;
	struct ibv_cq *cq;
	void *context;

	(void)fd;
	(void)what;
	while (ibv_get_cq_event(endpoint->channel, &cq, &context) == 0)
		ibv_ack_cq_events(cq, 1);
	/* The kernel has taken the device away: the file stays readable. */
	if (errno != EAGAIN && errno != EINTR) {
		event_del(endpoint->channel_event);
		dfi__verbs_endpoint_fail(endpoint, "the device is gone");
	}
	call_ready(endpoint);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct verbs_endpoint *endpoint = arg;
	uint64_t times;

	(void)what;
	/* If it was set again meanwhile, it is not due any more. */
	if (read(fd, &times, sizeof(times)) == sizeof(times))
		call_ready(endpoint);
}

static struct event *watch(
    struct verbs_endpoint *endpoint, int fd, event_callback_fn fn)
{
	struct event *event = event_new(dfi__loop_base(endpoint->verbs->loop),
	    fd, EV_READ | EV_PERSIST, fn, endpoint);

	if (event && event_add(event, NULL) < 0) {
		event_free(event);
		event = NULL;
	}
	return event;
}

static int remove_events(void *arg)
{
	struct verbs_endpoint *endpoint = arg;

	if (endpoint->cm_event)
		event_free(endpoint->cm_event);
	if (endpoint->channel_event)
		event_free(endpoint->channel_event);
	if (endpoint->timer_event)
		event_free(endpoint->timer_event);
	endpoint->cm_event = endpoint->channel_event = endpoint->timer_event =
	    NULL;
	return 0;
}

static int add_events(void *arg)
{
	struct verbs_endpoint *endpoint = arg;

	endpoint->cm_event = watch(endpoint, endpoint->cm->fd, on_cm);
	endpoint->channel_event = watch(
	    endpoint, endpoint->channel->fd, on_completion);
	endpoint->timer_event = watch(endpoint, endpoint->timer, on_timer);
	if (endpoint->cm_event && endpoint->channel_event &&
	    endpoint->timer_event)
		return 0;
	remove_events(endpoint);
	return dfi__fail(-ENOMEM, "verbs: out of memory");
}

static void finish_close(void *arg)
{
	remove_events(arg);
	dfi__verbs_endpoint_free(arg);
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

void dfi__verbs_endpoint_close(struct multicast_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	int ret;

	pthread_mutex_lock(&endpoint->lock);
	endpoint->closed = true;
	pthread_mutex_unlock(&endpoint->lock);
	ret = dfi__loop_call(endpoint->verbs->loop, remove_events, endpoint,
	    deadline_in_ms(CLOSE_MS));
	if (endpoint->cm)
		dfi__fork_remove(endpoint->cm->fd);
	if (endpoint->channel)
		dfi__fork_remove(endpoint->channel->fd);
	/* Before the queue pair is destroyed: see events.c. */
	dfi__verbs_unlist_endpoint(endpoint);
	if (!ret) {
		dfi__verbs_endpoint_free(endpoint);
		return;
	}
	/* The control thread has not run: it frees the events when it does. */
	dfi__verbs_endpoint_stop(endpoint);
	endpoint->closing.fn = finish_close;
	endpoint->closing.arg = endpoint;
	dfi__loop_post(endpoint->verbs->loop, &endpoint->closing);
}

static void endpoint_arm(struct multicast_endpoint *base)
{
	const struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	ibv_req_notify_cq(endpoint->arrivals, 0);
	ibv_req_notify_cq(endpoint->sends, 0);
}

static void endpoint_alarm(struct multicast_endpoint *base, int64_t at)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	set_timer(endpoint, at);
	/* The endpoint may have failed earlier, and set the timer. */
	if (atomic_observe(&endpoint->failed))
		set_timer(endpoint, 0);
}

static int peer_open(struct multicast_endpoint *base,
    const struct multicast_address *from, struct multicast_peer **out)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	const struct verbs_device *device = &endpoint->verbs->device;
	struct verbs_endpoint_address address;
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
	peer->ah = ibv_create_ah(endpoint->verbs->pd, &attr);
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

static const struct multicast_ops endpoint_ops = {
	.close = dfi__verbs_endpoint_close,
	.peer_open = peer_open,
	.peer_close = peer_close,
	.send = dfi__verbs_endpoint_send,
	.room = dfi__verbs_endpoint_room,
	.take = dfi__verbs_endpoint_take,
	.arm = endpoint_arm,
	.alarm = endpoint_alarm,
};

int dfi__verbs_multicast_open(struct transport *transport,
    const struct multicast_attr *attr, int64_t deadline,
    struct multicast_endpoint **out)
{
	struct verbs_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int ret;

	if (!endpoint)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	endpoint->base.ops = &endpoint_ops;
	endpoint->verbs = (struct verbs *)transport;
	endpoint->timer = -1;
	pthread_mutex_init(&endpoint->lock, NULL);
	endpoint->attr = *attr;
	endpoint->attr.group = strdup(attr->group);
	if (!endpoint->attr.group)
		ret = dfi__fail(-ENOMEM, "verbs: out of memory");
	else
		ret = dfi__verbs_endpoint_make(endpoint, deadline);
	if (ret < 0) {
		dfi__verbs_endpoint_free(endpoint);
		return ret;
	}
	dfi__verbs_list_endpoint(endpoint);
	ret = dfi__loop_call(
	    endpoint->verbs->loop, add_events, endpoint, deadline);
	if (ret < 0) {
		dfi__verbs_endpoint_close(&endpoint->base);
		return ret;
	}
	*out = &endpoint->base;
	return 0;
}
