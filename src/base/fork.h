/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork() and what the whole process shares: the child, which has one thread,
 * must find no lock taken by a thread that it does not have.
 */
#ifndef DFI_BASE_FORK_H
#define DFI_BASE_FORK_H

#include <stdbool.h>

/*
 * Before a lock of the process is taken: have it looked after. false: no
 * memory for that; then it is so for good. Any thread, any number of times.
 */
bool dfi__fork_setup(void);

enum fork_phase {
	FORK_PREPARE, /* in the thread that forks */
	FORK_PARENT,
	FORK_CHILD,
};

/*
 * What the owners of such locks do. None is kept from being free by code that
 * is not the library's: else fork() could wait for itself.
 */
void dfi__error_list_at_fork(enum fork_phase phase);
void dfi__files_at_fork(enum fork_phase phase); /* fork_files.h */
void dfi__log_at_fork(enum fork_phase phase);
void dfi__log_writer_at_fork(enum fork_phase phase);
void dfi__standard_files_at_fork(enum fork_phase phase);
void dfi__notify_at_fork(enum fork_phase phase);
void dfi__reservation_at_fork(enum fork_phase phase);

#endif
