/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors. None of the library's is 0, 1 or 2, which other code uses
 * without opening them. Also error texts for when the system has no descriptor
 * left.
 */
#ifndef DFI_BASE_FILES_H
#define DFI_BASE_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

/*
 * Sysctl fs.nr_open when the first context was opened, or 0. For texts; tests
 * change it.
 */
extern _Atomic unsigned long dfi__files_nr_open;

/*
 * Record the error text for errno value err of a call, and return the code. who
 * needs n descriptors. -EMFILE, with need, limit and remedy: the limit of the
 * process or of the system is reached. -ENOMEM. Else -EIO.
 */
int dfi__fail_files(int err, unsigned n, const char *call, const char *who, ...)
    __attribute__((format(printf, 4, 5), cold));

/*
 * For a descriptor that the library has just opened. Returns fd; for 0, 1 and 2
 * it returns a copy with a higher number and FD_CLOEXEC. -1 stays -1. If no
 * number is left, it closes fd and returns -1 with errno.
 */
int dfi__file_move_up(int fd);

static inline int file_up(int fd)
{
	return fd > 2 ? fd : dfi__file_move_up(fd);
}

/*
 * Whether a file may not have that size. Beyond this limit, growing a file
 * raises a signal instead of an error.
 */
static inline bool file_exceeds_limit(uint64_t size)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur;
}

/*
 * Call these around code of another library that opens descriptors. They fill
 * the free ones among 0, 1 and 2 with descriptors that can't be read or
 * written. One thread at a time gets past the first call, so stay briefly and
 * call no code of the application.
 */
void dfi__files_take_standard(void);
void dfi__files_free_standard(void);

#endif
