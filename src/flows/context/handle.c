/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of handles, which the kernel wipes in a forked child, and the check
 * for concurrent use. The check is best-effort: one of two threads may free the
 * handle while the other uses it.
 */
#include "handle.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/log.h"

void *dfi__handle_alloc(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (at == MAP_FAILED)
		return NULL;
	if (madvise(at, size, MADV_WIPEONFORK) < 0) {
		err = errno;
		munmap(at, size);
		errno = err;
		return NULL;
	}
	return at;
}

/*
 * First pages of closed handles, a circular list whose oldest is at
 * next_closed. They stay mapped, so no new handle gets their addresses, and a
 * call with a closed handle is recognised.
 */
static _Atomic(void *) closed[CLOSED_HANDLES];
static _Atomic uint32_t next_closed;

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Runs when the library is unloaded or the process ends. */
__attribute__((destructor)) static void forget_closed(void)
{
	void *page;
	size_t i;

	for (i = 0; i < CLOSED_HANDLES; i++) {
		page = atomic_exchange(&closed[i], NULL);
		if (page)
			munmap(page, page_size());
	}
}

static uint32_t *magic_of(void *handle)
{
	return (uint32_t *)(void *)((char *)handle + HANDLE_MAGIC_OFFSET);
}

static _Atomic uint32_t *aborters_of(void *handle)
{
	return (_Atomic uint32_t *)(void *)((char *)handle +
	    HANDLE_ABORTERS_OFFSET);
}

void dfi__handle_free(void *handle, size_t size)
{
	size_t page = page_size(), mapped = (size + page - 1) / page * page;
	char *at = handle;
	uint32_t slot;

	/* The handle was never given to a caller. */
	if (!*magic_of(handle)) {
		munmap(handle, size);
		return;
	}
	__atomic_store_n(magic_of(handle), CLOSED_MAGIC, __ATOMIC_RELAXED);
	if (mapped > page)
		munmap(at + page, mapped - page);
	/*
	 * Wipe it as in a forked child: the inline functions find nothing to
	 * use.
	 */
	memset(at, 0, HANDLE_MAGIC_OFFSET);
	memset(at + HANDLE_ABORTERS_OFFSET + sizeof(uint32_t), 0,
	    page - HANDLE_ABORTERS_OFFSET - sizeof(uint32_t));
	slot = atomic_fetch_add(&next_closed, 1) % CLOSED_HANDLES;
	at = atomic_exchange(&closed[slot], handle);
	if (at)
		munmap(at, page);
}

bool dfi__handle_hold(void *handle, uint32_t magic)
{
	if (__atomic_load_n(magic_of(handle), __ATOMIC_RELAXED) != magic)
		return false;
	/*
	 * Pairs with dfi__handle_retire(): either this thread sees the retired
	 * magic, or the owner sees this thread. The page stays mapped after a
	 * close.
	 */
	atomic_fetch_add(aborters_of(handle), 1);
	if (__atomic_load_n(magic_of(handle), __ATOMIC_SEQ_CST) == magic)
		return true;
	dfi__handle_release(handle);
	return false;
}

void dfi__handle_release(void *handle)
{
	atomic_fetch_sub(aborters_of(handle), 1);
}

void dfi__handle_retire(void *handle)
{
	__atomic_store_n(magic_of(handle), CLOSED_MAGIC, __ATOMIC_SEQ_CST);
	while (atomic_load(aborters_of(handle)))
		sched_yield();
}

int dfi__handle_check_slow(
    const void *handle, uint32_t magic, uint32_t expected)
{
	const char *kind = expected == CONTEXT_MAGIC ? "context (struct dfi)"
	    : expected == SOURCE_MAGIC               ? "source"
	    : expected == GROUP_MAGIC                ? "group of targets"
	    : expected == BARRIER_MAGIC              ? "barrier"
	    : expected == SEQUENCER_MAGIC            ? "sequencer"
	    : expected == COMBINER_MAGIC             ? "combiner"
						     : "target";

	if (!handle)
		return dfi__fail(-EINVAL, "the %s is NULL", kind);
	if (!magic)
		return dfi__fail(-EOWNERDEAD,
		    "the %s was opened before fork(): a child opens its own "
		    "context",
		    kind);
	if (magic == CLOSED_MAGIC)
		return dfi__fail(-EBADF, "the %s was closed before", kind);
	return dfi__fail(-EINVAL,
	    "the handle is of another kind: this call takes a %s", kind);
}

int dfi__handle_shared(uint32_t other, const char *what, ...)
{
	char name[160];
	va_list ap;

	va_start(ap, what);
	vsnprintf(name, sizeof(name), what, ap);
	va_end(ap);
	dfi__fail(-EBUSY,
	    "%s: thread %u is inside a call on it, and thread %u has made "
	    "another: a handle belongs to one thread at a time",
	    name, other, (uint32_t)gettid());
	dfi__log(DFI_LOG_ERROR, "%s", dfi_errmsg());
	return -EBUSY;
}

#ifndef NDEBUG
struct handle_call dfi__handle_enter(_Atomic uint32_t *user)
{
	static _Thread_local uint32_t self;
	struct handle_call call = { .user = user };
	uint32_t other = 0;

	if (!user)
		return call;
	/*
	 * A forked child has no valid handle of its parent, and a new thread
	 * id.
	 */
	if (!self)
		self = (uint32_t)gettid();
	if (atomic_compare_exchange_strong_explicit(
		user, &other, self, memory_order_relaxed, memory_order_relaxed))
		return call;
	call.user = NULL;
	call.other = other == self ? 0 : other;
	return call;
}
#endif
