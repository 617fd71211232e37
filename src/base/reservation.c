/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is /run/user/UID/dfi-memory-UID.lock. If the user has no such
 * folder, it is in /run if that is the user's (root's), else in /dev/shm. Other
 * users can't open it. If one of them makes the file first, there is no lock
 * between processes, and a warning is logged.
 *
 * Locks belong to open file descriptions (F_OFD_SETLK, fcntl(2)), so that
 * threads exclude each other as processes do:
 *
 *	byte 0          held while looking for room, less than a millisecond
 *	slot i          1 + (i << SLOT_SHIFT), and one byte for each page that
 *	                is being filled
 *
 * Nothing is written to the file, so limits and a full disk do not matter, and
 * no lock is left when a process dies.
 */
#include "reservation.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "atomic.h"
#include "bits.h"
#include "clock.h"
#include "error.h"
#include "files.h"
#include "fork_files.h"
#include "log.h"
#include "memory.h"
#include "user.h"

enum {
	SLOTS = 128,
	SLOT_SHIFT = 48, /* there are at most 2^48 pages of 4 KiB */
	PAGE_SHIFT = 12,
};

#define MOST_PAGES ((UINT64_C(1) << SLOT_SHIFT) - 1)
#define BACKOFF_MIN_NS INT64_C(100000)
#define BACKOFF_MAX_NS INT64_C(10000000)

int64_t dfi__reservation_wait_limit_ns = INT64_C(5) * NS_PER_S;

/*
 * The process whose thread looks for room: used instead of the file where there
 * is none.
 */
static _Atomic pid_t alone_in;
static _Atomic bool said;

/*
 * Page tables take a 512th of the memory, those of a file a 440th. The rest is
 * memory that the process needs to go on.
 */
static uint64_t cost_of(uint64_t bytes)
{
	uint64_t tables = bytes / 128 + (UINT64_C(1) << 20);

	return bytes + min_u64(tables, UINT64_MAX - bytes);
}

static bool is_private(const char *folder, uid_t user)
{
	struct stat stat;

	return lstat(folder, &stat) == 0 && S_ISDIR(stat.st_mode) &&
	    stat.st_uid == user && !(stat.st_mode & (S_IWGRP | S_IWOTH));
}

static void file_name(const char *root, char *name, size_t size)
{
	uid_t user = geteuid();
	char folder[256];

	snprintf(folder, sizeof(folder), "%s/run/user/%u", root, user);
	if (!is_private(folder, user)) {
		snprintf(folder, sizeof(folder), "%s/run", root);
		if (!is_private(folder, user))
			snprintf(folder, sizeof(folder), "%s/dev/shm", root);
	}
	snprintf(name, size, "%s/dfi-memory-%u.lock", folder, user);
}

static bool is_ours(int fd)
{
	struct stat stat;

	return fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) &&
	    stat.st_uid == geteuid() && stat.st_nlink == 1 &&
	    (stat.st_mode & 0777) == 0600;
}

/* Log it once: the reason most likely stays. */
static void say_alone(const char *name, const char *why)
{
	if (!atomic_exchange(&said, true))
		dfi__log(DFI_LOG_WARN,
		    "%s can't be a lock (%s): processes that open rings at "
		    "the same time may together take more memory than there "
		    "is: let it be a file of this user alone, of mode 600",
		    name, why);
}

static int open_file(const char *root)
{
	char name[300];
	int fd;

	file_name(root, name, sizeof(name));
	if (!dfi__user_is_mapped(geteuid())) {
		say_alone(name,
		    "this process's user namespace does not map its user, so "
		    "that the file may be anybody's");
		return -1;
	}
	fd = file_up(open(name,
	    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
	    0600));
	if (fd < 0) {
		/* The reservation fails for the same reason. */
		if (errno != EMFILE && errno != ENFILE)
			say_alone(name, strerrordesc_np(errno));
		return -1;
	}
	if (!is_ours(fd)) {
		say_alone(name, "it is another's, or open to others");
		close(fd);
		return -1;
	}
	if (dfi__fork_add_unmapped(fd) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static struct flock lock_of(short type, uint64_t start, uint64_t length)
{
	return (struct flock){
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)start,
		.l_len = (off_t)length,
	};
}

static int set_lock(int fd, short type, uint64_t start, uint64_t length)
{
	struct flock lock = lock_of(type, start, length);

	return fcntl(fd, F_OFD_SETLK, &lock);
}

/* How many bytes other open file descriptions have locked there, at least. */
static uint64_t locked(int fd, uint64_t start, uint64_t length)
{
	struct flock lock = lock_of(F_WRLCK, start, length);

	if (fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return 0;
	return (uint64_t)lock.l_len;
}

static uint64_t slot_start(unsigned slot)
{
	return 1 + ((uint64_t)slot << SLOT_SHIFT);
}

/* Count the pages that others are filling, and find a free slot, or SLOTS. */
static uint64_t look_at_slots(int fd, unsigned *slot)
{
	uint64_t pages, all = 0;
	unsigned i;

	*slot = 0;
	if (!locked(fd, slot_start(0), slot_start(SLOTS) - slot_start(0)))
		return 0;
	*slot = SLOTS;
	for (i = 0; i < SLOTS; i++) {
		pages = locked(fd, slot_start(i), MOST_PAGES);
		if (!pages && *slot == SLOTS)
			*slot = i;
		all += pages;
	}
	return min_u64(all, UINT64_MAX >> PAGE_SHIFT) << PAGE_SHIFT;
}

/* The result of looking for room. */
struct look {
	struct memory_room room;
	uint64_t filling; /* bytes of that room that others are filling */
};

/*
 * Bare codes. 0: there is room beside what others are filling. -EAGAIN: there
 * may be room later. -ENOMEM: there is none.
 */
static int judge(const struct look *look, uint64_t cost)
{
	if (cost > look->room.bytes)
		return -ENOMEM;
	return cost >
		look->room.bytes - min_u64(look->filling, look->room.bytes)
	    ? -EAGAIN
	    : 0;
}

/*
 * -EBUSY: another opener holds the file's first lock. -EIO: the file can't be
 * locked.
 */
static int try_file(int fd, const char *root, uint64_t cost, struct look *look)
{
	unsigned slot;
	int ret;

	if (set_lock(fd, F_WRLCK, 0, 1) < 0)
		return errno == EAGAIN || errno == EACCES ? -EBUSY : -EIO;
	dfi__memory_room(root, &look->room);
	look->filling = look_at_slots(fd, &slot);
	ret = slot == SLOTS ? -EAGAIN : judge(look, cost);
	if (!ret &&
	    set_lock(fd, F_WRLCK, slot_start(slot),
		min_u64((cost >> PAGE_SHIFT) + 1, MOST_PAGES)) < 0)
		ret = -EIO;
	set_lock(fd, F_UNLCK, 0, 1);
	return ret;
}

static int try_alone(struct reservation *reservation, const char *root,
    uint64_t cost, struct look *look)
{
	pid_t self = getpid(), holder = atomic_peek(&alone_in);
	int ret;

	/*
	 * Pairs with the store in dfi__reservation_end(): memory_room() counts
	 * the other thread's pages from then on. In a forked child the parent's
	 * holder does not count.
	 */
	if (holder == self ||
	    !atomic_compare_exchange_strong(&alone_in, &holder, self))
		return -EBUSY;
	look->filling = 0;
	dfi__memory_room(root, &look->room);
	ret = judge(look, cost);
	if (ret < 0)
		atomic_publish(&alone_in, 0);
	else
		reservation->alone = true;
	return ret;
}

static int try(struct reservation *reservation, const char *root, uint64_t cost,
    struct look *look)
{
	int ret;

	if (reservation->fd >= 0) {
		ret = try_file(reservation->fd, root, cost, look);
		if (ret != -EIO)
			return ret;
		say_alone("a file", "its system has no locks");
		dfi__fork_close(reservation->fd);
		reservation->fd = -1;
	}
	return try_alone(reservation, root, cost, look);
}

static void pace(int64_t *length)
{
	struct timespec time = { .tv_nsec = *length };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
	*length = *length < BACKOFF_MAX_NS / 2 ? 2 * *length : BACKOFF_MAX_NS;
}

static int refuse(
    const struct look *look, uint64_t bytes, uint64_t cost, const char *where)
{
	char others[96] = "";

	if (cost <= look->room.bytes)
		snprintf(others, sizeof(others),
		    ", of which other threads or processes just take %" PRIu64,
		    look->filling);
	return dfi__fail(-ENOMEM,
	    "%s of %" PRIu64 " bytes needs %" PRIu64 " with the kernel's "
	    "tables, but %" PRIu64 " are left (%s)%s: free memory, raise the "
	    "limit, or make rings smaller (segment_count, DFI_RING_MEMORY)",
	    where, bytes, cost, look->room.bytes, look->room.limit, others);
}

int dfi__reservation_check(const char *root, uint64_t bytes, const char *where)
{
	uint64_t cost = cost_of(bytes);
	struct look look = { .filling = 0 };

	dfi__memory_room(root, &look.room);
	return judge(&look, cost) ? refuse(&look, bytes, cost, where) : 0;
}

int dfi__reservation_begin(struct reservation *reservation, const char *root,
    uint64_t bytes, const char *where)
{
	int64_t deadline = clock_now_ns() + dfi__reservation_wait_limit_ns;
	int64_t length = BACKOFF_MIN_NS;
	uint64_t cost = cost_of(bytes);
	struct look look;
	int ret;

	*reservation = (struct reservation){ .fd = open_file(root) };
	for (;;) {
		ret = try(reservation, root, cost, &look);
		if ((ret != -EAGAIN && ret != -EBUSY) ||
		    clock_now_ns() >= deadline)
			break;
		pace(&length);
	}
	/*
	 * The holder of the lock may be stopped. Openers must not depend on it.
	 */
	if (ret == -EBUSY) {
		dfi__log(DFI_LOG_WARN,
		    "%s: another thread or process of this user looks for "
		    "memory, and doesn't come to an end: it is not waited for",
		    where);
		look.filling = 0;
		dfi__memory_room(root, &look.room);
		ret = judge(&look, cost);
	}
	if (!ret)
		return 0;
	dfi__reservation_end(reservation);
	return refuse(&look, bytes, cost, where);
}

/* Unlock explicitly: a child that is being forked may have the file open. */
void dfi__reservation_end(struct reservation *reservation)
{
	if (reservation->fd >= 0) {
		set_lock(reservation->fd, F_UNLCK, 0, 0);
		dfi__fork_close(reservation->fd);
		reservation->fd = -1;
	}
	if (reservation->alone)
		atomic_publish(&alone_in, 0);
	reservation->alone = false;
}
