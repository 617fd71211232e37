/* SPDX-License-Identifier: Apache-2.0 */
/* The table, instances of the transport, and the owner of a ring. */
#include "loopback.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/error.h"

struct loopback_export *loopback_exports;
uint32_t loopback_missing;

/* ---- An instance ------------------------------------------------------- */

/* The first part of all addresses of this process. */
static int write_prefix(char address[TRANSPORT_ADDRESS_SIZE])
{
	return snprintf(
	    address, TRANSPORT_ADDRESS_SIZE, "loopback:%d:", (int)getpid());
}

static uint32_t n_devices(const struct settings *settings)
{
	const char *n = getenv("DFI_TEST_LOOPBACK_DEVICES");

	(void)settings;
	return n && *n ? (uint32_t)strtoul(n, NULL, 0) : 1;
}

static int start(const struct transport_ops *ops, const struct member *self,
    struct transport **out)
{
	const char *seed = getenv("DFI_TEST_LOOPBACK");
	struct loopback *loopback;
	struct transport *transport;
	int ret, used;

	ret = loopback_wire_start(seed ? strtoull(seed, NULL, 0) : 1);
	if (ret < 0)
		return ret;
	loopback = calloc(1, sizeof(*loopback));
	assert(loopback);
	transport = &loopback->base;
	transport->ops = ops;
	used = write_prefix(transport->address);
	snprintf(transport->address + used,
	    sizeof(transport->address) - (size_t)used, "%lu:%u",
	    (unsigned long)self->node, self->device);
	*out = transport;
	return 0;
}

static int loopback_start(struct loop *loop, const struct settings *settings,
    const struct member *self, struct transport **out)
{
	const char *seed = getenv("DFI_TEST_LOOPBACK");

	(void)loop;
	(void)settings;
	if (!seed || !*seed)
		return dfi__fail(-ENODEV,
		    "loopback: DFI_TEST_LOOPBACK is not set: it takes a seed");
	if (loopback_missing == self->device + 1)
		return dfi__fail(
		    -ENODEV, "loopback: device %u is missing", self->device);
	return start(&loopback_ops, self, out);
}

static int detour_start(struct loop *loop, const struct settings *settings,
    const struct member *self, struct transport **out)
{
	(void)loop;
	(void)settings;
	if (!getenv("DFI_TEST_DETOUR"))
		return dfi__fail(-ENODEV, "detour: DFI_TEST_DETOUR is not set");
	return start(&loopback_detour_ops, self, out);
}

void loopback_put_export(struct loopback_export *export)
{
	struct region *region = export->region;
	struct loopback_export **at;

	if (!export->closing || export->n_remotes)
		return;
	for (at = &loopback_exports; *at != export; at = &(*at)->next)
		;
	*at = export->next;
	if (region_leave(region))
		region->transport->ops->region.destroy(region);
	free(export->rings);
	free(export);
}

static void cut_export(struct loopback_export *export)
{
	struct loopback_remote *remote;

	for (remote = loopback_remotes; remote; remote = remote->next)
		if (remote->export == export)
			loopback_cut(remote);
	export->n_remotes = 0;
	loopback_put_export(export);
}

/* All segments under way arrive; attached writers lose their rings. */
static void loopback_stop(struct transport *transport)
{
	struct loopback_export *export, *next;

	pthread_mutex_lock(&loopback_lock);
	loopback_deliver(DEADLINE_NEVER);
	for (export = loopback_exports; export; export = next) {
		next = export->next;
		if (export->base.transport == transport)
			cut_export(export);
	}
	pthread_mutex_unlock(&loopback_lock);
	loopback_wire_stop();
	free(transport);
}

bool loopback_reaches(const struct transport *transport, const char *address)
{
	char prefix[TRANSPORT_ADDRESS_SIZE];
	int used = write_prefix(prefix);

	(void)transport;
	return strncmp(address, prefix, (size_t)used) == 0;
}

static void loopback_progress(struct transport *transport, uint32_t looks)
{
	(void)transport;
	(void)looks;
	loopback_look();
}

static void loopback_settle(struct transport *transport)
{
	(void)transport;
	pthread_mutex_lock(&loopback_lock);
	loopback_deliver(clock_now_ns());
	pthread_mutex_unlock(&loopback_lock);
}

/* The thread delivers all, and wakes waiters after a fence. */
static void loopback_arm(struct transport *transport)
{
	(void)transport;
}

static void loopback_describe(const struct transport *transport,
    const struct remote *remote, char text[TRANSPORT_WAY_SIZE])
{
	(void)remote;
	snprintf(text, TRANSPORT_WAY_SIZE, "%s", transport->address);
}

static void loopback_query(
    struct transport *transport, struct dfi_transport_stats *stats)
{
	const struct loopback *loopback = (const struct loopback *)transport;
	const struct loopback_remote *remote;
	const struct loopback_export *export;

	snprintf(stats->device, sizeof(stats->device), "memory");
	snprintf(stats->address, sizeof(stats->address), "%.47s",
	    transport->address);
	pthread_mutex_lock(&loopback_lock);
	stats->writes = loopback->writes;
	stats->bytes = loopback->bytes;
	stats->credits = loopback->credits;
	for (remote = loopback_remotes; remote; remote = remote->next)
		stats->connections += remote->base.transport == transport;
	for (export = loopback_exports; export; export = export->next)
		stats->memory_regions += export->base.transport == transport;
	stats_count(stats, "additions", loopback->additions);
	pthread_mutex_unlock(&loopback_lock);
}

/* ---- The owner --------------------------------------------------------- */

static int export_room(struct transport *transport, uint64_t size)
{
	(void)transport;
	(void)size;
	return 0;
}

static int export_region(struct transport *transport, struct region *region,
    const struct ring_layout *layout)
{
	struct loopback_export *export = calloc(1, sizeof(*export));

	assert(export);
	export->rings = calloc(layout->n_rings, sizeof(export->rings[0]));
	assert(export->rings);
	export->region = region;
	export->layout = *layout;
	export->base.transport = transport;
	export->base.name = region->name;
	memcpy(export->base.name.address, transport->address,
	    sizeof(transport->address));
	pthread_mutex_lock(&loopback_lock);
	export->base.name.key = loopback_random();
	export->next = loopback_exports;
	loopback_exports = export;
	pthread_mutex_unlock(&loopback_lock);
	region_add_export(region, &export->base);
	return 0;
}

static void unexport_region(struct export *base)
{
	struct loopback_export *export = (struct loopback_export *)base;

	pthread_mutex_lock(&loopback_lock);
	export->closing = true;
	loopback_put_export(export);
	pthread_mutex_unlock(&loopback_lock);
}

static int give_credit(struct region *region, struct export *base,
    const struct ring_layout *layout, uint32_t number, uint64_t consumed,
    enum ring_closed closed)
{
	struct loopback_export *export = (struct loopback_export *)base;
	struct loopback_ring *ring = &export->rings[number];
	bool used;

	(void)region;
	(void)layout;
	pthread_mutex_lock(&loopback_lock);
	used = ring->used;
	if (ring->writer) {
		loopback_send_credit(ring->writer, consumed, closed);
		((struct loopback *)export->base.transport)->credits++;
	}
	pthread_mutex_unlock(&loopback_lock);
	return used;
}

/* In one process nobody dies alone. */
static enum ring_loss ring_lost(
    const struct export *export, uint32_t ring, uint64_t node)
{
	(void)export;
	(void)ring;
	(void)node;
	return RING_KEPT;
}

static const char *writer_why(
    const struct export *export, uint32_t ring, uint64_t node)
{
	(void)export;
	(void)ring;
	(void)node;
	return NULL;
}

/* Two networks of one kind; a context can have both. */
#define LOOPBACK_ENTRIES                                                       \
	.footer_sides = FOOTER_SIDES_BOTH, .stop = loopback_stop,              \
	.reaches = loopback_reaches, .progress = loopback_progress,            \
	.settle = loopback_settle, .arm = loopback_arm,                        \
	.describe = loopback_describe, .query = loopback_query,                \
	.n_devices = n_devices, .region.export_room = export_room,             \
	.region.export = export_region, .region.unexport = unexport_region,    \
	.ring.room = loopback_remote_room,                                     \
	.ring.send_buffer_create = loopback_send_buffer_create,                \
	.ring.send_buffer_free = loopback_send_buffer_free,                    \
	.ring.open = loopback_remote_open,                                     \
	.ring.close = loopback_remote_close,                                   \
	.ring.write = loopback_remote_write,                                   \
	.ring.post = loopback_remote_post,                                     \
	.ring.slot_is_free = loopback_slot_is_free,                            \
	.ring.drained = loopback_drained,                                      \
	.ring.progress = loopback_remote_progress,                             \
	.ring.arm = loopback_remote_arm, .ring.owner_why = loopback_owner_why, \
	.ring.give_credit = give_credit, .ring.lost = ring_lost,               \
	.ring.writer_why = writer_why, .counter.add = loopback_add,            \
	.counter.added = loopback_added

const struct transport_ops loopback_ops = {
	.name = "loopback",
	.start = loopback_start,
	LOOPBACK_ENTRIES,
};

const struct transport_ops loopback_detour_ops = {
	.name = "detour",
	.start = detour_start,
	LOOPBACK_ENTRIES,
};
