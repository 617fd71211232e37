/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into each module: the library's functions there, which call those of
 * the services. So a source is the same in a module and in libdfi.a.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include "base/atomic.h"
#include "module.h"

static _Atomic(const struct services *) services;

void dfi__services_use(const struct services *of)
{
	atomic_set(&services, of);
}

static const struct services *library(void)
{
	return atomic_peek(&services);
}

/* Formats what the last named argument and those behind it say. */
#define FORMAT(text, fmt)                               \
	do {                                            \
		va_list ap;                             \
		va_start(ap, fmt);                      \
		vsnprintf(text, sizeof(text), fmt, ap); \
		va_end(ap);                             \
	} while (0)

int dfi__fail(int err, const char *fmt, ...)
{
	char text[ERROR_TEXT_SIZE];

	FORMAT(text, fmt);
	return library()->fail(err, "%s", text);
}

int dfi__fail_within(int err, const char *fmt, ...)
{
	char text[ERROR_TEXT_SIZE];

	FORMAT(text, fmt);
	return library()->fail_within(err, "%s", text);
}

const char *dfi_errmsg(void)
{
	return library()->errmsg();
}

int dfi__fail_files(int err, unsigned n, const char *call, const char *who, ...)
{
	char text[ERROR_TEXT_SIZE];

	FORMAT(text, who);
	return library()->fail_files(err, n, call, "%s", text);
}

int dfi__fail_map(uint64_t size, const char *who, ...)
{
	char text[ERROR_TEXT_SIZE];
	int err = errno; /* of mmap() */

	FORMAT(text, who);
	errno = err;
	return library()->fail_map(size, "%s", text);
}

void dfi__log(enum dfi_log_level level, const char *fmt, ...)
{
	char text[LOG_TEXT_SIZE];

	FORMAT(text, fmt);
	library()->log(level, "%s", text);
}

int dfi__file_move_up(int fd)
{
	return library()->file_move_up(fd);
}

void dfi__files_take_standard(void)
{
	library()->files_take_standard();
}

void dfi__files_free_standard(void)
{
	library()->files_free_standard();
}

int dfi__fork_add(int fd)
{
	return library()->fork_add(fd);
}

void dfi__fork_remove(int fd)
{
	library()->fork_remove(fd);
}

uint64_t dfi__memory_address_room(uint64_t *limit)
{
	return library()->memory_address_room(limit);
}

void dfi__memory_huge_room(const char *root, struct memory_room *room)
{
	library()->memory_huge_room(root, room);
}

uint64_t dfi__memory_lock_room(uint64_t *limit)
{
	return library()->memory_lock_room(limit);
}

void dfi__memory_keep_out(void *at, size_t size, bool dump)
{
	library()->memory_keep_out(at, size, dump);
}

int dfi__reservation_begin(struct reservation *reservation, const char *root,
    uint64_t bytes, const char *where)
{
	return library()->reservation_begin(reservation, root, bytes, where);
}

int dfi__reservation_check(const char *root, uint64_t bytes, const char *where)
{
	return library()->reservation_check(root, bytes, where);
}

void dfi__reservation_end(struct reservation *reservation)
{
	library()->reservation_end(reservation);
}

struct event_base *dfi__loop_base(struct loop *loop)
{
	return library()->loop_base(loop);
}

int dfi__loop_call(struct loop *loop, int (*fn)(void *arg), void *arg)
{
	return library()->loop_call(loop, fn, arg);
}

int dfi__loop_call_until(
    struct loop *loop, int (*fn)(void *arg), void *arg, int64_t deadline)
{
	return library()->loop_call_until(loop, fn, arg, deadline);
}

void dfi__loop_post(struct loop *loop, struct loop_post *post)
{
	library()->loop_post(loop, post);
}

void dfi__wait_wake(_Atomic uint32_t *word)
{
	library()->wait_wake(word);
}

bool dfi__mac_make(const void *key, size_t key_size, const void *message,
    size_t size, uint8_t mac[MAC_SIZE])
{
	return library()->mac_make(key, key_size, message, size, mac);
}

bool dfi__mac_check(const void *key, size_t key_size, const void *message,
    size_t size, const uint8_t mac[MAC_SIZE])
{
	return library()->mac_check(key, key_size, message, size, mac);
}
