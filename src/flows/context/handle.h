/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of handles. It is wiped in a forked child, so that a handle that the
 * child inherits is seen to be dead (its magic is zero, its lanes are empty),
 * and the child can't write into the parent's rings through it.
 */
#ifndef DFI_FLOWS_CONTEXT_HANDLE_H
#define DFI_FLOWS_CONTEXT_HANDLE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/cancel.h"
#include "base/compiler.h"
#include "base/error.h"

#define CONTEXT_MAGIC UINT32_C(0xdf1c0001)
#define SOURCE_MAGIC UINT32_C(0xdf1c0002)
#define TARGET_MAGIC UINT32_C(0xdf1c0003)
#define GROUP_MAGIC UINT32_C(0xdf1c0004)
#define BARRIER_MAGIC UINT32_C(0xdf1c0005)
#define SEQUENCER_MAGIC UINT32_C(0xdf1c0006)
#define COMBINER_MAGIC UINT32_C(0xdf1c0007)
#define CLOSED_MAGIC UINT32_C(0xdf1cffff)

/* Handles that were closed, the last of the process, that are known as such. */
#define CLOSED_HANDLES 64

/*
 * Where every kind of handle has its magic, behind what the public inline
 * functions use of some: so that one kind is told from another.
 */
#define HANDLE_MAGIC_OFFSET 48

/*
 * And behind it, in those that other threads may abort, and in contexts, how
 * many are at it; see dfi__handle_hold().
 */
#define HANDLE_ABORTERS_OFFSET 52

/* Zeroed, page-aligned memory; NULL without. */
void *dfi__handle_alloc(size_t size);

/*
 * A handle that had its magic gets CLOSED_MAGIC, and its first page stays until
 * CLOSED_HANDLES others were closed.
 */
void dfi__handle_free(void *handle, size_t size);

/*
 * For a thread that is not the owner, around what it does with a handle that
 * the owner may close meanwhile: false if that has begun, and then there is
 * nothing to let go. dfi__handle_retire() is for the owner: it waits until all
 * have let go, and nobody gets a hold any more.
 */
bool dfi__handle_hold(void *handle, uint32_t magic);
void dfi__handle_release(void *handle);
void dfi__handle_retire(void *handle);

/*
 * For calls that signal handlers make: set a flag of a handle, whose owner may
 * be about to sleep, and wake it, within a hold. errno stays as it was.
 */
#define HANDLE_SIGNAL(handle, magic, flag, wake)                       \
	do {                                                           \
		int saved = errno;                                     \
                                                                       \
		if ((handle) && dfi__handle_hold((handle), (magic))) { \
			atomic_set((flag), true);                      \
			wake;                                          \
			dfi__handle_release(handle);                   \
		}                                                      \
		errno = saved;                                         \
	} while (0)

/*
 * -EINVAL for NULL or another kind than expected, -EBADF for one that was
 * closed, -EOWNERDEAD in a forked child.
 */
int dfi__handle_check_slow(
    const void *handle, uint32_t magic, uint32_t expected);

static inline int handle_check(
    const void *handle, const uint32_t *magic, uint32_t expected)
{
	if (likely(handle && *magic == expected))
		return 0;
	return dfi__handle_check_slow(handle, handle ? *magic : 0, expected);
}

/*
 * In debug builds: a call that begins on a source, target, group or barrier
 * says so in the handle, so that another thread that comes meanwhile is told
 * instead of damaging the stream. Calls within calls are one thread's. What is
 * inline in the public headers is not seen.
 *
 * HANDLE_CALL(user, busy) is the first line of such a call; user is the
 * handle's word, or NULL if it has none, and busy is what to return, where
 * call.other is the other thread. One that moves no tuples, and may wait for
 * more than a peer's memory, is a HANDLE_WAITING_CALL(), or the last one: the
 * thread can't be cancelled in it.
 */
struct handle_call {
	_Atomic uint32_t *user; /* ours to clear */
	uint32_t other;
};

#ifdef NDEBUG
#define HANDLE_CALL(user, busy)
#define HANDLE_LAST_CALL(user, busy) CANCEL_POINT
#define HANDLE_WAITING_CALL(user, busy) CANCEL_POINT
#define HANDLE_VOID_CALL(user, busy)
#else
struct handle_call dfi__handle_enter(_Atomic uint32_t *user);

static inline void handle_leave(struct handle_call *call)
{
	if (call->user)
		atomic_store_explicit(call->user, 0, memory_order_relaxed);
}

#define HANDLE_CALL(user, busy)                                          \
	__attribute__((cleanup(handle_leave))) struct handle_call call = \
	    dfi__handle_enter(user);                                     \
	if (call.other)                                                  \
	return busy

/* One that returns nothing; busy is only done. */
#define HANDLE_VOID_CALL(user, busy)                                     \
	__attribute__((cleanup(handle_leave))) struct handle_call call = \
	    dfi__handle_enter(user);                                     \
	if (call.other) {                                                \
		(void)(busy);                                            \
		return;                                                  \
	}

/* One that frees the handle. */
#define HANDLE_LAST_CALL(user, busy)                       \
	CANCEL_POINT;                                      \
	struct handle_call call = dfi__handle_enter(user); \
	if (call.other)                                    \
	return busy

#define HANDLE_WAITING_CALL(user, busy) \
	CANCEL_POINT;                   \
	HANDLE_CALL(user, busy)
#endif

/* The text and the line in the log for it, with what it is first: -EBUSY. */
int dfi__handle_shared(uint32_t other, const char *what, ...)
    __attribute__((format(printf, 2, 3), cold));

#endif
