/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared-memory transport: regions are sealed memfds, so nothing is left
 * behind when a process is killed, and nobody can shrink one under a peer. A
 * remote region is mapped and written in place.
 */
#include "shm.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/bits.h"
#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/maps.h"
#include "base/memory.h"
#include "base/notify.h"
#include "base/reservation.h"
#include "base/settings.h"
#include "base/wait.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Since Linux 6.3; headers may be older than the kernel. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static int shm_start(struct loop *loop, const struct settings *settings,
    const struct member *self, struct transport **transport)
{
	struct shm *shm = calloc(1, sizeof(*shm));
	int ret;

	(void)self; /* peers are known by their user */
	if (!shm)
		return dfi__fail(-ENOMEM, "shared memory: out of memory");
	shm->base.ops = &dfi__shm_ops;
	shm->loop = loop;
	shm->settings = settings;
	pthread_mutex_init(&shm->lock, NULL);
	TAILQ_INIT(&shm->spares);
	dfi__fence_setup();
	ret = dfi__notify_setup();
	if (ret < 0)
		goto free_shm;
	ret = dfi__shm_pass_start(shm);
	if (ret < 0)
		goto cleanup;
	*transport = &shm->base;
	return 0;

cleanup:
	dfi__notify_cleanup();
free_shm:
	pthread_mutex_destroy(&shm->lock);
	free(shm);
	return ret;
}

static void shm_stop(struct transport *transport)
{
	struct shm *shm = (struct shm *)transport;

	dfi__shm_pass_stop(shm);
	dfi__shm_spares_free(shm);
	dfi__notify_cleanup();
	pthread_mutex_destroy(&shm->lock);
	free(shm);
}

/* The sysctl says EACCES, sandboxes one of the others. */
static bool is_forbidden(int err)
{
	return err == -EACCES || err == -EPERM || err == -ENOSYS;
}

static int no_memory(int err, uint64_t size)
{
	unsigned long limit;

	if (err == -EMFILE || err == -ENFILE)
		return dfi__fail_files(
		    -err, 1, "memfd_create", "shared memory: a region");
	if (err == -ENOMEM && dfi__maps_are_full(&limit))
		return dfi__fail(-ENOMEM,
		    "shared memory: a region can't be mapped, as the process "
		    "has as many mappings as it may: %lu: raise the limit "
		    "(sysctl vm.max_map_count), or have fewer",
		    limit);
	if (err == -ENOMEM || err == -ENOSPC)
		return dfi__fail(-ENOMEM,
		    "shared memory: %lu bytes for a region could not be "
		    "reserved: free memory, or make rings smaller "
		    "(segment_count, DFI_RING_MEMORY)",
		    (unsigned long)size);
	if (err == -EFBIG)
		return dfi__fail(-ENOMEM,
		    "shared memory: %lu bytes for a region are more than a "
		    "file may have: raise the limit (ulimit -f), or make rings "
		    "smaller (segment_count, DFI_RING_MEMORY)",
		    (unsigned long)size);
	if (is_forbidden(err))
		return dfi__fail(-EIO,
		    "shared memory: a region: memfd_create, or a call that "
		    "gives its memory (ftruncate, mmap, fallocate, fcntl): %s: "
		    "the system forbids memory files: look at the setting "
		    "vm.memfd_noexec, and at what confines the process "
		    "(seccomp, a security module)",
		    strerrordesc_np(-err));
	return dfi__fail(-EIO, "shared memory: reserving %lu bytes: %s",
	    (unsigned long)size, strerror(-err));
}

/*
 * Map a region and have all of it there, from this thread. Where the kernel
 * makes huge pages out of ordinary ones, it must be told before there are any;
 * and fallocate() heeds no advice, so that with shmem_enabled=advise reserve()
 * before this would give small ones. What is missing is no signal here:
 * madvise() fails (madvise(2)), and a new region has no other user before it is
 * reserved.
 */
static int map(
    int fd, uint64_t size, const struct settings *settings, void **base)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	dfi__memory_keep_out(at, size, settings->dump_rings);
	if (settings->huge_pages != HUGE_PAGES_NEVER)
		madvise(at, size, MADV_HUGEPAGE);
	/* Only for speed: what is missing, reserve() finds. */
	madvise(at, size, MADV_POPULATE_WRITE);
	*base = at;
	return 0;
}

/* Address space, too: else mmap() fails, and says nothing of why. */
static int check_address_space(uint64_t size)
{
	uint64_t room, limit;

	room = dfi__memory_address_room(&limit);
	if (size <= room)
		return 0;
	return dfi__fail(-ENOMEM,
	    "shared memory: mapping rings takes %lu bytes of address "
	    "space, but %lu are left of %lu: raise the limit (ulimit -v), or "
	    "make rings smaller (segment_count, DFI_RING_MEMORY)",
	    (unsigned long)size, (unsigned long)room, (unsigned long)limit);
}

/* Beyond this limit it is not an error to grow a file, but a signal. */
static bool exceeds_file_limit(uint64_t size)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur;
}

/*
 * On a signal Linux 6.1 begins anew, so that those of a timer, as of a
 * profiler, may keep it from ever coming to the end.
 */
static int allocate(int fd, uint64_t size)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	do
		err = fallocate(fd, 0, 0, (off_t)size) < 0 ? errno : 0;
	while (err == EINTR);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

/* Nothing is missing from now on: no later access can fail with SIGBUS. */
static int reserve(int fd, uint64_t size)
{
	int ret = allocate(fd, size);

	if (ret < 0)
		return ret;
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return -errno;
	return 0;
}

/*
 * With vm.memfd_noexec=2, Linux 6.3 to 6.5 want to be told that the memory is
 * never executed. Kernels that don't know the flag refuse it.
 */
static int new_memfd(unsigned flags)
{
	int fd;

	flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
	fd = file_up(memfd_create("dfi-region", flags | MFD_NOEXEC_SEAL));
	if (fd < 0 && errno == EINVAL)
		fd = file_up(memfd_create("dfi-region", flags));
	return fd;
}

/* A memfd without pages: its descriptor, or a bare negative errno value. */
static int open_memfd(uint64_t size, unsigned flags)
{
	int fd, ret;

	if (exceeds_file_limit(size))
		return -EFBIG;
	fd = new_memfd(flags);
	if (fd < 0)
		return -errno;
	/* Else a child that lives on would keep the memory. */
	ret = dfi__fork_add_unmapped(fd);
	if (ret < 0) {
		close(fd);
		return ret;
	}
	if (!ftruncate(fd, (off_t)size))
		return fd;
	ret = -errno;
	dfi__fork_close(fd);
	return ret;
}

/* Map, reserve and seal it, or close it: 0 or a bare negative errno value. */
static int fill_memfd(struct shm_region *region, int fd, uint64_t size,
    unsigned flags, const struct settings *settings)
{
	int ret = map(fd, size, settings, &region->base.base);

	if (ret < 0)
		goto close_fd;
	ret = reserve(fd, size);
	if (ret < 0)
		goto unmap;
	region->fd = fd;
	region->page = flags & MFD_HUGETLB ? TRANSPORT_HUGE_PAGE : page_size();
	region->base.name.size = size;
	return 0;

unmap:
	munmap(region->base.base, size);
close_fd:
	dfi__fork_close(fd);
	return ret;
}

#define HUGE_FLAGS (MFD_HUGETLB | MFD_HUGE_2MB)

/*
 * Of huge pages, which are no part of what is available; the kernel ends nobody
 * for them.
 */
static int create_huge_memfd(
    struct shm_region *region, uint64_t size, const struct settings *settings)
{
	int fd = open_memfd(size, HUGE_FLAGS);

	return fd < 0 ? fd : fill_memfd(region, fd, size, HUGE_FLAGS, settings);
}

/* Of huge pages that are required: which of what they need is missing. */
static int no_huge_pages(int err, uint64_t size)
{
	struct memory_room room;

	if (err == -EMFILE || err == -ENFILE || err == -EFBIG ||
	    is_forbidden(err))
		return no_memory(err, size);
	dfi__memory_huge_room("", &room);
	return dfi__fail(-ENOMEM,
	    "shared memory: %lu bytes of huge pages are not free (%s): reserve "
	    "%lu pages of 2 MiB (sysctl vm.nr_hugepages), or set "
	    "DFI_HUGE_PAGES=try",
	    (unsigned long)size,
	    size > room.bytes ? room.limit : strerrordesc_np(-err),
	    (unsigned long)(size / TRANSPORT_HUGE_PAGE));
}

static int create_huge(
    struct shm_region *region, uint64_t size, const struct settings *settings)
{
	int ret = check_address_space(size);

	if (ret < 0)
		return ret;
	ret = create_huge_memfd(region, size, settings);
	return ret < 0 ? no_huge_pages(ret, size) : 0;
}

/*
 * Refuse what is not there before the kernel looks for it: it would drive other
 * memory out to swap, and then end a process, maybe this one. If there is one
 * more file descriptor, it is for the memory, not for the lock.
 */
static int create_ordinary(
    struct shm_region *region, uint64_t size, const struct settings *settings)
{
	struct reservation reservation;
	int fd, ret = check_address_space(size);

	if (ret < 0)
		return ret;
	fd = open_memfd(size, 0);
	if (fd < 0)
		return no_memory(fd, size);
	ret = dfi__reservation_begin(
	    &reservation, "", size, "shared memory: a region");
	if (ret < 0) {
		dfi__fork_close(fd);
		return ret;
	}
	ret = fill_memfd(region, fd, size, 0, settings);
	dfi__reservation_end(&reservation);
	return ret < 0 ? no_memory(ret, size) : 0;
}

/*
 * Reserved huge pages if there are enough of them, else ordinary ones, which
 * the kernel may turn into huge ones if it is set to.
 */
static int create_backing(
    struct shm_region *region, uint64_t size, const struct settings *settings)
{
	uint64_t huge_size = align_up(size, TRANSPORT_HUGE_PAGE);

	if (settings->huge_pages == HUGE_PAGES_REQUIRE)
		return create_huge(region, huge_size, settings);
	if (settings->huge_pages == HUGE_PAGES_TRY &&
	    size >= TRANSPORT_HUGE_PAGE / 2 &&
	    !create_huge_memfd(region, huge_size, settings))
		return 0;
	return create_ordinary(region, align_up(size, page_size()), settings);
}

static uint64_t shm_region_bytes(
    const struct transport *transport, uint64_t size)
{
	const struct shm *shm = (const struct shm *)transport;

	if (shm->settings->huge_pages == HUGE_PAGES_REQUIRE)
		return align_up(size, TRANSPORT_HUGE_PAGE);
	return align_up(size, page_size());
}

/* A region's memory, touched by the calling thread. */
static int new_region(struct shm *shm, uint64_t size, struct shm_region **out)
{
	struct shm_region *new = calloc(1, sizeof(*new));
	int ret;

	if (!new)
		return dfi__fail(-ENOMEM, "shared memory: out of memory");
	ret = create_backing(new, size, shm->settings);
	/* What is short may be what spares take. */
	if (ret < 0 && dfi__shm_spares_free(shm))
		ret = create_backing(new, size, shm->settings);
	if (ret < 0) {
		free(new);
		return ret;
	}
	new->node = dfi__shm_memory_node();
	*out = new;
	return 0;
}

void dfi__shm_region_free(struct shm_region *region)
{
	munmap(region->base.base, region->base.name.size);
	dfi__fork_close(region->fd);
	free(region);
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
	/* New each time: who knows an old name can't open what is there now. */
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
	new->base.shown_size = 0;
	atomic_set(shm_let_go(new->base.base), 0);
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

/* A region of this very context: its own mapping serves. */
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
	int ret = check_address_space(size);

	(void)locked;
	/* What is short may be what spares take. */
	if (ret < 0 && dfi__shm_spares_free((struct shm *)transport))
		ret = check_address_space(size);
	return ret;
}

struct shm_remote {
	struct remote base;
	char *region;
	uint64_t size;
	struct shm_region *local; /* NULL: mapped for this remote alone */
};

/* The descriptor came from outside: it must be what its owner said. */
int dfi__shm_check_memfd(int fd, const struct region_name *name)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 ||
	    (uint64_t)st.st_size != name->size)
		return dfi__fail(-EBADMSG,
		    "shared memory: the region from %s is not sealed or not "
		    "of %lu bytes",
		    name->address, (unsigned long)name->size);
	return 0;
}

static int map_remote(struct shm *shm, const struct region_name *name,
    const struct wait_limit *wait_limit, struct shm_remote *remote)
{
	void *base;
	int fd, ret;

	ret = check_address_space(name->size);
	if (!ret)
		ret = dfi__shm_pass_fetch(name, wait_limit, &fd);
	if (ret < 0)
		return ret;
	ret = dfi__fork_add_unmapped(fd);
	if (!ret)
		ret = dfi__shm_check_memfd(fd, name);
	if (!ret) {
		ret = map(fd, name->size, shm->settings, &base);
		if (ret < 0)
			ret = no_memory(ret, name->size);
	}
	dfi__fork_close(fd);
	if (!ret)
		remote->region = base;
	return ret;
}

static int shm_remote_open(struct transport *transport, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct stage *stage, const struct wait_limit *wait_limit,
    struct remote **remote)
{
	struct shm *shm = (struct shm *)transport;
	struct shm_remote *new = calloc(1, sizeof(*new));
	int ret = 0;

	if (!new)
		return dfi__fail(-ENOMEM, "shared memory: out of memory");
	(void)writer;
	(void)stage; /* rings are mapped */
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
		 * The last store. Pairs with the observe in is_let_go(): the
		 * owner may use the memory for something else then.
		 */
		atomic_fetch_add(shm_let_go(old->region), 1);
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

static int shm_give_credit(struct region *region,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed)
{
	char *at = (char *)region->base + layout->first_ring +
	    ring * layout->ring_size;
	struct ring_credit *credit = (struct ring_credit *)(void *)at;

	/* They pair with dfi__writer_room() and writer_closed(). */
	atomic_publish(&credit->consumed, consumed);
	if (closed)
		atomic_publish(&credit->closed, closed);
	wait_wake((_Atomic uint32_t *)(void *)(at + layout->wait_offset));
	return 1;
}

const struct transport_ops dfi__shm_ops = {
	.name = "shm",
	.start = shm_start,
	.stop = shm_stop,
	.region.bytes = shm_region_bytes,
	.region.create = shm_region_create,
	.region.destroy = shm_region_destroy,
	.ring.room = shm_remote_room,
	.ring.open = shm_remote_open,
	.ring.close = shm_remote_close,
	.ring.write = shm_write,
	.region.show = dfi__shm_show,
	.region.shown = dfi__shm_shown,
	.ring.wake = shm_wake,
	.ring.give_credit = shm_give_credit,
};
