/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations: looking whether there is room for memory, and filling that
 * memory with pages, as one step. Else several openers at once would all find
 * the same room, and the kernel would end one of them.
 *
 * A reservation holds a lock on a part of an empty file that all processes of
 * one user share: as long a part as it has pages. The kernel drops the lock
 * with its process. Memory that is taken by other programs, by other users and
 * by malloc() is not held off.
 */
#ifndef DFI_BASE_RESERVATION_H
#define DFI_BASE_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>

struct reservation {
	int fd;     /* that holds the lock, or -1 */
	bool alone; /* without the file: excludes this process's threads */
};

/*
 * Before so many bytes are filled. Waits while they fit only without what
 * others are filling, at most a few seconds. -ENOMEM with need, room and limit,
 * where: what needs it, for the text. root: as for dfi__memory_room(). Any
 * thread.
 */
int dfi__reservation_begin(struct reservation *reservation, const char *root,
    uint64_t bytes, const char *where);

/* When they are filled, or given back. */
void dfi__reservation_end(struct reservation *reservation);

/*
 * Whether there is room for so many bytes now, without reserving any: 0, or
 * -ENOMEM as above. It never waits.
 */
int dfi__reservation_check(const char *root, uint64_t bytes, const char *where);

/* How long to wait; only tests change it. */
extern int64_t dfi__reservation_wait_limit_ns;

#endif
