/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that networks send from: shadow rings and send buffers. It has huge
 * pages if possible, as rings in shared memory do: they shorten the page tables
 * of the device and the processor.
 */
#ifndef DFI_TRANSPORT_SEND_MEMORY_H
#define DFI_TRANSPORT_SEND_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct reservation;

enum send_pages {
	SEND_PAGES_ORDINARY, /* which the kernel may make huge */
	SEND_PAGES_HUGE,
};

struct send_memory {
	void *at;
	uint64_t size;
};

/* What it depends on. */
struct send_memory_rules {
	const char *what;    /* for texts: "ofi: tcp: memory to send from" */
	uint32_t huge_pages; /* as in the settings */
	bool dump;           /* core files may have it */
};

/* Check that there is room: 0, or -ENOMEM with need, limit and remedy. */
int dfi__send_memory_room(const struct send_memory_rules *rules, uint64_t size);

/*
 * The same for ordinary pages, which the caller fills before it ends the
 * reservation (base/reservation.h).
 */
int dfi__send_memory_reserve(const struct send_memory_rules *rules,
    uint64_t size, struct reservation *reservation);

/* Whether memory of this size has huge pages if there are any. */
bool dfi__send_memory_tries_huge(
    const struct send_memory_rules *rules, uint64_t size);

/*
 * Map memory and reserve room for its pages. The caller fills it, so that no
 * page is missing later, before it ends the reservation.
 */
int dfi__send_memory_map(const struct send_memory_rules *rules, uint64_t size,
    enum send_pages pages, struct send_memory *memory,
    struct reservation *reservation);
void dfi__send_memory_free(const struct send_memory *memory);

#endif
