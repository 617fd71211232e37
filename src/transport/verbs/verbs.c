/* SPDX-License-Identifier: Apache-2.0 */
/* The transport starts and stops; and its table, which the folders fill. */
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fence.h"
#include "base/fork_files.h"
#include "base/settings.h"
#include "security/mac.h"
#include "connection/connection.h"
#include "data/arrive.h"
#include "data/memory.h"
#include "data/message.h"
#include "data/ring.h"
#include "device/fail.h"
#include "events.h"
#include "multicast/multicast.h"
#include "stats.h"

/*
 * What keeps the device's queue pairs: a forked child can't use them, but would
 * have them answer for a process that has died. The descriptors of the device
 * are those of all contexts here.
 */
#define N_FILES 5

static void list_files(const struct verbs *verbs, int fds[N_FILES])
{
	fds[0] = verbs->device.context->cmd_fd;
	fds[1] = verbs->device.context->async_fd;
	fds[2] = verbs->channel->fd;
	fds[3] = verbs->hold->channel->fd;
	fds[4] = verbs->cm->fd;
}

static void keep_files(const struct verbs *verbs)
{
	int fds[N_FILES], i;

	list_files(verbs, fds);
	for (i = 0; i < N_FILES; i++)
		dfi__fork_remove(fds[i]);
}

static int close_files_in_children(const struct verbs *verbs)
{
	int fds[N_FILES], i, ret = 0;

	list_files(verbs, fds);
	for (i = 0; !ret && i < N_FILES; i++)
		ret = dfi__fork_add(fds[i]);
	if (ret < 0)
		while (--i > 0)
			dfi__fork_remove(fds[i - 1]);
	return ret;
}

/* Handle all events; on the control thread. */
static int watch(void *arg)
{
	struct verbs *verbs = arg;
	int ret = dfi__verbs_arrivals_watch(verbs);

	if (!ret)
		ret = dfi__verbs_breaks_watch(verbs);
	if (!ret)
		ret = dfi__verbs_events_watch(verbs);
	return ret ? ret : dfi__verbs_listen_watch(verbs);
}

/* Handle no events but the device's; on the control thread. */
static int quiet(void *arg)
{
	dfi__verbs_arrivals_quiet(arg);
	dfi__verbs_breaks_quiet(arg);
	dfi__verbs_unlisten_quiet(arg);
	return 0;
}

static void free_verbs(struct verbs *verbs)
{
	pthread_cond_destroy(&verbs->answered);
	pthread_mutex_destroy(&verbs->table);
	free(verbs);
}

/* On the control thread. */
static void end(void *arg)
{
	struct verbs *verbs = arg;
	uint32_t i;

	keep_files(verbs);
	quiet(verbs);
	dfi__verbs_drain_all(verbs);
	dfi__verbs_events_stop(verbs);
	dfi__verbs_unlisten(verbs);
	/* Remotes whose owner has not said CLOSED. */
	for (i = 0; i < verbs->n_links; i++)
		if (verbs->links[i].remote)
			dfi__verbs_free_remote(verbs->links[i].remote);
	dfi__verbs_free_exports(verbs);
	dfi__verbs_breaks_stop(verbs);
	dfi__verbs_arrivals_stop(verbs);
	ibv_dealloc_pd(verbs->pd);
	rdma_destroy_id(verbs->hold);
	free(verbs->links);
	free(verbs->polled);
	free_verbs(verbs);
}

static int verbs_start(struct loop *loop, const struct settings *settings,
    const struct member *self, struct transport **transport)
{
	struct verbs *verbs = calloc(1, sizeof(*verbs));
	pthread_condattr_t attr;
	int64_t deadline;
	int ret;

	if (!verbs)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	/* For handshakes, which the control thread answers. */
	ret = dfi__mac_ready();
	if (ret < 0) {
		free(verbs);
		return dfi__fail_within(ret, "verbs");
	}
	verbs->base.ops = &dfi__verbs_ops;
	verbs->loop = loop;
	verbs->settings = settings;
	verbs->self = *self;
	verbs->end = (struct loop_post){ .fn = end, .arg = verbs };
	pthread_mutex_init(&verbs->table, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&verbs->answered, &attr);
	pthread_condattr_destroy(&attr);
	dfi__fence_setup();
	/* Has no effect, and is not needed, where fork() copies pinned pages.
	 */
	ibv_fork_init();
	ret = dfi__verbs_choose(
	    settings, self->device, self->route_to, &verbs->device);
	if (!ret)
		ret = dfi__verbs_hold(verbs);
	if (ret < 0) {
		free_verbs(verbs);
		return ret;
	}
	verbs->pd = ibv_alloc_pd(verbs->device.context);
	if (!verbs->pd) {
		ret = dfi__verbs_fail_port(
		    &verbs->device, "a protection domain", errno);
		goto release;
	}
	ret = dfi__verbs_arrivals_start(verbs);
	if (ret < 0)
		goto free_pd;
	ret = dfi__verbs_breaks_start(verbs);
	if (ret < 0)
		goto stop_arrivals;
	ret = dfi__verbs_events_start(verbs);
	if (ret < 0)
		goto stop_breaks;
	ret = dfi__verbs_listen(verbs);
	if (ret < 0)
		goto stop_events;
	ret = close_files_in_children(verbs);
	if (ret < 0)
		goto unlisten;
	deadline = deadline_in_ms(settings->open_timeout_ms);
	ret = dfi__loop_call(loop, watch, verbs, deadline);
	if (ret < 0)
		dfi__loop_end(loop, &verbs->end, deadline);
	else
		*transport = &verbs->base;
	return ret;

unlisten:
	dfi__verbs_unlisten(verbs);
stop_events:
	dfi__verbs_events_stop(verbs);
stop_breaks:
	dfi__verbs_breaks_stop(verbs);
stop_arrivals:
	dfi__verbs_arrivals_stop(verbs);
free_pd:
	ibv_dealloc_pd(verbs->pd);
release:
	rdma_destroy_id(verbs->hold);
	free_verbs(verbs);
	return ret;
}

/* Connections drain while the control thread handles the device's events. */
static void verbs_leave(struct transport *transport, int64_t deadline)
{
	struct verbs *verbs = (struct verbs *)transport;

	dfi__verbs_see_off(verbs, deadline);
	if (!dfi__loop_call(verbs->loop, quiet, verbs, deadline))
		dfi__verbs_drain_all(verbs);
}

static void verbs_stop(struct transport *transport)
{
	struct verbs *verbs = (struct verbs *)transport;

	dfi__loop_end(verbs->loop, &verbs->end,
	    deadline_in_ms(verbs->settings->open_timeout_ms));
}

/* By the device on the route, or of the same network. */
static bool verbs_reaches(
    const struct transport *transport, const char *address)
{
	const struct verbs *verbs = (const struct verbs *)transport;
	const struct verbs_device *device = &verbs->device;
	const struct settings *settings = verbs->settings;
	struct rdma_cm_id *id;
	union ip to, from;
	bool reaches, one;

	one = (settings->verbs_device || settings->verbs_address) &&
	    dfi__verbs_n_devices(settings) == 1;
	/* A link-local peer is on the network of our device. */
	if (one || !dfi__ip_parse(address, &to) || dfi__ip_is_link_local(&to) ||
	    (dfi__verbs_n_devices(settings) > 1 &&
		dfi__ip_same_network(
		    &to, &device->address, device->network_bits)) ||
	    !dfi__ip_route(&to, &from) ||
	    dfi__ip_same_host(&from, &verbs->device.address))
		return true;
	/* It may be another address of the same device, or of none. */
	reaches = !dfi__verbs_open_id(&from, &id) || !id->verbs ||
	    id->verbs == verbs->device.context;
	if (id)
		rdma_destroy_id(id);
	return reaches;
}

static bool verbs_is_v6(const struct transport *transport)
{
	return transport->address[0] == '[';
}

static const struct mcast_ops verbs_mcast_ops = {
	.is_v6 = verbs_is_v6,
	.size = dfi__verbs_multicast_size,
	.bytes = dfi__verbs_multicast_bytes,
	.room = dfi__verbs_multicast_room,
	.open = dfi__verbs_multicast_open,
};

const struct transport_ops dfi__verbs_ops = {
	.name = "verbs",
	/* Payload and footer are one write, in this order (data/write.c). */
	.footer_sides = FOOTER_SIDE(FOOTER_BEHIND),
	.start = verbs_start,
	.leave = verbs_leave,
	.stop = verbs_stop,
	.reaches = verbs_reaches,
	.progress = dfi__verbs_progress,
	.settle = dfi__verbs_settle,
	.arm = dfi__verbs_arm,
	.describe = dfi__verbs_describe,
	.query = dfi__verbs_query,
	.devices = dfi__verbs_list,
	.n_devices = dfi__verbs_n_devices,
	.region.export_room = dfi__verbs_export_room,
	.region.export = dfi__verbs_export,
	.region.unexport = dfi__verbs_unexport,
	.ring.send_buffer_create = dfi__verbs_send_buffer_create,
	.ring.send_buffer_free = dfi__verbs_send_buffer_free,
	.ring.room = dfi__verbs_remote_room,
	.ring.open = dfi__verbs_remote_open,
	.ring.close = dfi__verbs_remote_close,
	.ring.write = dfi__verbs_write,
	.ring.post = dfi__verbs_post_remote,
	.ring.give_credit = dfi__verbs_give_credit,
	.ring.slot_is_free = dfi__verbs_slot_is_free,
	.ring.drained = dfi__verbs_drained,
	.ring.lost = dfi__verbs_ring_lost,
	.ring.writer_why = dfi__verbs_ring_why,
	.ring.owner_why = dfi__verbs_remote_why,
	.ring.progress = dfi__verbs_remote_progress,
	.ring.arm = dfi__verbs_arm_remote,
	.counter.add = dfi__verbs_add,
	.counter.added = dfi__verbs_added,
	.mcast = &verbs_mcast_ops,
};
