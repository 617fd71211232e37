/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors: none of the library's is 0, 1 or 2, which others read and
 * write without having opened them; and what to say when the system gives none.
 */
#ifndef DFI_BASE_FILES_H
#define DFI_BASE_FILES_H

/*
 * Sysctl fs.nr_open as it was when the first context was opened, or 0. For
 * texts; tests change it.
 */
extern _Atomic unsigned long dfi__files_nr_open;

/*
 * Record what errno value err of a call means for who needs n descriptors in
 * all, and return it: -EMFILE, with need, limit and remedy, for the process's
 * limit and for the system's; -ENOMEM; else -EIO.
 */
int dfi__fail_files(int err, unsigned n, const char *call, const char *who, ...)
    __attribute__((format(printf, 4, 5), cold));

/*
 * For what the library has just opened: fd, or in the place of 0, 1 and 2 a
 * copy with a higher number and FD_CLOEXEC. -1 stays -1; without a number left
 * fd is closed, and it is -1 with errno.
 */
int dfi__file_move_up(int fd);

static inline int file_up(int fd)
{
	return fd > 2 ? fd : dfi__file_move_up(fd);
}

/*
 * Around what another library opens: those of 0, 1 and 2 that are free are
 * taken by what can't be read or written. For moments only, and without calls
 * of the application's: one thread at a time is here.
 */
void dfi__files_take_standard(void);
void dfi__files_free_standard(void);

#endif
