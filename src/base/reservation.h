/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations: checking for room and filling memory with pages, as one step.
 * Without them, several openers would find the same room at once, and the
 * kernel would kill one of them. A reservation locks a part of an empty file
 * that all processes of a user share; the part is as long as the reservation
 * has pages. The kernel drops the lock with its process. Reservations do not
 * hold off other programs, other users or malloc().
 */
#ifndef DFI_BASE_RESERVATION_H
#define DFI_BASE_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>

struct reservation {
	int fd;     /* holds the lock, or -1 */
	bool alone; /* without a file, for this process only */
};

/*
 * Call it before filling bytes of memory. If they would fit only without the
 * memory that others are filling, it waits, for a few seconds at most. -ENOMEM
 * with need, room and limit. where says what needs the memory, for the text.
 * root is as for dfi__memory_room(). Any thread.
 */
int dfi__reservation_begin(struct reservation *reservation, const char *root,
    uint64_t bytes, const char *where);

/* Call it when the memory is filled or given back. */
void dfi__reservation_end(struct reservation *reservation);

/*
 * Whether there is room for this many bytes now: 0, or -ENOMEM as above. It
 * reserves nothing and never waits.
 */
int dfi__reservation_check(const char *root, uint64_t bytes, const char *where);

/* How long to wait; only tests change it. */
extern int64_t dfi__reservation_wait_limit_ns;

#endif
