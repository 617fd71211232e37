/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that devices report: errors of queue pairs and queues, ports that go
 * down and come back, and the removal of a device.
 *
 * rdma_cm opens a device once for the whole process. So all its contexts share
 * one queue of events, and whichever of them reads an event handles it for all.
 * An object can't be destroyed while an event about it is not acknowledged;
 * until then its connection stays in memory. So no lock may be taken here that
 * a thread holds while it destroys an object.
 */
#include "events.h"

#include <event2/event.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "base/atomic.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "data/conn.h"
#include "device/fail.h"
#include "multicast/multicast.h"
#include "verbs.h"

/* Protects the list of all instances: an event may name only a device. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct verbs *all;

/* The lock of the list is held. */
static void fail_all(struct verbs *verbs, const char *why)
{
	atomic_fetch_add(&verbs->fatal_events, 1);
	dfi__log(DFI_LOG_ERROR, "verbs: %s: %s: all its connections break",
	    dfi__verbs_port(&verbs->device).text, why);
	dfi__verbs_break_all(verbs, why);
	dfi__verbs_fail_endpoints(verbs, NULL, NULL, why);
}

/* Fail the instances that use the device, or a queue of it. */
static void fail_users(const struct ibv_context *context,
    const struct ibv_cq *cq, const struct ibv_srq *srq, const char *why)
{
	struct verbs *verbs;

	pthread_mutex_lock(&all_lock);
	for (verbs = all; verbs; verbs = verbs->next)
		if ((context && verbs->device.context == context) ||
		    (cq && verbs->arrivals == cq) ||
		    (srq && verbs->receives == srq))
			fail_all(verbs, why);
	pthread_mutex_unlock(&all_lock);
}

static void fail_conn(struct verbs_conn *conn, const char *why)
{
	atomic_fetch_add(&conn->verbs->fatal_events, 1);
	dfi__verbs_break(conn, why);
}

/*
 * Tells whether some context here made a queue. An application that uses
 * rdma_cm itself shares the events.
 */
static bool is_ours(
    const struct ibv_srq *receives, const struct ibv_comp_channel *channel)
{
	const struct verbs *verbs;

	pthread_mutex_lock(&all_lock);
	for (verbs = all; verbs; verbs = verbs->next)
		if ((receives && verbs->receives == receives) ||
		    (channel && verbs->channel == channel))
			break;
	pthread_mutex_unlock(&all_lock);
	return verbs;
}

/* Fail the datagram endpoint that has this queue pair or channel. */
static void fail_endpoint(const struct ibv_qp *qp,
    const struct ibv_comp_channel *channel, const char *why)
{
	struct verbs *verbs;

	/* A completion queue without a channel is not ours. */
	if (!qp && !channel)
		return;
	pthread_mutex_lock(&all_lock);
	for (verbs = all; verbs; verbs = verbs->next)
		dfi__verbs_fail_endpoints(verbs, qp, channel, why);
	pthread_mutex_unlock(&all_lock);
}

static void qp_failed(struct ibv_qp *qp, const char *why)
{
	if (is_ours(qp->srq, NULL))
		fail_conn(qp->qp_context, why);
	else
		fail_endpoint(qp, NULL, why);
}

/* The last receive of a queue pair in an error state was given back. */
static void gave_back(const struct ibv_qp *qp)
{
	struct verbs_conn *conn = qp->qp_context;

	if (!is_ours(qp->srq, NULL))
		return;
	/* Pairs with dfi__verbs_is_drained(). */
	atomic_publish(&conn->gave_back, true);
	dfi__verbs_breaks_wake(conn->verbs);
}

static void cq_failed(struct ibv_cq *cq, const char *why)
{
	if (!is_ours(NULL, cq->channel)) {
		fail_endpoint(NULL, cq->channel, why);
		return;
	}
	if (cq->cq_context)
		fail_conn(cq->cq_context, why); /* the queue of its sends */
	else
		fail_users(NULL, cq, NULL, why);
}

/*
 * The loss of a port breaks nothing by itself: queue pairs send again when it
 * comes back, and give up after their retries if it does not.
 */
static void port_changed(
    const struct ibv_context *context, uint8_t port, bool down)
{
	const char *name = ibv_get_device_name(context->device);
	struct verbs *verbs;
	bool used = false;

	pthread_mutex_lock(&all_lock);
	for (verbs = all; verbs; verbs = verbs->next)
		if (verbs->device.context == context &&
		    verbs->device.port == port) {
			used = true;
			atomic_fetch_add(&verbs->port_downs, down);
		}
	pthread_mutex_unlock(&all_lock);
	if (!used)
		return;
	if (down)
		dfi__log(DFI_LOG_WARN,
		    "verbs: %s port %u: the link is down: connections break "
		    "if it stays so",
		    name, port);
	else
		dfi__log(DFI_LOG_WARN,
		    "verbs: %s port %u: the link is up again", name, port);
}

void dfi__verbs_event(
    const struct ibv_context *context, const struct ibv_async_event *event)
{
	const char *text = ibv_event_type_str(event->event_type);

	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		qp_failed(event->element.qp, text);
		break;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		gave_back(event->element.qp);
		break;
	case IBV_EVENT_CQ_ERR:
		cq_failed(event->element.cq, text);
		break;
	case IBV_EVENT_SRQ_ERR:
		fail_users(NULL, NULL, event->element.srq, text);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		fail_users(context, NULL, NULL, text);
		break;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
		port_changed(context, (uint8_t)event->element.port_num,
		    event->event_type == IBV_EVENT_PORT_ERR);
		break;
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		/* Only new connections use the changed address. */
		dfi__log(DFI_LOG_INFO, "verbs: %s port %d: %s",
		    ibv_get_device_name(context->device),
		    event->element.port_num, text);
		break;
	default:
		break; /* part of a connection's life: no error */
	}
}

static void on_async(evutil_socket_t fd, short what, void *arg)
{
	struct verbs *verbs = arg;
	struct ibv_async_event event;

	(void)fd;
	(void)what;
	while (ibv_get_async_event(verbs->device.context, &event) == 0) {
		dfi__verbs_event(verbs->device.context, &event);
		ibv_ack_async_event(&event);
	}
	/* The kernel has taken the device away: the file stays readable. */
	if (errno != EAGAIN && errno != EINTR) {
		event_del(verbs->async_event);
		pthread_mutex_lock(&all_lock);
		fail_all(verbs, "the device is gone");
		pthread_mutex_unlock(&all_lock);
	}
}

int dfi__verbs_events_watch(struct verbs *verbs)
{
	verbs->async_event = event_new(dfi__loop_base(verbs->loop),
	    verbs->device.context->async_fd, EV_READ | EV_PERSIST, on_async,
	    verbs);
	if (!verbs->async_event || event_add(verbs->async_event, NULL) < 0)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	return 0;
}

void dfi__verbs_events_list(struct verbs *verbs)
{
	pthread_mutex_lock(&all_lock);
	verbs->next = all;
	all = verbs;
	pthread_mutex_unlock(&all_lock);
}

void dfi__verbs_events_unlist(struct verbs *verbs)
{
	struct verbs **at;

	pthread_mutex_lock(&all_lock);
	for (at = &all; *at && *at != verbs; at = &(*at)->next)
		;
	if (*at)
		*at = verbs->next;
	pthread_mutex_unlock(&all_lock);
}

int dfi__verbs_events_start(struct verbs *verbs)
{
	int fd = verbs->device.context->async_fd;
	int flags = fcntl(fd, F_GETFL);

	/* Another context may have read what the loop was woken for. */
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return dfi__verbs_fail_port(
		    &verbs->device, "its events", errno);
	dfi__verbs_events_list(verbs);
	return 0;
}

void dfi__verbs_events_stop(struct verbs *verbs)
{
	if (verbs->async_event)
		event_free(verbs->async_event);
	verbs->async_event = NULL;
	dfi__verbs_events_unlist(verbs);
}
