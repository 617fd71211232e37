/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into each module: the library's functions there, which call those of
 * the services. So a source is the same in a module and in libdfi.a.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include "module.h"

_Atomic(const struct services *) dfi__module_services;

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
	return module_services()->fail(err, "%s", text);
}

int dfi__fail_within(int err, const char *fmt, ...)
{
	char text[ERROR_TEXT_SIZE];

	FORMAT(text, fmt);
	return module_services()->fail_within(err, "%s", text);
}

const char *dfi_errmsg(void)
{
	return module_services()->errmsg();
}

int dfi__fail_files(int err, unsigned n, const char *call, const char *who, ...)
{
	char text[ERROR_TEXT_SIZE];

	FORMAT(text, who);
	return module_services()->fail_files(err, n, call, "%s", text);
}

int dfi__fail_map(uint64_t size, const char *who, ...)
{
	char text[ERROR_TEXT_SIZE];
	int err = errno; /* of mmap() */

	FORMAT(text, who);
	errno = err;
	return module_services()->fail_map(size, "%s", text);
}

void dfi__log(enum dfi_log_level level, const char *fmt, ...)
{
	char text[LOG_TEXT_SIZE];

	FORMAT(text, fmt);
	module_services()->log(level, "%s", text);
}

void dfi__log_seldom(struct log_throttle *throttle, enum dfi_log_level level,
    const char *fmt, ...)
{
	char text[LOG_TEXT_SIZE];

	FORMAT(text, fmt);
	module_services()->log_seldom(throttle, level, "%s", text);
}

int dfi__file_move_up(int fd)
{
	return module_services()->file_move_up(fd);
}

void dfi__files_take_standard(void)
{
	module_services()->files_take_standard();
}

void dfi__files_free_standard(void)
{
	module_services()->files_free_standard();
}

int dfi__fork_add(int fd)
{
	return module_services()->fork_add(fd);
}

void dfi__fork_remove(int fd)
{
	module_services()->fork_remove(fd);
}

uint64_t dfi__memory_address_room(uint64_t *limit)
{
	return module_services()->memory_address_room(limit);
}

void dfi__memory_huge_room(const char *root, struct memory_room *room)
{
	module_services()->memory_huge_room(root, room);
}

uint64_t dfi__memory_lock_room(uint64_t *limit)
{
	return module_services()->memory_lock_room(limit);
}

void dfi__memory_keep_out(void *at, size_t size, bool dump)
{
	module_services()->memory_keep_out(at, size, dump);
}

int dfi__reservation_begin(struct reservation *reservation, const char *root,
    uint64_t bytes, const char *where)
{
	return module_services()->reservation_begin(
	    reservation, root, bytes, where);
}

int dfi__reservation_check(const char *root, uint64_t bytes, const char *where)
{
	return module_services()->reservation_check(root, bytes, where);
}

void dfi__reservation_end(struct reservation *reservation)
{
	module_services()->reservation_end(reservation);
}

struct event_base *dfi__loop_base(struct loop *loop)
{
	return module_services()->loop_base(loop);
}

int dfi__loop_call(
    struct loop *loop, int (*fn)(void *arg), void *arg, int64_t deadline)
{
	return module_services()->loop_call(loop, fn, arg, deadline);
}

void dfi__loop_post(struct loop *loop, struct loop_post *post)
{
	module_services()->loop_post(loop, post);
}

void dfi__loop_unpost(struct loop *loop, struct loop_post *post)
{
	module_services()->loop_unpost(loop, post);
}

bool dfi__loop_is_current(const struct loop *loop)
{
	return module_services()->loop_is_current(loop);
}

void dfi__loop_end(struct loop *loop, struct loop_post *post, int64_t deadline)
{
	module_services()->loop_end(loop, post, deadline);
}

void dfi__wait_wake(_Atomic uint32_t *word)
{
	module_services()->wait_wake(word);
}

void dfi__fork_close(int fd)
{
	module_services()->fork_close(fd);
}

int dfi__key_file_read(const char *path, unsigned char key[REGISTRY_KEY_BYTES])
{
	return module_services()->key_file_read(path, key);
}

int dfi__secret_file_open(
    const char *path, const char *what, enum secret_readers readers)
{
	return module_services()->secret_file_open(path, what, readers);
}
