/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image of a peer's ring: memory of this process, registered, from which
 * its segments are sent. Huge pages make a device's table of it shorter, and
 * the processor's; like rings in shared memory it has them if it can.
 */
#include "verbs.h"

#include <linux/mman.h>
#include <sys/mman.h>
#include "../base/error.h"
#include "../base/memory.h"
#include "../base/settings.h"

/* Below that, most of a huge page would be wasted. */
#define LEAST_HUGE (TRANSPORT_HUGE_PAGE / 2)

int dfi__verbs_lock_room(const struct verbs *verbs, uint64_t size)
{
	uint64_t limit, room = dfi__memory_lock_room(&limit);

	if (size <= room)
		return 0;
	return dfi__fail(-ENOMEM,
	    "verbs: %s: registering %lu bytes locks them, but %lu are left of "
	    "the %lu that may be locked: raise the limit (ulimit -l), or make "
	    "rings smaller (segment_count, DFI_RING_MEMORY)",
	    dfi__verbs_port(&verbs->device).text, (unsigned long)size,
	    (unsigned long)room, (unsigned long)limit);
}

static int fail_memory(const struct verbs *verbs, uint64_t size)
{
	return dfi__fail(-ENOMEM,
	    "verbs: %s: %lu bytes to send from could not be had: free memory, "
	    "or make rings smaller (segment_count, DFI_RING_MEMORY)",
	    dfi__verbs_port(&verbs->device).text, (unsigned long)size);
}

static int fail_huge(const struct verbs *verbs, uint64_t size)
{
	return dfi__fail(-ENOMEM,
	    "verbs: %s: %lu bytes of huge pages to send from are not free: "
	    "reserve %lu pages of 2 MiB (sysctl vm.nr_hugepages), or set "
	    "DFI_HUGE_PAGES=try",
	    dfi__verbs_port(&verbs->device).text, (unsigned long)size,
	    (unsigned long)(size / TRANSPORT_HUGE_PAGE));
}

/* Nobody touches it before it is registered, which finds what is missing. */
static int register_at(
    struct verbs *verbs, struct verbs_remote *remote, void *at, uint64_t size)
{
	int ret;

	remote->mr = ibv_reg_mr(verbs->pd, at, size,
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!remote->mr) {
		ret = dfi__verbs_fail_register(&verbs->device, size, errno);
		munmap(at, size);
		return ret;
	}
	remote->base.ring = at;
	remote->image_size = size;
	return 0;
}

static int create_huge(
    struct verbs *verbs, struct verbs_remote *remote, uint64_t size)
{
	void *at;
	int ret = dfi__verbs_lock_room(verbs, size);

	if (ret < 0)
		return ret;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
	if (at == MAP_FAILED)
		return fail_huge(verbs, size);
	madvise(at, size, MADV_DONTFORK);
	return register_at(verbs, remote, at, size);
}

static int create_ordinary(
    struct verbs *verbs, struct verbs_remote *remote, uint64_t size)
{
	int ret = dfi__verbs_lock_room(verbs, size);
	void *at;

	if (ret < 0)
		return ret;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return fail_memory(verbs, size);
	madvise(at, size, MADV_DONTFORK);
	/* Before the pages are there. */
	if (verbs->settings->huge_pages != HUGE_PAGES_NEVER)
		madvise(at, size, MADV_HUGEPAGE);
	return register_at(verbs, remote, at, size);
}

int dfi__verbs_create_image(struct verbs *verbs, struct verbs_remote *remote)
{
	uint32_t huge_pages = verbs->settings->huge_pages;
	uint64_t ring = remote->layout.ring_size;

	if (huge_pages == HUGE_PAGES_REQUIRE)
		return create_huge(
		    verbs, remote, transport_image_bytes(ring, true));
	if (huge_pages == HUGE_PAGES_TRY && ring >= LEAST_HUGE &&
	    !create_huge(verbs, remote, transport_image_bytes(ring, true)))
		return 0;
	return create_ordinary(
	    verbs, remote, transport_image_bytes(ring, false));
}

void dfi__verbs_free_image(struct verbs_remote *remote)
{
	if (!remote->mr)
		return;
	ibv_dereg_mr(remote->mr);
	munmap(remote->base.ring, remote->image_size);
}
