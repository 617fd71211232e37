/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared-memory transport: regions and the remotes that are opened of them.
 * A remote region is mapped and written in place.
 */
#include "shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fork_files.h"
#include "base/notify.h"
#include "base/settings.h"
#include "base/wait.h"

/* On the control thread. */
static void end(void *arg)
{
	struct shm *shm = arg;

	dfi__shm_pass_stop(shm);
	dfi__shm_spares_free(shm);
	dfi__notify_cleanup();
	pthread_mutex_destroy(&shm->lock);
	free(shm);
}

static int shm_start(struct loop *loop, const struct settings *settings,
    const struct member *self, struct transport **transport)
{
	int64_t deadline = deadline_in_ms(settings->open_timeout_ms);
	struct shm *shm = calloc(1, sizeof(*shm));
	int ret;

	(void)self; /* the kernel identifies peers by their user */
	if (!shm)
		return dfi__fail(-ENOMEM, "shared memory: out of memory");
	shm->base.ops = &dfi__shm_ops;
	shm->loop = loop;
	shm->settings = settings;
	shm->end = (struct loop_post){ .fn = end, .arg = shm };
	pthread_mutex_init(&shm->lock, NULL);
	TAILQ_INIT(&shm->spares);
	dfi__fence_setup();
	ret = dfi__notify_setup();
	if (ret < 0) {
		pthread_mutex_destroy(&shm->lock);
		free(shm);
		return ret;
	}
	ret = dfi__shm_pass_start(shm, deadline);
	if (ret < 0)
		dfi__loop_end(loop, &shm->end, deadline);
	else
		*transport = &shm->base;
	return ret;
}

static void shm_stop(struct transport *transport)
{
	struct shm *shm = (struct shm *)transport;

	dfi__loop_end(shm->loop, &shm->end,
	    deadline_in_ms(shm->settings->open_timeout_ms));
}

static uint64_t shm_region_bytes(
    const struct transport *transport, uint64_t size)
{
	const struct shm *shm = (const struct shm *)transport;

	return dfi__shm_memory_bytes(size, shm->settings);
}

/* Create a region's memory, touched by the calling thread. */
static int new_region(struct shm *shm, uint64_t size, struct shm_region **out)
{
	struct shm_region *new = calloc(1, sizeof(*new));
	int ret;

	if (!new)
		return dfi__fail(-ENOMEM, "shared memory: out of memory");
	ret = dfi__shm_memory_create(new, size, shm->settings);
	/* Spare regions may occupy the memory that is missing. */
	if (ret < 0 && dfi__shm_spares_free(shm))
		ret = dfi__shm_memory_create(new, size, shm->settings);
	if (ret < 0) {
		free(new);
		return ret;
	}
	new->node = dfi__shm_memory_node();
	*out = new;
	return 0;
}

static int shm_region_create(
    struct transport *transport, uint64_t size, struct region **region)
{
	struct shm *shm = (struct shm *)transport;
	struct shm_region *new = dfi__shm_spare_take(shm, size);
	int ret;

	if (!new) {
		ret = new_region(shm, size, &new);
		if (ret < 0)
			return ret;
	}
	/* A new key each time: an old name cannot open the region. */
	if (getrandom(&new->base.name.key, sizeof(new->base.name.key), 0) !=
	    sizeof(new->base.name.key)) {
		dfi__shm_region_free(new);
		return dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	}
	new->base.transport = transport;
	memcpy(new->base.name.address, transport->address,
	    sizeof(transport->address));
	new->refs = 1;
	new->n_passed = 0;
	new->closed = false;
	new->base.granted_size = 0;
	atomic_set(shm_released(new->base.base), 0);
	pthread_mutex_lock(&shm->lock);
	new->next = shm->regions;
	shm->regions = new;
	pthread_mutex_unlock(&shm->lock);
	*region = &new->base;
	return 0;
}

void dfi__shm_region_put(struct shm *shm, struct shm_region *region)
{
	struct shm_region **at;
	unsigned refs;

	pthread_mutex_lock(&shm->lock);
	refs = --region->refs;
	if (!refs) {
		for (at = &shm->regions; *at != region; at = &(*at)->next)
			;
		*at = region->next;
	}
	pthread_mutex_unlock(&shm->lock);
	if (!refs && !dfi__shm_spare_keep(shm, region))
		dfi__shm_region_free(region);
}

static void shm_region_destroy(struct region *region)
{
	struct shm *shm = (struct shm *)region->transport;

	dfi__shm_views_free(shm, (struct shm_region *)region);
	dfi__shm_region_put(shm, (struct shm_region *)region);
}

/* Find a region of this very context: its own mapping serves. */
static struct shm_region *find_local(
    struct shm *shm, const struct region_name *name)
{
	struct shm_region *region;

	if (strcmp(name->address, shm->base.address) != 0)
		return NULL;
	pthread_mutex_lock(&shm->lock);
	for (region = shm->regions; region; region = region->next)
		if (region->base.name.key == name->key &&
		    region->base.name.size == name->size) {
			region->refs++;
			break;
		}
	pthread_mutex_unlock(&shm->lock);
	return region;
}

static int shm_remote_room(
    struct transport *transport, uint64_t size, uint64_t locked)
{
	int ret = dfi__shm_memory_room(size);

	(void)locked;
	/* Spare regions may occupy the memory that is missing. */
	if (ret < 0 && dfi__shm_spares_free((struct shm *)transport))
		ret = dfi__shm_memory_room(size);
	return ret;
}

struct shm_remote {
	struct remote base;
	char *region;
	uint64_t size;
	struct shm_region *local; /* NULL: mapped for this remote alone */
};

static int map_remote(struct shm *shm, const struct region_name *name,
    const struct wait_limit *wait_limit, struct shm_remote *remote)
{
	void *base;
	int fd, ret;

	ret = dfi__shm_memory_room(name->size);
	if (!ret)
		ret = dfi__shm_pass_fetch(name, wait_limit, &fd);
	if (ret < 0)
		return ret;
	ret = dfi__fork_add_unmapped(fd);
	if (!ret)
		ret = dfi__shm_memory_check(fd, name);
	if (!ret) {
		ret = dfi__shm_memory_map(
		    fd, name->size, true, shm->settings, &base);
		if (ret < 0)
			ret = dfi__shm_memory_fail(ret, name->size);
	}
	dfi__fork_close(fd);
	if (!ret)
		remote->region = base;
	return ret;
}

/* The pages that this remote uses: of the region's header, and of its ring. */
static void populate(
    const struct shm_remote *remote, const struct ring_layout *layout)
{
	dfi__shm_memory_populate(remote->region, 0, layout->first_ring, true);
	dfi__shm_memory_populate(remote->region,
	    (uint64_t)(remote->base.ring - remote->region), layout->ring_size,
	    true);
}

static int shm_remote_open(struct transport *transport, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct send_buffer *send_buffer,
    const struct wait_limit *wait_limit, struct remote **remote)
{
	struct shm *shm = (struct shm *)transport;
	struct shm_remote *new = calloc(1, sizeof(*new));
	int ret = 0;

	if (!new)
		return dfi__fail(-ENOMEM, "shared memory: out of memory");
	(void)writer;
	(void)send_buffer; /* rings are mapped: nothing to send from */
	new->base.transport = transport;
	new->base.in_place = true;
	new->size = name->size;
	new->local = find_local(shm, name);
	if (new->local)
		new->region = new->local->base.base;
	else
		ret = map_remote(shm, name, wait_limit, new);
	if ((ret == -ENOMEM || ret == -EMFILE) && dfi__shm_spares_free(shm))
		ret = map_remote(shm, name, wait_limit, new);
	if (ret < 0) {
		free(new);
		return ret;
	}
	new->base.ring = new->region + layout->first_ring +
	    ring * layout->ring_size;
	if (!new->local)
		populate(new, layout);
	*remote = &new->base;
	return 0;
}

static void shm_remote_close(struct remote *remote)
{
	struct shm_remote *old = (struct shm_remote *)remote;

	if (old->local) {
		dfi__shm_region_put(
		    (struct shm *)remote->transport, old->local);
	} else {
		/*
		 * The last store. Pairs with the observe in is_released():
		 * after it, the owner may use the memory for something else.
		 */
		atomic_fetch_add(shm_released(old->region), 1);
		munmap(old->region, old->size);
	}
	free(old);
}

static int shm_write(struct remote *remote, const struct transport_write *write)
{
	char *region = ((struct shm_remote *)remote)->region;
	_Atomic uint64_t *footer = (_Atomic uint64_t *)(void *)(remote->ring +
	    write->footer_offset);

	atomic_set(&footer[0], write->footer[0]);
	/* Pairs with the reader's observe of this word (reader.c). */
	atomic_publish(&footer[1], write->footer[1]);
	wait_wake((_Atomic uint32_t *)(void *)(region + REGION_WAIT_OFFSET));
	return 0;
}

static void shm_wake(struct remote *remote)
{
	char *region = ((struct shm_remote *)remote)->region;

	wait_wake((_Atomic uint32_t *)(void *)(region + REGION_WAIT_OFFSET));
}

static int shm_give_credit(struct region *region, struct export *export,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed)
{
	char *at = (char *)region->base + layout->first_ring +
	    ring * layout->ring_size;
	struct ring_credit *credit = (struct ring_credit *)(void *)at;

	(void)export;
	/* These pair with dfi__writer_room() and writer_closed(). */
	atomic_publish(&credit->consumed, consumed);
	if (closed)
		atomic_publish(&credit->closed, closed);
	wait_wake((_Atomic uint32_t *)(void *)(at + layout->wait_offset));
	return 1;
}

static const struct report_ops shm_report_ops = {
	.serve = dfi__shm_report,
	.fetch = dfi__shm_report_fetch,
};

const struct transport_ops dfi__shm_ops = {
	.name = "shm",
	.footer_sides = FOOTER_SIDES_BOTH,
	.start = shm_start,
	.stop = shm_stop,
	.region.bytes = shm_region_bytes,
	.region.create = shm_region_create,
	.region.destroy = shm_region_destroy,
	.ring.room = shm_remote_room,
	.ring.open = shm_remote_open,
	.ring.close = shm_remote_close,
	.ring.write = shm_write,
	.region.grant = dfi__shm_grant,
	.region.granted = dfi__shm_granted,
	.region.forget = dfi__shm_forget,
	.ring.wake = shm_wake,
	.ring.give_credit = shm_give_credit,
	.report = &shm_report_ops,
};
