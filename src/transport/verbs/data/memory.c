/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers the memory of shadow rings, from which a source sends segments that
 * lie in no send buffer. It uses huge pages if possible, as rings in shared
 * memory do: they shorten the page tables of the device and the processor.
 */

#include "memory.h"

#include <linux/mman.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/bits.h"
#include "base/error.h"
#include "base/maps.h"
#include "base/memory.h"
#include "base/reservation.h"
#include "base/settings.h"
#include "transport/verbs/device/fail.h"

/* Below that, most of a huge page would be unused. */
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

static int check_address_space(const struct verbs *verbs, uint64_t size)
{
	uint64_t limit, room = dfi__memory_address_room(&limit);

	if (size <= room)
		return 0;
	return dfi__fail(-ENOMEM,
	    "verbs: %s: %lu bytes for a device to use take address space, "
	    "but %lu are left of %lu: raise the limit (ulimit -v), or make "
	    "rings smaller (segment_count, DFI_RING_MEMORY)",
	    dfi__verbs_port(&verbs->device).text, (unsigned long)size,
	    (unsigned long)room, (unsigned long)limit);
}

static int fail_huge(
    const struct verbs *verbs, uint64_t size, const char *limit)
{
	return dfi__fail(-ENOMEM,
	    "verbs: %s: %lu bytes of huge pages to send from are not free "
	    "(%s): reserve %lu pages of 2 MiB (sysctl vm.nr_hugepages), or set "
	    "DFI_HUGE_PAGES=try",
	    dfi__verbs_port(&verbs->device).text, (unsigned long)size, limit,
	    (unsigned long)(size / TRANSPORT_HUGE_PAGE));
}

/* Otherwise page by page would be taken, until none is left. */
static int check_huge(const struct verbs *verbs, uint64_t size)
{
	struct memory_room room;

	size = align_up(size, TRANSPORT_HUGE_PAGE);
	dfi__memory_huge_room("", &room);
	return size <= room.bytes ? 0 : fail_huge(verbs, size, room.limit);
}

/* The start of an error text: which device it concerns. */
static const char *where(const struct verbs *verbs, char text[160])
{
	snprintf(text, 160, "verbs: %s: memory for a device",
	    dfi__verbs_port(&verbs->device).text);
	return text;
}

/* Check the part for which no huge pages are available. */
static int check_ordinary(
    const struct verbs *verbs, uint64_t size, uint32_t huge_pages)
{
	struct memory_room huge = { .bytes = 0 };
	char text[160];

	if (huge_pages == HUGE_PAGES_TRY)
		dfi__memory_huge_room("", &huge);
	if (huge.bytes == UINT64_MAX)
		huge.bytes = 0;
	return dfi__reservation_check(
	    "", size - min_u64(size, huge.bytes), where(verbs, text));
}

/* Check the limits that are known without searching memory. */
static int check_limits(
    const struct verbs *verbs, uint64_t size, uint64_t locked)
{
	int ret = dfi__verbs_lock_room(verbs, locked);

	return ret < 0 ? ret : check_address_space(verbs, size);
}

int dfi__verbs_room(const struct verbs *verbs, uint64_t size, uint64_t locked,
    uint32_t huge_pages)
{
	int ret = check_limits(verbs, size, locked);

	if (!ret)
		ret = huge_pages == HUGE_PAGES_REQUIRE
		    ? check_huge(verbs, size)
		    : check_ordinary(verbs, size, huge_pages);
	return ret;
}

int dfi__verbs_reserve(const struct verbs *verbs, uint64_t size,
    uint64_t locked, struct reservation *reservation)
{
	int ret = check_limits(verbs, size, locked);
	char text[160];

	return ret < 0
	    ? ret
	    : dfi__reservation_begin(reservation, "", size, where(verbs, text));
}

/* Registration populates the memory and reports missing pages. */
static int register_at(
    const struct verbs *verbs, struct verbs_memory *memory, unsigned access)
{
	int ret;

	memory->mr = ibv_reg_mr(verbs->pd, memory->at, memory->size, access);
	if (memory->mr)
		return 0;
	ret = dfi__verbs_fail_register(&verbs->device, memory->size, errno);
	munmap(memory->at, memory->size);
	return ret;
}

static int create_huge(
    const struct verbs *verbs, struct verbs_memory *memory, unsigned access)
{
	int ret = dfi__verbs_room(
	    verbs, memory->size, memory->size, HUGE_PAGES_REQUIRE);

	if (ret < 0)
		return ret;
	memory->at = mmap(NULL, memory->size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
	if (memory->at == MAP_FAILED)
		return fail_huge(verbs, memory->size, strerrordesc_np(errno));
	dfi__memory_keep_out(
	    memory->at, memory->size, verbs->settings->dump_rings);
	return register_at(verbs, memory, access);
}

static int map_ordinary(
    const struct verbs *verbs, struct verbs_memory *memory, unsigned access)
{
	memory->at = mmap(NULL, memory->size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory->at == MAP_FAILED)
		return dfi__fail_map(memory->size,
		    "verbs: %s: memory to send from",
		    dfi__verbs_port(&verbs->device).text);
	dfi__memory_keep_out(
	    memory->at, memory->size, verbs->settings->dump_rings);
	/* The advice comes before pages exist. */
	if (verbs->settings->huge_pages != HUGE_PAGES_NEVER)
		madvise(memory->at, memory->size, MADV_HUGEPAGE);
	return register_at(verbs, memory, access);
}

static int create_ordinary(
    const struct verbs *verbs, struct verbs_memory *memory, unsigned access)
{
	struct reservation reservation;
	int ret = dfi__verbs_reserve(
	    verbs, memory->size, memory->size, &reservation);

	if (ret < 0)
		return ret;
	ret = map_ordinary(verbs, memory, access);
	dfi__reservation_end(&reservation);
	return ret;
}

int dfi__verbs_memory_create(const struct verbs *verbs, uint64_t size,
    unsigned access, struct verbs_memory *memory)
{
	uint32_t huge_pages = verbs->settings->huge_pages;

	memory->size = transport_shadow_bytes(size, true);
	if (huge_pages == HUGE_PAGES_REQUIRE)
		return create_huge(verbs, memory, access);
	if (huge_pages == HUGE_PAGES_TRY && size >= LEAST_HUGE &&
	    !create_huge(verbs, memory, access))
		return 0;
	memory->size = transport_shadow_bytes(size, false);
	return create_ordinary(verbs, memory, access);
}

void dfi__verbs_memory_free(const struct verbs_memory *memory)
{
	ibv_dereg_mr(memory->mr);
	munmap(memory->at, memory->size);
}
