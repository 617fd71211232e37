/* SPDX-License-Identifier: Apache-2.0 */
/* Registers memory to send from, and checks what may be locked. */
#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/reservation.h"
#include "base/settings.h"
#include "transport/verbs/device/fail.h"

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

/* The rules, and the start of an error text: which device it concerns. */
static struct send_memory_rules rules_of(
    const struct verbs *verbs, uint32_t huge_pages, char what[160])
{
	snprintf(what, 160, "verbs: %s: memory for a device",
	    dfi__verbs_port(&verbs->device).text);
	return (struct send_memory_rules){
		.what = what,
		.huge_pages = huge_pages,
		.dump = verbs->settings->dump_rings,
	};
}

int dfi__verbs_room(const struct verbs *verbs, uint64_t size, uint64_t locked,
    uint32_t huge_pages)
{
	char what[160];
	struct send_memory_rules rules = rules_of(verbs, huge_pages, what);
	int ret = dfi__verbs_lock_room(verbs, locked);

	return ret < 0 ? ret : dfi__send_memory_room(&rules, size);
}

int dfi__verbs_reserve(const struct verbs *verbs, uint64_t size,
    uint64_t locked, struct reservation *reservation)
{
	char what[160];
	struct send_memory_rules rules = rules_of(
	    verbs, HUGE_PAGES_NEVER, what);
	int ret = dfi__verbs_lock_room(verbs, locked);

	return ret < 0 ? ret
		       : dfi__send_memory_reserve(&rules, size, reservation);
}

/* Registration populates the memory and reports missing pages. */
static int create(const struct verbs *verbs,
    const struct send_memory_rules *rules, uint64_t size, enum send_pages pages,
    unsigned access, struct verbs_memory *memory)
{
	struct reservation reservation;
	int ret = dfi__verbs_lock_room(
	    verbs, transport_shadow_bytes(size, pages == SEND_PAGES_HUGE));

	if (!ret)
		ret = dfi__send_memory_map(
		    rules, size, pages, &memory->base, &reservation);
	if (ret < 0)
		return ret;
	memory->mr = ibv_reg_mr(
	    verbs->pd, memory->base.at, memory->base.size, access);
	if (!memory->mr) {
		ret = dfi__verbs_fail_register(
		    &verbs->device, memory->base.size, errno);
		dfi__send_memory_free(&memory->base);
	}
	dfi__reservation_end(&reservation);
	return ret;
}

int dfi__verbs_memory_create(const struct verbs *verbs, uint64_t size,
    unsigned access, struct verbs_memory *memory)
{
	char what[160];
	struct send_memory_rules rules = rules_of(
	    verbs, verbs->settings->huge_pages, what);
	int ret = -ENOMEM;

	if (dfi__send_memory_tries_huge(&rules, size))
		ret = create(
		    verbs, &rules, size, SEND_PAGES_HUGE, access, memory);
	if (ret < 0 && rules.huge_pages != HUGE_PAGES_REQUIRE)
		ret = create(
		    verbs, &rules, size, SEND_PAGES_ORDINARY, access, memory);
	return ret;
}

void dfi__verbs_memory_free(const struct verbs_memory *memory)
{
	ibv_dereg_mr(memory->mr);
	dfi__send_memory_free(&memory->base);
}
