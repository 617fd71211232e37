/* SPDX-License-Identifier: Apache-2.0 */
/* See send_memory.h. */
#include "send_memory.h"

#include <errno.h>
#include <linux/mman.h>
#include <string.h>
#include <sys/mman.h>
#include "base/bits.h"
#include "base/error.h"
#include "base/maps.h"
#include "base/memory.h"
#include "base/reservation.h"
#include "base/settings.h"
#include "transport.h"

/* Below that, most of a huge page would be unused. */
#define LEAST_HUGE (TRANSPORT_HUGE_PAGE / 2)

static int check_address_space(const char *what, uint64_t size)
{
	uint64_t limit, room = dfi__memory_address_room(&limit);

	if (size <= room)
		return 0;
	return dfi__fail(-ENOMEM,
	    "%s: %lu bytes take address space, but %lu are left of %lu: raise "
	    "the limit (ulimit -v), or make rings smaller (segment_count, "
	    "DFI_RING_MEMORY)",
	    what, (unsigned long)size, (unsigned long)room,
	    (unsigned long)limit);
}

static int fail_huge(const char *what, uint64_t size, const char *limit)
{
	return dfi__fail(-ENOMEM,
	    "%s: %lu bytes of huge pages are not free (%s): reserve %lu pages "
	    "of 2 MiB (sysctl vm.nr_hugepages), or set DFI_HUGE_PAGES=try",
	    what, (unsigned long)size, limit,
	    (unsigned long)(size / TRANSPORT_HUGE_PAGE));
}

/* Otherwise page by page would be taken, until none is left. */
static int check_huge(const char *what, uint64_t size)
{
	struct memory_room room;

	size = align_up(size, TRANSPORT_HUGE_PAGE);
	dfi__memory_huge_room("", &room);
	return size <= room.bytes ? 0 : fail_huge(what, size, room.limit);
}

/* Check the part for which no huge pages are available. */
static int check_ordinary(const struct send_memory_rules *rules, uint64_t size)
{
	struct memory_room huge = { .bytes = 0 };

	if (rules->huge_pages == HUGE_PAGES_TRY)
		dfi__memory_huge_room("", &huge);
	if (huge.bytes == UINT64_MAX)
		huge.bytes = 0;
	return dfi__reservation_check(
	    "", size - min_u64(size, huge.bytes), rules->what);
}

int dfi__send_memory_room(const struct send_memory_rules *rules, uint64_t size)
{
	int ret = check_address_space(rules->what, size);

	if (ret < 0)
		return ret;
	return rules->huge_pages == HUGE_PAGES_REQUIRE
	    ? check_huge(rules->what, size)
	    : check_ordinary(rules, size);
}

int dfi__send_memory_reserve(const struct send_memory_rules *rules,
    uint64_t size, struct reservation *reservation)
{
	int ret = check_address_space(rules->what, size);

	return ret < 0
	    ? ret
	    : dfi__reservation_begin(reservation, "", size, rules->what);
}

bool dfi__send_memory_tries_huge(
    const struct send_memory_rules *rules, uint64_t size)
{
	return rules->huge_pages == HUGE_PAGES_REQUIRE ||
	    (rules->huge_pages == HUGE_PAGES_TRY && size >= LEAST_HUGE);
}

static int map(const struct send_memory_rules *rules,
    struct send_memory *memory, int flags)
{
	memory->at = mmap(NULL, memory->size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	if (memory->at == MAP_FAILED)
		return flags ? fail_huge(rules->what, memory->size,
				   strerrordesc_np(errno))
			     : dfi__fail_map(memory->size, "%s", rules->what);
	dfi__memory_keep_out(memory->at, memory->size, rules->dump);
	/* The advice comes before pages exist. */
	if (!flags && rules->huge_pages != HUGE_PAGES_NEVER)
		madvise(memory->at, memory->size, MADV_HUGEPAGE);
	return 0;
}

static int map_huge(
    const struct send_memory_rules *rules, struct send_memory *memory)
{
	int ret = check_address_space(rules->what, memory->size);

	if (!ret)
		ret = check_huge(rules->what, memory->size);
	return ret ? ret : map(rules, memory, MAP_HUGETLB | MAP_HUGE_2MB);
}

int dfi__send_memory_map(const struct send_memory_rules *rules, uint64_t size,
    enum send_pages pages, struct send_memory *memory,
    struct reservation *reservation)
{
	int ret;

	memory->size = transport_shadow_bytes(size, pages == SEND_PAGES_HUGE);
	/* The kernel reserves huge pages when it maps them. */
	*reservation = (struct reservation){ .fd = -1 };
	if (pages == SEND_PAGES_HUGE)
		return map_huge(rules, memory);
	ret = dfi__send_memory_reserve(rules, memory->size, reservation);
	if (!ret)
		ret = map(rules, memory, 0);
	if (ret < 0)
		dfi__reservation_end(reservation);
	return ret;
}

void dfi__send_memory_free(const struct send_memory *memory)
{
	munmap(memory->at, memory->size);
}
