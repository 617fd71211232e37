/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the kernel wipes in a forked child, and who uses it. A handle
 * that two threads use at once may be freed by one of them meanwhile; so much
 * can't be told.
 */
#include "handle.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../base/log.h"

void *dfi__handle_alloc(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	if (madvise(at, size, MADV_WIPEONFORK) < 0) {
		munmap(at, size);
		return NULL;
	}
	return at;
}

void dfi__handle_free(void *handle, size_t size)
{
	munmap(handle, size);
}

int dfi__handle_check_slow(
    const void *handle, uint32_t magic, uint32_t expected)
{
	const char *kind = expected == CONTEXT_MAGIC ? "context (struct dfi)"
	    : expected == SOURCE_MAGIC               ? "source"
	    : expected == GROUP_MAGIC                ? "group of targets"
	    : expected == BARRIER_MAGIC              ? "barrier"
	    : expected == SEQUENCER_MAGIC            ? "sequencer"
						     : "target";

	if (!handle)
		return dfi__fail(-EINVAL, "the %s is NULL", kind);
	if (!magic)
		return dfi__fail(-EOWNERDEAD,
		    "the %s was opened before fork(): a child opens its own "
		    "context",
		    kind);
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
	/* A forked child has other handles, and its number is new. */
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
