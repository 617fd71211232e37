/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Granting a region to a peer, which maps it to read it. The receiver's control
 * thread takes the descriptor; the receiver then keeps the mapping, whatever
 * happens to the process that granted it. The granted region is kept with the
 * region it was granted for, and is freed with it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/error.h"
#include "message.h"
#include "shm.h"

/*
 * Views of one ring that its reader has not taken yet: those of sources that
 * failed to attach. Beyond this number, the oldest is dropped.
 */
#define VIEWS_MAX 4

struct shm_view {
	struct shm_view *next;
	uint64_t key, size;
	uint32_t ring;
	bool used;
	const void *base;
	struct shm_region *local; /* NULL: mapped for this view */
};

static void free_view(struct shm *shm, struct shm_view *view)
{
	if (view->local)
		dfi__shm_region_put(shm, view->local);
	else
		munmap((void *)view->base, view->size);
	free(view);
}

void dfi__shm_views_free(struct shm *shm, struct shm_region *region)
{
	struct shm_view *view, *views;

	pthread_mutex_lock(&shm->lock);
	views = region->views;
	region->views = NULL;
	region->closed = true;
	pthread_mutex_unlock(&shm->lock);
	while ((view = views)) {
		views = view->next;
		free_view(shm, view);
	}
}

/* Under the lock: insert a view; returns the surplus one, or NULL. */
static struct shm_view *push_view(
    struct shm_region *region, struct shm_view *view)
{
	struct shm_view **at, **oldest = NULL;
	unsigned n = 0;

	view->next = region->views;
	region->views = view;
	for (at = &region->views; *at; at = &(*at)->next)
		if ((*at)->ring == view->ring && !(*at)->used) {
			n++;
			oldest = at;
		}
	if (n <= VIEWS_MAX)
		return NULL;
	view = *oldest;
	*oldest = view->next;
	return view;
}

/* Tells whether the region is large enough to have this ring. */
static bool has_ring(const struct shm_region *region, uint32_t ring)
{
	return ring < region->base.name.size / CACHE_LINE;
}

/* The lock is held. Returns the region with that key, if it has such a ring. */
static struct shm_region *find(
    const struct shm *shm, uint64_t key, uint32_t ring)
{
	struct shm_region *region;

	for (region = shm->regions; region; region = region->next)
		if (region->base.name.key == key && !region->closed)
			break;
	return region && has_ring(region, ring) ? region : NULL;
}

/*
 * Check, before mapping, that a view of size bytes is for a ring of that
 * region: 0, or a bare -ENOENT or -EBADMSG.
 */
static int check_view(
    struct shm *shm, uint64_t key, uint32_t ring, uint64_t size)
{
	const struct shm_region *region;
	uint64_t wanted = 0;

	pthread_mutex_lock(&shm->lock);
	region = find(shm, key, ring);
	if (region)
		wanted = region->base.granted_size;
	pthread_mutex_unlock(&shm->lock);
	if (!region)
		return -ENOENT;
	return wanted && transport_region_fits(size, wanted) ? 0 : -EBADMSG;
}

/* Keep a view with the region of that key; false: the region is gone. */
static bool keep_view(struct shm *shm, uint64_t key, struct shm_view *view)
{
	struct shm_view *extra = NULL;
	struct shm_region *region;

	pthread_mutex_lock(&shm->lock);
	region = find(shm, key, view->ring);
	if (region)
		extra = push_view(region, view);
	if (region && view->local)
		view->local->refs++;
	pthread_mutex_unlock(&shm->lock);
	if (extra)
		free_view(shm, extra);
	return region != NULL;
}

static struct shm_view *new_view(uint32_t ring, uint64_t key, uint64_t size)
{
	struct shm_view *view = calloc(1, sizeof(*view));

	if (!view)
		return NULL;
	view->ring = ring;
	view->key = key;
	view->size = size;
	return view;
}

int dfi__shm_fail_granted(const struct region_name *to)
{
	return dfi__fail(-EBADMSG,
	    "shared memory: the process at %s refused the region that was "
	    "granted to it: it is not sealed, or not as large as the segments "
	    "of "
	    "the flow",
	    to->address);
}

int dfi__shm_grant_serve(
    struct shm *shm, const struct shm_grant_request *request, int fd)
{
	struct region_name name = { .size = request->size };
	struct shm_view *view;
	void *base;
	int ret = check_view(
	    shm, request->base.key, request->ring, request->size);

	if (ret < 0)
		return ret;
	if (fd == -EMFILE)
		return -EMFILE;
	if (fd < 0 || dfi__shm_memory_check(fd, &name) < 0)
		return -EBADMSG;
	view = new_view(request->ring, request->key, request->size);
	if (!view)
		return -ENOMEM;
	if (dfi__shm_memory_map(fd, view->size, false, shm->settings, &base) <
	    0) {
		free(view);
		return -ENOMEM;
	}
	dfi__shm_memory_populate(base, 0, view->size, false);
	view->base = base;
	if (keep_view(shm, request->base.key, view))
		return 0;
	free_view(shm, view);
	return -ENOENT;
}

static int grant_here(struct shm *shm, struct shm_region *region,
    const struct region_name *to, uint32_t ring)
{
	uint64_t size = region->base.name.size;
	struct shm_view *view;

	if (check_view(shm, to->key, ring, size) == -EBADMSG)
		return dfi__shm_fail_granted(to);
	view = new_view(ring, region->base.name.key, size);
	if (!view)
		return dfi__fail(-ENOMEM, "shared memory: out of memory");
	view->base = region->base.base;
	view->local = region;
	if (keep_view(shm, to->key, view))
		return 0;
	free(view);
	return dfi__fail(-ECONNRESET,
	    "shared memory: the process at %s has closed the region",
	    to->address);
}

int dfi__shm_grant(struct region *granted, const struct region_name *to,
    uint32_t ring, const struct wait_limit *wait_limit)
{
	struct shm_region *region = (struct shm_region *)granted;
	struct shm *shm = (struct shm *)granted->transport;
	struct shm_grant_request request = {
		.base.key = to->key,
		.ring = ring,
		.key = granted->name.key,
		.size = granted->name.size,
	};

	/* The receiver may read it as long as it likes: it can be no spare. */
	region->elsewhere = true;
	if (!strcmp(to->address, shm->base.address))
		return grant_here(shm, region, to, ring);
	return dfi__shm_pass_grant(to, &request, region->fd, wait_limit);
}

const void *dfi__shm_granted(
    struct region *region, uint32_t ring, uint64_t key, uint64_t *size)
{
	struct shm *shm = (struct shm *)region->transport;
	struct shm_view *view;

	pthread_mutex_lock(&shm->lock);
	for (view = ((struct shm_region *)region)->views; view;
	     view = view->next)
		if (view->ring == ring && view->key == key)
			break;
	if (view)
		view->used = true;
	pthread_mutex_unlock(&shm->lock);
	if (!view)
		return NULL;
	*size = view->size;
	return view->base;
}

void dfi__shm_forget(struct region *region, uint32_t ring)
{
	struct shm *shm = (struct shm *)region->transport;
	struct shm_view **at, *view, *views = NULL;

	pthread_mutex_lock(&shm->lock);
	at = &((struct shm_region *)region)->views;
	while ((view = *at)) {
		if (view->ring != ring) {
			at = &view->next;
			continue;
		}
		*at = view->next;
		view->next = views;
		views = view;
	}
	pthread_mutex_unlock(&shm->lock);
	while ((view = views)) {
		views = view->next;
		free_view(shm, view);
	}
}
