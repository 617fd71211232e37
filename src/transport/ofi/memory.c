/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory to send from: shadow rings, and send buffers, which many remotes of a
 * writer share. A provider sends from any memory, so none is registered.
 */
#include "conn.h"

#include <linux/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/bits.h"
#include "base/error.h"
#include "base/maps.h"
#include "base/memory.h"
#include "base/reservation.h"
#include "fabric.h"

/* Below that, most of a huge page would be unused. */
#define LEAST_HUGE (TRANSPORT_HUGE_PAGE / 2)

static int check_address_space(const struct ofi *ofi, uint64_t size)
{
	uint64_t limit, room = dfi__memory_address_room(&limit);

	if (size <= room)
		return 0;
	return dfi__fail(-ENOMEM,
	    "ofi: %s: %lu bytes to send from take address space, but %lu are "
	    "left of %lu: raise the limit (ulimit -v), or make rings smaller "
	    "(segment_count, DFI_RING_MEMORY)",
	    dfi__ofi_location(ofi).text, (unsigned long)size,
	    (unsigned long)room, (unsigned long)limit);
}

static int fail_huge(const struct ofi *ofi, uint64_t size, const char *limit)
{
	return dfi__fail(-ENOMEM,
	    "ofi: %s: %lu bytes of huge pages to send from are not free (%s): "
	    "reserve %lu pages of 2 MiB (sysctl vm.nr_hugepages), or set "
	    "DFI_HUGE_PAGES=try",
	    dfi__ofi_location(ofi).text, (unsigned long)size, limit,
	    (unsigned long)(size / TRANSPORT_HUGE_PAGE));
}

/* Otherwise page by page would be taken, until none is left. */
static int check_huge(const struct ofi *ofi, uint64_t size)
{
	struct memory_room room;

	size = align_up(size, TRANSPORT_HUGE_PAGE);
	dfi__memory_huge_room("", &room);
	return size <= room.bytes ? 0 : fail_huge(ofi, size, room.limit);
}

/* The start of an error text: which provider it concerns. */
static const char *where(const struct ofi *ofi, char text[160])
{
	snprintf(text, 160, "ofi: %s: memory to send from",
	    dfi__ofi_location(ofi).text);
	return text;
}

int dfi__ofi_room(struct transport *transport, uint64_t size, uint64_t locked)
{
	const struct ofi *ofi = (const struct ofi *)transport;
	int ret = check_address_space(ofi, size);
	char text[160];

	(void)locked;
	if (ret < 0)
		return ret;
	return ofi->settings->huge_pages == HUGE_PAGES_REQUIRE
	    ? check_huge(ofi, size)
	    : dfi__reservation_check("", size, where(ofi, text));
}

static int map(const struct ofi *ofi, struct ofi_memory *memory, int flags)
{
	memory->at = mmap(NULL, memory->size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	if (memory->at == MAP_FAILED)
		return flags
		    ? fail_huge(ofi, memory->size, strerrordesc_np(errno))
		    : dfi__fail_map(memory->size,
			  "ofi: %s: memory to send from",
			  dfi__ofi_location(ofi).text);
	dfi__memory_keep_out(
	    memory->at, memory->size, ofi->settings->dump_rings);
	/* The advice comes before pages exist. */
	if (!flags && ofi->settings->huge_pages != HUGE_PAGES_NEVER)
		madvise(memory->at, memory->size, MADV_HUGEPAGE);
	memset(memory->at, 0, memory->size);
	return 0;
}

static int create_huge(const struct ofi *ofi, struct ofi_memory *memory)
{
	int ret = check_address_space(ofi, memory->size);

	if (!ret)
		ret = check_huge(ofi, memory->size);
	return ret ? ret : map(ofi, memory, MAP_HUGETLB | MAP_HUGE_2MB);
}

static int create_ordinary(const struct ofi *ofi, struct ofi_memory *memory)
{
	struct reservation reservation;
	char text[160];
	int ret = check_address_space(ofi, memory->size);

	if (!ret)
		ret = dfi__reservation_begin(
		    &reservation, "", memory->size, where(ofi, text));
	if (ret < 0)
		return ret;
	ret = map(ofi, memory, 0);
	dfi__reservation_end(&reservation);
	return ret;
}

static int create(
    const struct ofi *ofi, uint64_t size, struct ofi_memory *memory)
{
	uint32_t huge_pages = ofi->settings->huge_pages;

	memory->size = transport_shadow_bytes(size, true);
	if (huge_pages == HUGE_PAGES_REQUIRE)
		return create_huge(ofi, memory);
	if (huge_pages == HUGE_PAGES_TRY && size >= LEAST_HUGE &&
	    !create_huge(ofi, memory))
		return 0;
	memory->size = transport_shadow_bytes(size, false);
	return create_ordinary(ofi, memory);
}

/* ---- Send buffers ------------------------------------------------------ */

struct ofi_send_buffer {
	struct send_buffer base;
	uint64_t size;
	/* Remotes that may send from it, and 1 until its writer frees it. */
	_Atomic uint32_t users;
};

int dfi__ofi_send_buffer_create(
    struct transport *transport, uint64_t size, struct send_buffer **out)
{
	struct ofi_send_buffer *send_buffer = calloc(1, sizeof(*send_buffer));
	struct ofi_memory memory;
	int ret;

	if (!send_buffer)
		return dfi__fail(-ENOMEM, "ofi: out of memory");
	ret = create((const struct ofi *)transport, size, &memory);
	if (ret < 0) {
		free(send_buffer);
		return ret;
	}
	send_buffer->base.transport = transport;
	send_buffer->base.at = memory.at;
	send_buffer->size = memory.size;
	atomic_set(&send_buffer->users, 1);
	*out = &send_buffer->base;
	return 0;
}

void dfi__ofi_send_buffer_free(struct send_buffer *base)
{
	struct ofi_send_buffer *send_buffer = (struct ofi_send_buffer *)base;

	if (atomic_fetch_sub(&send_buffer->users, 1) > 1)
		return;
	munmap(send_buffer->base.at, send_buffer->size);
	free(send_buffer);
}

/* ---- Shadow rings ------------------------------------------------------ */

int dfi__ofi_create_shadow(struct ofi *ofi, struct ofi_remote *remote)
{
	int ret = create(ofi,
	    transport_shadow_size(
		&remote->layout, remote->base.send_buffer != NULL),
	    &remote->shadow);

	if (ret < 0) {
		remote->base.send_buffer = NULL;
		return ret;
	}
	remote->base.ring = remote->shadow.at;
	if (remote->base.send_buffer)
		atomic_fetch_add(
		    &((struct ofi_send_buffer *)remote->base.send_buffer)
			 ->users,
		    1);
	return 0;
}

void dfi__ofi_free_shadow(struct ofi_remote *remote)
{
	if (remote->base.ring)
		munmap(remote->shadow.at, remote->shadow.size);
	if (remote->base.send_buffer)
		dfi__ofi_send_buffer_free(remote->base.send_buffer);
}
