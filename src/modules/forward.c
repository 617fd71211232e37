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

const struct services *dfi__services_used(void)
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
	return dfi__services_used()->fail(err, "%s", text);
}

int dfi__fail_within(int err, const char *fmt, ...)
{
	char text[ERROR_TEXT_SIZE];

	FORMAT(text, fmt);
	return dfi__services_used()->fail_within(err, "%s", text);
}

const char *dfi_errmsg(void)
{
	return dfi__services_used()->errmsg();
}

int dfi__fail_files(int err, unsigned n, const char *call, const char *who, ...)
{
	char text[ERROR_TEXT_SIZE];

	FORMAT(text, who);
	return dfi__services_used()->fail_files(err, n, call, "%s", text);
}

int dfi__fail_map(uint64_t size, const char *who, ...)
{
	char text[ERROR_TEXT_SIZE];
	int err = errno; /* of mmap() */

	FORMAT(text, who);
	errno = err;
	return dfi__services_used()->fail_map(size, "%s", text);
}

void dfi__log(enum dfi_log_level level, const char *fmt, ...)
{
	char text[LOG_TEXT_SIZE];

	FORMAT(text, fmt);
	dfi__services_used()->log(level, "%s", text);
}

void dfi__log_seldom(struct log_throttle *throttle, enum dfi_log_level level,
    const char *fmt, ...)
{
	char text[LOG_TEXT_SIZE];

	FORMAT(text, fmt);
	dfi__services_used()->log_seldom(throttle, level, "%s", text);
}

int dfi__file_move_up(int fd)
{
	return dfi__services_used()->file_move_up(fd);
}

void dfi__files_take_standard(void)
{
	dfi__services_used()->files_take_standard();
}

void dfi__files_free_standard(void)
{
	dfi__services_used()->files_free_standard();
}

int dfi__fork_add(int fd)
{
	return dfi__services_used()->fork_add(fd);
}

void dfi__fork_remove(int fd)
{
	dfi__services_used()->fork_remove(fd);
}

uint64_t dfi__memory_address_room(uint64_t *limit)
{
	return dfi__services_used()->memory_address_room(limit);
}

void dfi__memory_huge_room(const char *root, struct memory_room *room)
{
	dfi__services_used()->memory_huge_room(root, room);
}

uint64_t dfi__memory_lock_room(uint64_t *limit)
{
	return dfi__services_used()->memory_lock_room(limit);
}

void dfi__memory_keep_out(void *at, size_t size, bool dump)
{
	dfi__services_used()->memory_keep_out(at, size, dump);
}

int dfi__reservation_begin(struct reservation *reservation, const char *root,
    uint64_t bytes, const char *where)
{
	return dfi__services_used()->reservation_begin(
	    reservation, root, bytes, where);
}

int dfi__reservation_check(const char *root, uint64_t bytes, const char *where)
{
	return dfi__services_used()->reservation_check(root, bytes, where);
}

void dfi__reservation_end(struct reservation *reservation)
{
	dfi__services_used()->reservation_end(reservation);
}

struct event_base *dfi__loop_base(struct loop *loop)
{
	return dfi__services_used()->loop_base(loop);
}

int dfi__loop_call(
    struct loop *loop, int (*fn)(void *arg), void *arg, int64_t deadline)
{
	return dfi__services_used()->loop_call(loop, fn, arg, deadline);
}

void dfi__loop_post(struct loop *loop, struct loop_post *post)
{
	dfi__services_used()->loop_post(loop, post);
}

void dfi__loop_unpost(struct loop *loop, struct loop_post *post)
{
	dfi__services_used()->loop_unpost(loop, post);
}

bool dfi__loop_is_current(const struct loop *loop)
{
	return dfi__services_used()->loop_is_current(loop);
}

void dfi__loop_end(struct loop *loop, struct loop_post *post, int64_t deadline)
{
	dfi__services_used()->loop_end(loop, post, deadline);
}

void dfi__wait_wake(_Atomic uint32_t *word)
{
	dfi__services_used()->wait_wake(word);
}

void dfi__fork_close(int fd)
{
	dfi__services_used()->fork_close(fd);
}

int dfi__key_file_read(const char *path, unsigned char key[REGISTRY_KEY_BYTES])
{
	return dfi__services_used()->key_file_read(path, key);
}

int dfi__secret_file_open(
    const char *path, const char *what, enum secret_readers readers)
{
	return dfi__services_used()->secret_file_open(path, what, readers);
}
