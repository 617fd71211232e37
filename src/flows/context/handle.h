/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of handles. The kernel wipes it in a forked child. An inherited handle
 * is then invalid there: its magic is zero and its lanes are empty. So the
 * child can't write into the parent's rings.
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

/* How many of the latest closed handles the process still recognises. */
#define CLOSED_HANDLES 64

/*
 * The offset of the magic in every kind of handle. The fields that the public
 * inline functions use come before it.
 */
#define HANDLE_MAGIC_OFFSET 48

/*
 * The offset of the number of holders; see dfi__handle_hold(). Contexts and the
 * handles that other threads may abort have it.
 */
#define HANDLE_ABORTERS_OFFSET 52

/* Returns zeroed, page-aligned memory, or NULL. */
void *dfi__handle_alloc(size_t size);

/*
 * Free a handle. If it had its magic, its first page gets CLOSED_MAGIC and
 * stays until CLOSED_HANDLES others were closed.
 */
void dfi__handle_free(void *handle, size_t size);

/*
 * A thread that is not the owner holds a handle while it uses it, as the owner
 * may close the handle meanwhile. dfi__handle_hold() returns false once the
 * close has begun; there is then nothing to release. The owner calls
 * dfi__handle_retire(): it waits until all holds are released, and later holds
 * fail.
 */
bool dfi__handle_hold(void *handle, uint32_t magic);
void dfi__handle_release(void *handle);
void dfi__handle_retire(void *handle);

/*
 * For calls from signal handlers: hold a handle, set its flag and wake its
 * owner, which may be about to sleep. Preserves errno.
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
 * -EINVAL: handle is NULL or of another kind. -EBADF: it was closed.
 * -EOWNERDEAD: this is a forked child.
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
 * Debug builds detect two threads that use one handle at once. A call on a
 * source, target, group or barrier marks the handle. A second thread gets
 * -EBUSY instead of damaging the stream. Nested calls of one thread are
 * allowed. Inline functions of the public headers have no check.
 *
 * HANDLE_CALL(user, busy) is the first line of such a call. user is the
 * handle's word, or NULL. busy is the value to return; in it, call.other is the
 * other thread. A call that moves no tuples and may wait for more than a peer's
 * memory uses HANDLE_WAITING_CALL() or HANDLE_LAST_CALL(): the thread can't be
 * cancelled in it.
 */
struct handle_call {
	_Atomic uint32_t *user; /* the word to clear, or NULL */
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

/* For a call that returns nothing; it evaluates busy. */
#define HANDLE_VOID_CALL(user, busy)                                     \
	__attribute__((cleanup(handle_leave))) struct handle_call call = \
	    dfi__handle_enter(user);                                     \
	if (call.other) {                                                \
		(void)(busy);                                            \
		return;                                                  \
	}

/* For a call that frees the handle. */
#define HANDLE_LAST_CALL(user, busy)                       \
	CANCEL_POINT;                                      \
	struct handle_call call = dfi__handle_enter(user); \
	if (call.other)                                    \
	return busy

#define HANDLE_WAITING_CALL(user, busy) \
	CANCEL_POINT;                   \
	HANDLE_CALL(user, busy)
#endif

/* Log the misuse and set the error text, which begins with `what`; -EBUSY. */
int dfi__handle_shared(uint32_t other, const char *what, ...)
    __attribute__((format(printf, 2, 3), cold));

#endif
