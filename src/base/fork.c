/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One set of handlers for all. The C library forgets them when the library is
 * unloaded.
 */
#include "fork.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool registered;

/* The locks are not taken one within another, so the order is free. */
static void tell(enum fork_phase phase)
{
	dfi__error_list_at_fork(phase);
	dfi__files_at_fork(phase);
	dfi__log_at_fork(phase);
	dfi__log_writer_at_fork(phase);
	dfi__standard_files_at_fork(phase);
	dfi__notify_at_fork(phase);
	dfi__reservation_at_fork(phase);
}

static void prepare(void)
{
	tell(FORK_PREPARE);
}

static void parent(void)
{
	tell(FORK_PARENT);
}

static void child(void)
{
	tell(FORK_CHILD);
}

static void setup(void)
{
	registered = pthread_atfork(prepare, parent, child) == 0;
}

bool dfi__fork_setup(void)
{
	pthread_once(&once, setup);
	return registered;
}
