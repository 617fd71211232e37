/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One set of handlers for all hooks. The C library drops them when the library
 * is unloaded.
 */
#include "fork.h"

#include <pthread.h>
#include <stddef.h>
#include "atomic.h"

/*
 * Taken before the locks of the hooks, so that fork() sees a consistent list.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool registered;
static struct fork_hook *hooks;

/* The locks are never nested, so their order does not matter. */
static void notify(enum fork_phase phase)
{
	struct fork_hook *hook;

	for (hook = hooks; hook; hook = hook->next)
		hook->fn(phase);
}

static void prepare(void)
{
	pthread_mutex_lock(&lock);
	notify(FORK_PREPARE);
}

static void parent(void)
{
	notify(FORK_PARENT);
	pthread_mutex_unlock(&lock);
}

static void child(void)
{
	notify(FORK_CHILD);
	pthread_mutex_unlock(&lock);
}

static void follow_forks(void)
{
	registered = !pthread_atfork(prepare, parent, child);
}

bool dfi__fork_follow(struct fork_hook *hook)
{
	/* Relaxed: the caller takes the lock of its file next. */
	if (atomic_peek(&hook->added))
		return true;
	/*
	 * Call it before taking lock: a fork within would leave lock taken in
	 * the child.
	 */
	pthread_once(&once, follow_forks);
	pthread_mutex_lock(&lock);
	if (registered && !atomic_peek(&hook->added)) {
		hook->next = hooks;
		hooks = hook;
		atomic_set(&hook->added, true);
	}
	pthread_mutex_unlock(&lock);
	return registered;
}
