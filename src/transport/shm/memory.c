/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of regions: sealed memfds. The kernel frees them when a process is
 * killed, and nobody can shrink one that a peer has mapped. All pages are
 * allocated at creation, as huge pages where these are available.
 */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/bits.h"
#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/maps.h"
#include "base/memory.h"
#include "base/reservation.h"
#include "base/settings.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Since Linux 6.3; headers may be older than the kernel. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The sysctl causes EACCES; sandboxes cause one of the others. */
static bool is_forbidden(int err)
{
	return err == -EACCES || err == -EPERM || err == -ENOSYS;
}

int dfi__shm_memory_fail(int err, uint64_t size)
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
 * A kernel that makes huge pages out of ordinary ones needs the advice before
 * pages exist.
 */
int dfi__shm_memory_map(int fd, uint64_t size, bool writes,
    const struct settings *settings, void **base)
{
	void *at = mmap(NULL, size, writes ? PROT_READ | PROT_WRITE : PROT_READ,
	    MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	dfi__memory_keep_out(at, size, settings->dump_rings);
	if (settings->huge_pages != HUGE_PAGES_NEVER)
		madvise(at, size, MADV_HUGEPAGE);
	*base = at;
	return 0;
}

void dfi__shm_memory_populate(
    void *base, uint64_t from, uint64_t size, bool writes)
{
	uint64_t start = from / page_size() * page_size();

	/* This is only for speed: reserve() reports missing memory. */
	madvise((char *)base + start, from + size - start,
	    writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

int dfi__shm_memory_room(uint64_t size)
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

/*
 * Linux 6.1 restarts fallocate() after a signal, so a profiler's timer could
 * keep it from ever ending.
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

/* Allocate all pages, so that no later access can fail with SIGBUS. */
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
 * With vm.memfd_noexec=2, Linux 6.3 to 6.5 require a flag that says that the
 * memory is never executed. Kernels that don't know the flag refuse it.
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

/* Create a memfd without pages: its descriptor, or a bare errno value. */
static int open_memfd(uint64_t size, unsigned flags)
{
	int fd, ret;

	if (file_exceeds_limit(size))
		return -EFBIG;
	fd = new_memfd(flags);
	if (fd < 0)
		return -errno;
	/* Otherwise an orphaned child would keep the memory. */
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

/*
 * Map, reserve and seal it, or close it: 0 or a bare negative errno value.
 * fallocate() ignores advice on huge pages, so with shmem_enabled=advise pages
 * are populated before they are reserved. Missing memory raises no signal here:
 * madvise() fails (madvise(2)), and a new region has no other user before it is
 * reserved.
 */
static int fill_memfd(struct shm_region *region, int fd, uint64_t size,
    unsigned flags, const struct settings *settings)
{
	int ret = dfi__shm_memory_map(
	    fd, size, true, settings, &region->base.base);

	if (ret < 0)
		goto close_fd;
	dfi__shm_memory_populate(region->base.base, 0, size, true);
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
 * Create it of huge pages. They are not part of the available memory, and the
 * kernel kills no process for them.
 */
static int create_huge_memfd(
    struct shm_region *region, uint64_t size, const struct settings *settings)
{
	int fd = open_memfd(size, HUGE_FLAGS);

	return fd < 0 ? fd : fill_memfd(region, fd, size, HUGE_FLAGS, settings);
}

/* Huge pages are required: report which resource is missing. */
static int no_huge_pages(int err, uint64_t size)
{
	struct memory_room room;

	if (err == -EMFILE || err == -ENFILE || err == -EFBIG ||
	    is_forbidden(err))
		return dfi__shm_memory_fail(err, size);
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
	int ret = dfi__shm_memory_room(size);

	if (ret < 0)
		return ret;
	ret = create_huge_memfd(region, size, settings);
	return ret < 0 ? no_huge_pages(ret, size) : 0;
}

/*
 * Refuse memory that is not available before the kernel searches for it: the
 * kernel would swap other memory out, and then kill a process, maybe this one.
 * If one more file descriptor is left, it serves the memory, not the lock.
 */
static int create_ordinary(
    struct shm_region *region, uint64_t size, const struct settings *settings)
{
	struct reservation reservation;
	int fd, ret = dfi__shm_memory_room(size);

	if (ret < 0)
		return ret;
	fd = open_memfd(size, 0);
	if (fd < 0)
		return dfi__shm_memory_fail(fd, size);
	ret = dfi__reservation_begin(
	    &reservation, "", size, "shared memory: a region");
	if (ret < 0) {
		dfi__fork_close(fd);
		return ret;
	}
	ret = fill_memfd(region, fd, size, 0, settings);
	dfi__reservation_end(&reservation);
	return ret < 0 ? dfi__shm_memory_fail(ret, size) : 0;
}

/*
 * Use reserved huge pages if there are enough of them, else ordinary pages,
 * which the kernel may merge into huge ones if so configured.
 */
int dfi__shm_memory_create(
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

int dfi__shm_memory_check(int fd, const struct region_name *name)
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

uint64_t dfi__shm_memory_bytes(uint64_t size, const struct settings *settings)
{
	return align_up(size,
	    settings->huge_pages == HUGE_PAGES_REQUIRE ? TRANSPORT_HUGE_PAGE
						       : page_size());
}

void dfi__shm_region_free(struct shm_region *region)
{
	munmap(region->base.base, region->base.name.size);
	dfi__fork_close(region->fd);
	free(region);
}
