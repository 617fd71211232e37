/* SPDX-License-Identifier: Apache-2.0 */
/* The transport starts and stops; and its table, which the other files fill. */
#include "ofi.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fence.h"
#include "base/files.h"
#include "conn.h"
#include "fabric.h"
#include "security/mac.h"

static void free_ofi(struct ofi *ofi)
{
	if (ofi->wake >= 0)
		close(ofi->wake);
	pthread_cond_destroy(&ofi->answered);
	pthread_mutex_destroy(&ofi->table);
	free(ofi->links);
	free(ofi);
}

/* Close all endpoints, whatever their state, and take what ends with them. */
static void close_all(struct ofi *ofi)
{
	struct ofi_conn *conn;
	uint32_t i;

	dfi__ofi_lock_poll(ofi);
	pthread_mutex_lock(&ofi->table);
	for (conn = ofi->conns; conn; conn = conn->next) {
		dfi__ofi_close_conn(conn);
	}
	pthread_mutex_unlock(&ofi->table);
	dfi__ofi_take(ofi);
	for (i = 0; i < ofi->n_links; i++)
		if (ofi->links[i].conn && ofi->links[i].remote)
			dfi__ofi_free_remote(ofi->links[i].remote);
	while (ofi->conns)
		dfi__ofi_free_conn(ofi->conns);
	lock_release(&ofi->poll);
}

/* On the control thread. */
static void end(void *arg)
{
	struct ofi *ofi = arg;

	dfi__ofi_quiet(ofi);
	close_all(ofi);
	dfi__ofi_free_exports(ofi);
	dfi__ofi_close(ofi);
	free_ofi(ofi);
}

static int watch(void *arg)
{
	return dfi__ofi_watch(arg);
}

static void init(struct ofi *ofi, struct loop *loop,
    const struct settings *settings, const struct member *self)
{
	pthread_condattr_t attr;

	ofi->base.ops = &dfi__ofi_ops;
	ofi->loop = loop;
	ofi->settings = settings;
	ofi->self = *self;
	ofi->end = (struct loop_post){ .fn = end, .arg = ofi };
	ofi->wake = ofi->listener_fd = ofi->descriptors.set = -1;
	pthread_mutex_init(&ofi->table, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&ofi->answered, &attr);
	pthread_condattr_destroy(&attr);
}

static int ofi_start(struct loop *loop, const struct settings *settings,
    const struct member *self, struct transport **transport)
{
	struct ofi *ofi = calloc(1, sizeof(*ofi));
	int64_t deadline = deadline_in_ms(settings->open_timeout_ms);
	int ret;

	if (!ofi)
		return dfi__fail(-ENOMEM, "ofi: out of memory");
	init(ofi, loop, settings, self);
	dfi__fence_setup();
	/* For handshakes, which the control thread answers. */
	ret = dfi__mac_ready();
	if (ret < 0) {
		free_ofi(ofi);
		return dfi__fail_within(ret, "ofi");
	}
	ofi->wake = file_up(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (ofi->wake < 0) {
		ret = dfi__fail_files(errno, OFI_FILES, "eventfd", "ofi");
		free_ofi(ofi);
		return ret;
	}
	ret = dfi__ofi_open(ofi, self->route_to);
	if (ret < 0) {
		free_ofi(ofi);
		return ret;
	}
	ret = dfi__loop_call(loop, watch, ofi, deadline);
	if (ret < 0)
		dfi__loop_end(loop, &ofi->end, deadline);
	else
		*transport = &ofi->base;
	return ret;
}

static void ofi_leave(struct transport *transport, int64_t deadline)
{
	dfi__ofi_see_off((struct ofi *)transport, deadline);
}

static void ofi_stop(struct transport *transport)
{
	struct ofi *ofi = (struct ofi *)transport;

	dfi__loop_end(ofi->loop, &ofi->end,
	    deadline_in_ms(ofi->settings->open_timeout_ms));
}

/* Routes lead to all peers, whatever the address that this end listens at. */
static bool ofi_reaches(const struct transport *transport, const char *address)
{
	(void)transport;
	(void)address;
	return true;
}

const struct transport_ops dfi__ofi_ops = {
	.name = "ofi",
	/* The owner makes footers (arrive.c). */
	.footer_sides = FOOTER_SIDES_BOTH,
	.moves_by_looks = true,
	.start = ofi_start,
	.leave = ofi_leave,
	.stop = ofi_stop,
	.reaches = ofi_reaches,
	.progress = dfi__ofi_progress,
	.settle = dfi__ofi_settle,
	.arm = dfi__ofi_arm,
	.describe = dfi__ofi_describe,
	.query = dfi__ofi_query,
	.devices = dfi__ofi_list,
	.region.export_room = dfi__ofi_export_room,
	.region.export = dfi__ofi_export,
	.region.unexport = dfi__ofi_unexport,
	.ring.room = dfi__ofi_room,
	.ring.send_buffer_create = dfi__ofi_send_buffer_create,
	.ring.send_buffer_free = dfi__ofi_send_buffer_free,
	.ring.open = dfi__ofi_remote_open,
	.ring.close = dfi__ofi_remote_close,
	.ring.write = dfi__ofi_write,
	.ring.post = dfi__ofi_post_remote,
	.ring.give_credit = dfi__ofi_give_credit,
	.ring.slot_is_free = dfi__ofi_slot_is_free,
	.ring.drained = dfi__ofi_drained,
	.ring.progress = dfi__ofi_remote_progress,
	.ring.arm = dfi__ofi_arm_remote,
	.ring.owner_why = dfi__ofi_remote_why,
	.ring.lost = dfi__ofi_ring_lost,
	.ring.writer_why = dfi__ofi_ring_why,
	.counter.add = dfi__ofi_add,
	.counter.added = dfi__ofi_added,
};
